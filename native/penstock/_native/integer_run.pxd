# Integers that lie next to each other in memory; see integer_run.pyx.

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class IntegerRun:
    cdef const int64_t[::1] values
    cdef Py_ssize_t position
    cdef Py_ssize_t end
