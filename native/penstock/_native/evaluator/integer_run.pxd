# Contiguous integers in memory; see integer_run.pyx.

cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class IntegerRun:
    cdef object buffer              # of the values; a view would add Cython code to each user
    cdef const int64_t *values      # NULL if they are their own positions
    cdef Py_ssize_t position
    cdef Py_ssize_t end

    cdef int count(self, numbers) except -1


cdef inline int64_t integer_of(IntegerRun run) noexcept:
    """Return the next integer of a run that has one."""
    run.position += 1
    return run.position - 1 if run.values == NULL else run.values[run.position - 1]
