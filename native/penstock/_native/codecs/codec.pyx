"""Native codecs: convert values of one type to bytes and back.

Byte-identical with ``penstock.serialization.pure.codec``; see docs/formats/codec.md.
"""

from sys import exc_info

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free

from penstock._native.codecs.basic_codecs cimport (
    BigIntNode, BooleanNode, ByteNode, BytesNode, ConvertedNode, DoubleNode, FloatNode, IntNode,
    LongNode, ShortNode, StringNode,
)
from penstock._native.codecs.composite_codecs cimport (
    ListNode, MapNode, RowNode, TupleNode, certainly_writes,
)
from penstock._native.codecs.dynamic_codec cimport DynamicNode
from penstock._native.codecs.time_codecs cimport TimestampNode
from penstock._native.wire.failure cimport fail_misfit
from penstock._native.wire.wire cimport ps_load32, ps_store32, reserve

from penstock.errors import CorruptStreamError, SerializationError
from penstock.serialization.pure.codec import Codec as PureCodec
from penstock.serialization.type_schema import SQL_TIMESTAMP, TIMESTAMP_LTZ

cdef dict NODES = {
    "ANY": DynamicNode,
    "STRING": StringNode,
    "BOOLEAN": BooleanNode,
    "BYTE": ByteNode,
    "SHORT": ShortNode,
    "INT": IntNode,
    "LONG": LongNode,
    "BIG_INT": BigIntNode,
    "FLOAT": FloatNode,
    "DOUBLE": DoubleNode,
    "BYTES": BytesNode,
    "CONVERTED": ConvertedNode,
    "TUPLE": TupleNode,
    "ROW": RowNode,
    "LIST": ListNode,
    "ARRAY": ListNode,
    "MAP": MapNode,
}


cdef CodecNode compile_node(object schema):
    cdef list fields = [compile_node(field) for field in schema.fields]
    if schema == SQL_TIMESTAMP or schema == TIMESTAMP_LTZ:
        return TimestampNode(schema, *fields)
    return NODES[schema.kind](schema, *fields)


cdef class Codec:
    """Converts values of one type to bytes and back.

    It is stateless after construction, so any thread may use it.
    """

    def __cinit__(self, schema):
        self.schema = schema
        self.root = compile_node(schema)
        self.takes_none = schema.kind == "ANY"

    cdef int encode_into(self, Writer *writer, object value) except -1:
        """Write a value; after an error, the written bytes are invalid."""
        cdef bint done = False
        # A finally, not an except: C code enters it without saving the exception state.
        try:
            if value is None and not self.takes_none:
                fail_misfit(self.schema.name)
            self.root.encode_into(writer, value)
            done = True
        finally:
            if not done:
                self.explain(value)
        return 0

    cdef int explain(self, object value) except -1:
        """Let the pure codec raise an error that names the value and the field."""
        if isinstance(exc_info()[1], SerializationError):
            # A value that changed meanwhile may be valid now: keep the first error.
            PureCodec(self.schema).encode(value)
        return 0

    cdef object decode_whole(self, const unsigned char *data, Py_ssize_t size):
        """Return the value encoded by exactly these bytes."""
        cdef Reader reader
        cdef object value
        reader.position = data
        reader.end = data + size
        reader.depth = 0
        value = self.root.decode_from(&reader)
        if reader.position != reader.end:
            raise CorruptStreamError(
                f"{reader.end - reader.position} bytes are left after a {self.schema.name}"
            )
        return value

    def encode(self, value):
        """Return the bytes of a value.

        Raises:
            SerializationError: the value is not of the type; the message names value, type and
                field.
        """
        cdef uint8_t block[512]
        cdef Writer writer
        writer.data = block
        writer.position = 0
        writer.capacity = sizeof(block)
        writer.scratch = NULL
        writer.scratch_capacity = 0
        writer.numbered = False
        try:
            self.encode_into(&writer, value)
            return PyBytes_FromStringAndSize(<const char *>writer.data, writer.position)
        finally:
            free(writer.scratch)

    def certainly_writes(self, value):
        """Return whether a value is of the type, as far as that is known without encoding it.

        False says nothing about the value.
        """
        return certainly_writes(self.root, value)

    def encode_batch(self, values):
        """Return the encoded values in order, each with its length as in a record buffer (M8)."""
        cdef uint8_t block[512]
        cdef Writer writer
        cdef size_t start
        cdef object value
        writer.data = block
        writer.position = 0
        writer.capacity = sizeof(block)
        writer.scratch = NULL
        writer.scratch_capacity = 0
        writer.numbered = False
        try:
            for value in values:
                start = writer.position
                reserve(&writer, 4)
                writer.position += 4
                self.encode_into(&writer, value)
                ps_store32(writer.data + start, <uint32_t>(writer.position - start - 4))
            return PyBytes_FromStringAndSize(<const char *>writer.data, writer.position)
        finally:
            free(writer.scratch)

    def decode_batch(self, data):
        """Return the values that :meth:`encode_batch` wrote.

        Raises:
            CorruptStreamError: the bytes are not whole values of the type.
        """
        cdef Py_buffer view
        cdef const uint8_t *position
        cdef const uint8_t *end
        cdef size_t size
        cdef list values = []
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            position = <const uint8_t *>view.buf
            end = position + view.len
            while position < end:
                if end - position < 4:
                    raise CorruptStreamError("a value's length is cut off")
                size = ps_load32(position)
                position += 4
                if size > <size_t>(end - position):
                    raise CorruptStreamError(f"a value of {size} bytes, {end - position} are left")
                values.append(self.decode_whole(position, size))
                position += size
            return values
        finally:
            PyBuffer_Release(&view)

    def decode_at(self, data, Py_ssize_t position):
        """Decode the bytes from ``position`` on."""
        return self.decode(memoryview(data)[position:])

    def decode(self, data):
        """Return the value encoded by exactly these bytes.

        Raises:
            CorruptStreamError: the bytes are not one value of the type.
        """
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            return self.decode_whole(<const uint8_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
