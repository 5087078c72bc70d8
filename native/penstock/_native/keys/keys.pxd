# C declarations for python/penstock/serialization/pure/keys.py, which Cython compiles as
# penstock._native.keys.keys.

cimport cython


@cython.final
cdef class CanonicalKey:
    cdef readonly object form
    cdef readonly object key
    cdef readonly Py_hash_t form_hash


@cython.locals(items=tuple)
cpdef bint is_plain(object key, int depth) except -1


cpdef object identity_of(object key)
cpdef bint is_flat(object items) except -1


@cython.locals(canonical=CanonicalKey)
cpdef object key_of(object identity)


@cython.final
cdef class ExactType:
    cdef readonly object kind
    cdef readonly int bits
    cdef long long _limit       # of integers of fewer than 64 bits, else 0
    cdef readonly tuple fields

    @cython.locals(number=cython.longlong)
    cpdef bint has(self, object value) except -1
    @cython.locals(i=Py_ssize_t, field=ExactType)
    cdef bint _has_items(self, tuple items) except -1


@cython.final
cdef class KeyConversion:
    cdef ExactType _exact
    cdef object _convert
    cdef readonly long long conversions

    cdef object _converted(self, object key)


@cython.locals(conversion=KeyConversion)
cpdef object converted(object convert, object key)


@cython.final
cdef class KeyReader:
    cdef readonly object selector
    cdef readonly Py_ssize_t position
    cdef readonly object plain
    cdef readonly object other
    cdef readonly object convert
    cdef readonly object attribute
    cdef readonly object item

    @cython.locals(fields=tuple)
    cpdef object read(self, object value)
    cdef object _taken(self, object value)
    cpdef object identity(self, object key)
