# Integers between Python and C; see integers.h.

from cpython.object cimport PyObject
from libc.stdint cimport int64_t


cdef extern from "values/integers.h":
    bint ps_short_int(PyObject *integer, int64_t *value) noexcept

    ctypedef struct PsIntCache:
        pass

    # Returns a new reference.
    PyObject *ps_cached_int(PsIntCache *cache, int64_t value) except NULL
    void ps_clear_ints(PsIntCache *cache) noexcept
