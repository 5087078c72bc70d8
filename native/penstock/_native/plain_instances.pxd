# What is written of instances of plain classes; see penstock.serialization.instance_fields.

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from penstock._native.instances cimport ClassForm


cdef enum:
    # `MAX_PARTS` there, which the module checks.
    PARTS = 128
    SEEN_WORDS = 4


# The collections and instances that an instance holds, as far as they have been met.
cdef struct Parts:
    int count
    # A bit for each address, of which several have one; valid once there are any.
    uint64_t seen[SEEN_WORDS]
    PyObject *met[PARTS]


# Whether an attribute leads neither back to its instance nor to one of the parts.
cdef bint stands_alone(object value, Parts *known) except -1

# Of an instance of a subclass of a builtin class, that class's value; None if there is more to it.
cdef object builtin_of(ClassForm form, object value)
