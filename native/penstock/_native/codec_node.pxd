# The node of a compiled type: writes and reads the values of one field.

from penstock._native.wire cimport Reader, Writer


cdef class CodecNode:
    cdef readonly object schema
    cdef readonly str name
    cdef object exact           # the class of the values that come back as they are, or None

    # The value is never None, save for nodes that say they take it.
    cdef int encode_into(self, Writer *writer, object value) except -1
    cdef object decode_from(self, Reader *reader)
    # Whether a value certainly comes back as it is.
    cdef bint keeps(self, object value) except -1
