"""Nodes of scalar types: twin of the first half of ``penstock.serialization.pure.codec``."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.float cimport PyFloat_FromDouble
from cpython.long cimport PyLong_FromLong, PyLong_FromLongLong
from cpython.object cimport PyObject_IsTrue
from cpython.unicode cimport PyUnicode_Check
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t

from penstock._native.wire.failure cimport fail_corrupt, fail_misfit
from penstock._native.wire.wire cimport (
    get8, get16, get32, get64, need, ps_double_bits, ps_double_from, ps_float_bits, ps_float_from,
    put8, put16, put32, put64, read_bytes, read_text, read_varint, reserve, write_sized, write_text,
)

from penstock.common.exception_deadline import text_in_time
from penstock.errors import CorruptStreamError, PenstockError, SerializationError
from penstock.serialization.conversions import whole_number
from penstock.serialization.loaded_numpy import is_numpy_bool

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1
    double PyFloat_AsDouble(object value) except? -1.0
    object PyNumber_Index(object value)
    bint PyLong_Check(object value)


cdef int write_big_int(Writer *writer, object number) except -1:
    cdef bytes data = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    return write_sized(writer, <const uint8_t *><const char *>data, len(data))


cdef object read_big_int(Reader *reader):
    cdef Py_ssize_t size = read_varint(reader)
    if size == 0:
        fail_corrupt("an integer of 0 bytes")
    return int.from_bytes(read_bytes(reader, size), "big", signed=True)


cdef inline int64_t ranged(object value, int bits, str type_name) except? -1:
    """Return the integer if it fits into ``bits`` bits."""
    cdef int overflow = 0
    cdef int64_t number
    cdef int64_t limit
    if not PyLong_Check(value):
        try:
            value = PyNumber_Index(value)
        except TypeError:
            try:
                value = whole_number(value)
            except SerializationError:
                fail_misfit(type_name)
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        fail_misfit(type_name)
    if bits < 64:
        limit = (<int64_t>1) << (bits - 1)
        if number < -limit or number >= limit:
            fail_misfit(type_name)
    return number


cdef class StringNode(CodecNode):
    """STRING: length and UTF-8."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        if not PyUnicode_Check(value):
            return fail_misfit(self.name)
        return write_text(writer, value)

    cdef object decode_from(self, Reader *reader):
        return read_text(reader, read_varint(reader))


cdef class BooleanNode(CodecNode):
    """BOOLEAN: one byte; numbers are converted to their truth."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef int truth
        if value is True:
            truth = 1
        elif value is False:
            truth = 0
        elif isinstance(value, (int, float)) and 0 <= value < 256:
            truth = PyObject_IsTrue(value)
        elif is_numpy_bool(value):
            truth = PyObject_IsTrue(value)
        else:
            return fail_misfit(self.name)
        reserve(writer, 1)
        put8(writer, truth)
        return 0

    cdef object decode_from(self, Reader *reader):
        cdef uint8_t byte
        need(reader, 1)
        byte = get8(reader)
        if byte > 1:
            fail_corrupt(f"BOOLEAN of byte 0x{byte:02x}")
        return byte == 1


cdef class ByteNode(CodecNode):
    """BYTE: 8 bits with sign."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef int64_t number = ranged(value, 8, self.name)
        reserve(writer, 1)
        put8(writer, <uint8_t>number)
        return 0

    cdef object decode_from(self, Reader *reader):
        need(reader, 1)
        return PyLong_FromLong(<int8_t>get8(reader))


cdef class ShortNode(CodecNode):
    """SHORT: 16 bits with sign."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef int64_t number = ranged(value, 16, self.name)
        reserve(writer, 2)
        put16(writer, <uint64_t>number)
        return 0

    cdef object decode_from(self, Reader *reader):
        need(reader, 2)
        return PyLong_FromLong(<int16_t>get16(reader))


cdef class IntNode(CodecNode):
    """INT: 32 bits with sign."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef int64_t number = ranged(value, 32, self.name)
        reserve(writer, 4)
        put32(writer, <uint64_t>number)
        return 0

    cdef object decode_from(self, Reader *reader):
        need(reader, 4)
        return PyLong_FromLong(<int32_t>get32(reader))


cdef class LongNode(CodecNode):
    """LONG: 64 bits with sign."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef int64_t number = ranged(value, 64, self.name)
        reserve(writer, 8)
        put64(writer, <uint64_t>number)
        return 0

    cdef object decode_from(self, Reader *reader):
        need(reader, 8)
        return PyLong_FromLongLong(<int64_t>get64(reader))


cdef class BigIntNode(CodecNode):
    """BIG_INT: length and two's complement."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        try:
            value = PyNumber_Index(value)
        except TypeError:
            return fail_misfit(self.name)
        return write_big_int(writer, value)

    cdef object decode_from(self, Reader *reader):
        return read_big_int(reader)


cdef inline double number_of(object value, str type_name) except? -1.0:
    try:
        return PyFloat_AsDouble(value)
    except (TypeError, OverflowError):
        fail_misfit(type_name)


cdef class FloatNode(CodecNode):
    """FLOAT: IEEE 754, rounded to 32 bits; larger values become infinite."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef double number = number_of(value, self.name)
        reserve(writer, 4)
        put32(writer, ps_float_bits(<float>number))
        return 0

    cdef object decode_from(self, Reader *reader):
        need(reader, 4)
        return PyFloat_FromDouble(ps_float_from(get32(reader)))


cdef class DoubleNode(CodecNode):
    """DOUBLE: IEEE 754."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef double number = number_of(value, self.name)
        reserve(writer, 8)
        put64(writer, ps_double_bits(number))
        return 0

    cdef object decode_from(self, Reader *reader):
        need(reader, 8)
        return PyFloat_FromDouble(ps_double_from(get64(reader)))


cdef class BytesNode(CodecNode):
    """PRIMITIVE_ARRAY(BYTE): length and bytes."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef Py_buffer view
        if not isinstance(value, (bytes, bytearray, memoryview)):
            return fail_misfit(self.name)
        if isinstance(value, memoryview):
            value = bytes(value)
        PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
        try:
            return write_sized(writer, <const uint8_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    cdef object decode_from(self, Reader *reader):
        return read_bytes(reader, read_varint(reader))


cdef class ConvertedNode(CodecNode):
    """A type encoded as another one; the conversions are shared with the pure codec."""

    def __cinit__(self, schema, CodecNode wire):
        self.to_wire = schema.conversion.to_wire
        self.from_wire = schema.conversion.from_wire
        self.wire = wire

    cdef int encode_into(self, Writer *writer, object value) except -1:
        return self.wire.encode_into(writer, self.to_wire(value))

    cdef object decode_from(self, Reader *reader):
        cdef object wire_value = self.wire.decode_from(reader)
        try:
            return self.from_wire(wire_value)
        except PenstockError:
            raise
        except Exception as error:
            raise CorruptStreamError(
                f"{self.name} of {wire_value!r}: {text_in_time(error)}"
            ) from error
