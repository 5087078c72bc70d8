# Functions that only compute, evaluated without the interpreter; see evaluator.h.

cimport cython
from cpython.object cimport PyObject

from penstock._native.integer_run cimport IntegerRun
from penstock._native.registers cimport PsMade, PsProgram


# What comes of an element.
cdef enum Step:
    FAILED = -1
    DROPPED = 0
    MADE        # an object
    FIELDS      # a tuple that was not made; `ps_end` is owed once its fields have been read


@cython.final
cdef class Expression:
    cdef object function
    cdef object dropped
    cdef object function_of_all
    cdef object program
    cdef PsProgram machine

    cpdef long long number_of(self, object value, long long number) except? -1
    cdef PsProgram *ready(self) noexcept
    # `ps_end` is owed for a tuple.
    cdef bint begin(self, PsMade *made) except -1


@cython.final
cdef class ExpressionIterator:
    cdef Expression expression
    cdef object values
    cdef IntegerRun integers    # the same, if they are such; else None

    cdef object next_of_integers(self)
    # The object is a new reference.
    cdef Step step(self, object value, PsMade *made, PyObject **result) except FAILED
    cdef object made_tuple(self, PsMade *made)
    cdef object called(self, object value)
