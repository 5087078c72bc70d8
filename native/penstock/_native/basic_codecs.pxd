# Nodes of scalar types.

from penstock._native.codec_node cimport CodecNode
from penstock._native.wire cimport Reader, Writer


cdef int write_big_int(Writer *writer, object number) except -1
cdef object read_big_int(Reader *reader)


cdef class StringNode(CodecNode):
    pass


cdef class BooleanNode(CodecNode):
    pass


cdef class ByteNode(CodecNode):
    pass


cdef class ShortNode(CodecNode):
    pass


cdef class IntNode(CodecNode):
    pass


cdef class LongNode(CodecNode):
    pass


cdef class BigIntNode(CodecNode):
    pass


cdef class FloatNode(CodecNode):
    pass


cdef class DoubleNode(CodecNode):
    pass


cdef class BytesNode(CodecNode):
    pass


cdef class ConvertedNode(CodecNode):
    cdef object to_wire
    cdef object from_wire
    cdef CodecNode wire
