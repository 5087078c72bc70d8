# Functions that only compute, evaluated without the interpreter; see evaluator.h.

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t


cdef extern from "evaluator.h":
    enum:
        PS_MAX_REGISTERS
        PS_NOT_HERE
        PS_DONE
        PS_DROPPED

    ctypedef struct PsValue:
        PyObject *object
        int64_t number

    ctypedef struct PsInstruction:
        int32_t operation
        int32_t number
        PsValue *target
        PsValue *left
        PsValue *right
        const int16_t *list

    ctypedef struct PsProgram:
        int parameters
        PsInstruction instructions[PS_MAX_REGISTERS]
        int16_t lists[PS_MAX_REGISTERS]
        PsValue registers[PS_MAX_REGISTERS]
        PyObject *constants[PS_MAX_REGISTERS]

    bint ps_as_number(PsValue *value, int64_t *number) noexcept
    void ps_rely_on(PsProgram *program, PyObject *function, bint uses_defaults) noexcept
    bint ps_is_given_up(const PsProgram *program) noexcept
    bint ps_is_ready(const PsProgram *program) noexcept
    int ps_evaluate(PsProgram *program, PsValue *result) except -1


@cython.final
cdef class Expression:
    cdef object function
    cdef object dropped
    cdef object function_of_all
    cdef object program
    cdef PsProgram machine


@cython.final
cdef class ExpressionIterator:
    cdef Expression expression
    cdef object values
