cimport cython

from cpython.object cimport PyObject

# The number of recorded values after which they are checked for other owners.
cdef enum:
    FEW = 32


cdef struct Lent:
    PyObject *state     # owned, like the others
    PyObject *contents
    PyObject *key
    PyObject *element
    PyObject *value


@cython.final
cdef class LentValues:
    cdef Lent lent[FEW]
    cdef int count
    cdef dict held      # the values that other code may change, as ``_held`` of the pure twin
    cdef Py_ssize_t limit

    cpdef int lend(
        self, object state, object contents, object key, object element, object value
    ) except -1
    cpdef int lend_part(self, object state, object contents, object key, object value) except -1
    cdef int take_over(self) except -1
    cdef int forget(self) except -1
