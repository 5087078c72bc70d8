# What instances of plain classes may hold; see penstock.serialization.plain_instances.

from cpython.object cimport PyObject


cdef enum:
    # `MAX_COLLECTIONS` there, which the module checks.
    COLLECTIONS = 8


# The collections that an instance holds, as far as they have been met.
cdef struct Collections:
    int count
    PyObject *met[COLLECTIONS]


# Whether an attribute leads neither back to its instance nor to one of the collections.
cdef bint stands_alone(object value, Collections *known) noexcept
