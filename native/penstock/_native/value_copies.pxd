cimport cython


@cython.final
cdef class ValueCopier:
    cdef readonly str where

    cpdef object copied(self, object value)
    cpdef list copied_all(self, object values)
