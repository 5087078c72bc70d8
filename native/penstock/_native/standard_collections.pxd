# Collections of the standard library; see penstock.serialization.standard_collections.

from libc.stdint cimport uint8_t

from penstock._native.instances cimport ClassForm
from penstock._native.wire cimport Reader, Writer


cdef enum:
    DEQUE = 0x24
    ORDERED_DICT = 0x25
    COUNTER = 0x26
    DEFAULT_DICT = 0x27

# What holds the elements, if there is no more to a collection but what its form says; else None.
cdef object elements_of(object value)

# False, and nothing written, if there is more to a collection.
cdef bint write_collection(Writer *writer, ClassForm form, object value, int depth) except -1
cdef object read_collection(Reader *reader, uint8_t tag)
