# Functions that only compute, evaluated without the interpreter; see evaluator.h.

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from penstock._native.evaluator.integer_run cimport IntegerRun
from penstock._native.evaluator.registers cimport PsMade, PsProgram


# The outcome for a record.
cdef enum Step:
    FAILED = -1
    DROPPED = 0
    MADE        # an object
    FIELDS      # a tuple without an object; call `ps_end` once its fields have been read
    ENDED       # there are no more records


@cython.final
cdef class Expression:
    cdef object function
    cdef object dropped
    cdef object function_of_all
    cdef object program
    cdef PsProgram machine
    cdef readonly bint takes_fields     # of its first argument, which it uses only as this type

    cpdef long long number_of(self, object value, long long number) except? -1
    cdef int number_of_fields(self, const PsMade *fields, int64_t *number) except -1
    cdef PsProgram *ready(self) noexcept
    # Call `ps_end` after a tuple.
    cdef bint begin(self, PsMade *made) except -1


@cython.final
cdef class ExpressionIterator:
    cdef Expression expression
    cdef object values
    cdef object current         # the record that `step` processed last
    cdef IntegerRun integers    # the records, if they are integers; else None

    cdef object next_of_integers(self)
    # The object is a new reference.
    cdef Step step(self, PsMade *made, PyObject **result) except FAILED
    cdef Step step_of(self, PyObject *value, int64_t number, PsMade *made,
                      PyObject **result) except FAILED
    cdef object made_tuple(self, PsMade *made)
    cdef object called(self, object value)
