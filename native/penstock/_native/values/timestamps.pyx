"""Conversion of timestamps from user functions, as in ``penstock.common.timestamps``."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from penstock._native.values.integers cimport ps_short_int

from penstock.common import timestamps


cdef extern from "Python.h":
    bint PyLong_CheckExact(PyObject *value)
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1


cpdef long long timestamp_of(object given, object giver) except? -1:
    """Return a user's timestamp in whole milliseconds; replaces the plain one in shared sources."""
    cdef int64_t number
    cdef int overflow = 0
    if PyLong_CheckExact(<PyObject *>given):
        if ps_short_int(<PyObject *>given, &number):
            return number
        number = PyLong_AsLongLongAndOverflow(given, &overflow)
        if not overflow:
            return number
    return timestamps.timestamp_of(given, giver)
