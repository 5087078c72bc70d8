# Integers that lie next to each other in memory; see integer_run.pyx.

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class IntegerRun:
    cdef object buffer              # of the values; as a view it would bring Cython's to each user
    cdef const int64_t *values
    cdef Py_ssize_t position
    cdef Py_ssize_t end
