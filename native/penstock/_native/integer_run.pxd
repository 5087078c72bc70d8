# Integers that lie next to each other in memory; see integer_run.pyx.

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class IntegerRun:
    cdef object buffer              # of the values; as a view it would bring Cython's to each user
    cdef const int64_t *values      # NULL if they are their own positions
    cdef Py_ssize_t position
    cdef Py_ssize_t end

    cdef int count(self, numbers) except -1


cdef inline int64_t integer_of(IntegerRun run) noexcept:
    """The next integer of a run that has one."""
    run.position += 1
    return run.position - 1 if run.values == NULL else run.values[run.position - 1]
