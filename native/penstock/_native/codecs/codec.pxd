# The codec of one type: the tree of nodes and its entry points.

cimport cython

from penstock._native.codecs.codec_node cimport CodecNode
from penstock._native.wire.wire cimport Reader, Writer


cdef CodecNode compile_node(object schema)


@cython.final
cdef class Codec:
    cdef readonly object schema
    cdef readonly CodecNode root
    cdef bint takes_none

    cdef int encode_into(self, Writer *writer, object value) except -1
    cdef int explain(self, object value) except -1
    cdef object decode_whole(self, const unsigned char *data, Py_ssize_t size)
