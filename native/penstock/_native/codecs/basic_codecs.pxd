# Nodes of scalar types.

cimport cython

from penstock._native.codecs.codec_node cimport CodecNode
from penstock._native.wire.wire cimport Reader, Writer


cdef int write_big_int(Writer *writer, object number) except -1
cdef object read_big_int(Reader *reader)


@cython.final
cdef class StringNode(CodecNode):
    pass


@cython.final
cdef class BooleanNode(CodecNode):
    pass


@cython.final
cdef class ByteNode(CodecNode):
    pass


@cython.final
cdef class ShortNode(CodecNode):
    pass


@cython.final
cdef class IntNode(CodecNode):
    pass


@cython.final
cdef class LongNode(CodecNode):
    pass


@cython.final
cdef class BigIntNode(CodecNode):
    pass


@cython.final
cdef class FloatNode(CodecNode):
    pass


@cython.final
cdef class DoubleNode(CodecNode):
    pass


@cython.final
cdef class BytesNode(CodecNode):
    pass


cdef class ConvertedNode(CodecNode):
    cdef object to_wire
    cdef object from_wire
    cdef CodecNode wire
