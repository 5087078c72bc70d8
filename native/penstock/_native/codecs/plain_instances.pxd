# The encoding of instances of plain classes; see penstock.serialization.instance_fields.

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from penstock._native.codecs.instances cimport ClassForm


cdef enum:
    # `MAX_PARTS` there, which the module checks.
    PARTS = 128
    SEEN_WORDS = 4


# The collections and instances within an instance that were visited so far.
cdef struct Parts:
    int count
    # A bit for each hashed address, shared by several; valid once there are any parts.
    uint64_t seen[SEEN_WORDS]
    PyObject *met[PARTS]


# Whether an attribute refers neither to its instance nor to a visited part.
cdef bint stands_alone(object value, Parts *known) except -1

# The builtin value of a subclass instance; None if the instance has further state.
cdef object builtin_of(ClassForm form, object value)
