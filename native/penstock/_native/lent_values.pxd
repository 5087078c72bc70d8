cimport cython

from cpython.object cimport PyObject

# The number of values to note before the check which of them are still held.
cdef enum:
    FEW = 32


cdef struct Lent:
    PyObject *state     # owned, as the others
    PyObject *contents
    PyObject *key
    PyObject *element
    PyObject *value


@cython.final
cdef class LentValues:
    cdef Lent lent[FEW]
    cdef int count
    cdef dict held      # those that are held: as ``_held`` of the pure twin
    cdef Py_ssize_t limit

    cpdef int lend(
        self, object state, object contents, object key, object element, object value
    ) except -1
    cpdef int lend_part(self, object state, object contents, object key, object value) except -1
    cdef int take_over(self) except -1
    cdef int forget(self) except -1
