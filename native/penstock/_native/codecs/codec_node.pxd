# The node of a compiled type: writes and reads the values of one field.

from penstock._native.wire.wire cimport Reader, Writer


cdef class CodecNode:
    cdef readonly object schema
    cdef readonly str name
    cdef object exact           # the class of values that decode unchanged, or None

    # The value is never None, except for nodes that accept it.
    cdef int encode_into(self, Writer *writer, object value) except -1
    cdef object decode_from(self, Reader *reader)
    # Whether a value certainly decodes unchanged.
    cdef bint keeps(self, object value) except -1
