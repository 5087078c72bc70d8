# Collections of the standard library; see penstock.serialization.standard_collections.

from libc.stdint cimport uint8_t

from penstock._native.codecs.instances cimport ClassForm
from penstock._native.wire.wire cimport Reader, Writer


cdef enum:
    DEQUE = 0x24
    ORDERED_DICT = 0x25
    COUNTER = 0x26
    DEFAULT_DICT = 0x27

# The container of the elements, if the form describes the collection completely; else None.
cdef object elements_of(object value)

# Returns False and writes nothing if a collection has further state.
cdef bint write_collection(Writer *writer, ClassForm form, object value, int depth) except -1
cdef object read_collection(Reader *reader, uint8_t tag)
