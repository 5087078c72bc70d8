# The registers of a program; see registers.h.

from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t


cdef extern from "evaluator/registers.h":
    enum:
        PS_MAX_REGISTERS

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
        int64_t evaluated
        int64_t given_up
        PsInstruction instructions[PS_MAX_REGISTERS]
        int16_t lists[PS_MAX_REGISTERS]
        PsValue registers[PS_MAX_REGISTERS]
        PyObject *constants[PS_MAX_REGISTERS]

    # The result of an evaluation; `ps_field` reads the fields of a tuple without an object.
    ctypedef struct PsMade:
        PsProgram *program
        const PsInstruction *fields

    bint ps_as_number(const PsValue *value, int64_t *number) noexcept
    Py_ssize_t ps_field_count(const PsMade *made) noexcept
    const PsValue *ps_field(const PsMade *made, Py_ssize_t index) noexcept
    void ps_end(PsMade *made) noexcept
