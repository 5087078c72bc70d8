# The self-describing codec: values of undeclared type.

cimport cython
from libc.stdint cimport int64_t

from penstock._native.codecs.codec_node cimport CodecNode
from penstock._native.wire.wire cimport Reader, Writer


cdef int encode_dynamic(Writer *writer, object value, int depth) except -1
cdef object decode_dynamic(Reader *reader)
# Reads an integer of up to 64 bits; returns False and reads nothing for another value.
cdef bint read_number(Reader *reader, int64_t *number) except -1
# An integer of 64 bits, in its shortest form.
cdef int write_number(Writer *writer, int64_t number) except -1
# Writes the bytes that precede the fields of a tuple.
cdef int write_tuple_header(Writer *writer, Py_ssize_t count) except -1


@cython.final
cdef class DynamicNode(CodecNode):
    pass
