# The self-describing codec: values of undeclared type.

cimport cython

from penstock._native.codec_node cimport CodecNode
from penstock._native.wire cimport Reader, Writer


cdef int encode_dynamic(Writer *writer, object value, int depth) except -1
cdef object decode_dynamic(Reader *reader)


@cython.final
cdef class DynamicNode(CodecNode):
    pass
