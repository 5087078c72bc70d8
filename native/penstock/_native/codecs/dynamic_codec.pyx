"""The self-describing codec, byte-identical with ``penstock.serialization.pure.dynamic_codec``."""

from cpython.bytearray cimport (
    PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_FromDouble
from cpython.list cimport PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_FromLong, PyLong_FromLongLong
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from penstock._native.codecs.basic_codecs cimport read_big_int, write_big_int
from penstock._native.codecs.instances cimport (
    BUILTIN, COLLECTION, ENUM, REDUCED, SLOTS, ClassForm, form_of_class, keep_member, read_member,
    read_numbered, read_signed, write_builtin, write_instance, write_member,
)
from penstock._native.codecs.scalars cimport read_scalar, read_uuid, write_scalar
from penstock._native.codecs.standard_collections cimport (
    DEFAULT_DICT, DEQUE, read_collection, write_collection,
)
from penstock._native.wire.failure cimport fail_corrupt, fail_too_deep_bytes, fail_too_deep_value
from penstock._native.wire.limits cimport MAX_DEPTH, MAX_VARINT_BYTES
from penstock._native.wire.text cimport encode_utf8
from penstock._native.wire.wire cimport (
    PyUnicode_1BYTE_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_COMPACT_ASCII, get8, get16, get32,
    get64, need, ps_copy, ps_double_bits, ps_double_from, put8, put16, put32, put64, put_varint,
    read_bytes, read_count, read_text, read_varint, reserve, write_sized,
)

from penstock.common.exception_deadline import text_in_time
from penstock.errors import CorruptStreamError
from penstock.serialization.extended_values import rebuild_value, reduce_value

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1

# The values of docs/formats/codec.md.
cdef enum:
    NONE = 0x00
    FALSE = 0x01
    TRUE = 0x02
    INT8 = 0x03
    INT16 = 0x04
    INT32 = 0x05
    INT64 = 0x06
    BIG_INT = 0x07
    FLOAT = 0x08
    STR = 0x09
    BYTES = 0x0A
    BYTEARRAY = 0x0B
    TUPLE = 0x0C
    LIST = 0x0D
    DICT = 0x0E
    SET = 0x0F
    EXTENDED_FIRST = 0x10
    MEMBER = 0x1B
    EXTENDED_LAST = 0x1F
    FROZENSET = 0x20
    NUMBERED = 0x21
    SIGNED = 0x22
    UUID = 0x23
    SHORT_STR = 0x40
    SHORT_TUPLE = 0x80
    SHORT_LIST = 0x90
    FIRST_SMALL_INT = 0xA0
    SMALL_INT = 0xC0


cdef inline int write_str(Writer *writer, const uint8_t *data, size_t size) except -1:
    reserve(writer, size + 1 + MAX_VARINT_BYTES)
    if size < 64:
        put8(writer, <uint8_t>(SHORT_STR + size))
    else:
        put8(writer, STR)
        put_varint(writer, size)
    ps_copy(writer.data + writer.position, data, size)
    writer.position += size
    return 0


cdef inline int write_int(Writer *writer, object value) except -1:
    cdef int overflow = 0
    cdef int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        reserve(writer, 1)
        put8(writer, BIG_INT)
        return write_big_int(writer, value)
    return put_number(writer, number)


cdef int write_number(Writer *writer, int64_t number) except -1:
    return put_number(writer, number)


cdef inline int put_number(Writer *writer, int64_t number) except -1:
    reserve(writer, 9)
    if -32 <= number <= 63:
        put8(writer, <uint8_t>(SMALL_INT + number))
    elif -0x80 <= number <= 0x7F:
        put8(writer, INT8)
        put8(writer, <uint8_t>number)
    elif -0x8000 <= number <= 0x7FFF:
        put8(writer, INT16)
        put16(writer, <uint16_t>number)
    elif number == <int32_t>number:
        put8(writer, INT32)
        put32(writer, <uint32_t>number)
    else:
        put8(writer, INT64)
        put64(writer, <uint64_t>number)
    return 0


cdef inline int open_container(Writer *writer, uint8_t tag, Py_ssize_t count, int depth) except -1:
    if depth >= MAX_DEPTH:
        return fail_too_deep_value()
    reserve(writer, 1 + MAX_VARINT_BYTES)
    if (tag == SHORT_TUPLE or tag == SHORT_LIST) and count < 16:
        put8(writer, <uint8_t>(tag + count))
        return 0
    put8(writer, TUPLE if tag == SHORT_TUPLE else LIST if tag == SHORT_LIST else tag)
    put_varint(writer, count)
    return 0


cdef int write_tuple_header(Writer *writer, Py_ssize_t count) except -1:
    return open_container(writer, SHORT_TUPLE, count, 0)


cdef int encode_dynamic(Writer *writer, object value, int depth) except -1:
    cdef Py_ssize_t i, count
    cdef bytes encoded
    cdef object item
    if type(value) is str:
        if PyUnicode_IS_COMPACT_ASCII(<PyObject *>value):
            return write_str(
                writer,
                PyUnicode_1BYTE_DATA(<PyObject *>value),
                PyUnicode_GET_LENGTH(<PyObject *>value),
            )
        encoded = encode_utf8(value)
        return write_str(
            writer, <const uint8_t *>PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded)
        )
    if type(value) is int:
        return write_int(writer, value)
    if type(value) is tuple:
        count = PyTuple_GET_SIZE(value)
        open_container(writer, SHORT_TUPLE, count, depth)
        for i in range(count):
            encode_dynamic(writer, <object>(<tuple>value)[i], depth + 1)
        return 0
    if type(value) is float:
        reserve(writer, 9)
        put8(writer, FLOAT)
        put64(writer, ps_double_bits(PyFloat_AS_DOUBLE(value)))
        return 0
    if value is None or type(value) is bool:
        reserve(writer, 1)
        put8(writer, NONE if value is None else TRUE if value is True else FALSE)
        return 0
    if type(value) is list:
        return encode_list(writer, <list>value, depth)
    if type(value) is dict:
        return encode_dict(writer, <dict>value, depth)
    if type(value) is bytes:
        reserve(writer, 1)
        put8(writer, BYTES)
        return write_sized(
            writer, <const uint8_t *>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)
        )
    if type(value) is bytearray:
        reserve(writer, 1)
        put8(writer, BYTEARRAY)
        return write_sized(
            writer, <const uint8_t *>PyByteArray_AS_STRING(value), PyByteArray_GET_SIZE(value)
        )
    if type(value) is set or type(value) is frozenset:
        open_container(writer, SET if type(value) is set else FROZENSET, len(value), depth)
        for item in value:
            encode_dynamic(writer, item, depth + 1)
        return 0
    if depth >= MAX_DEPTH:
        return fail_too_deep_value()
    return encode_other(writer, value, depth)


cdef int encode_other(Writer *writer, object value, int depth) except -1:
    """Encode a value of no builtin type."""
    cdef ClassForm form = form_of_class(type(value))
    cdef int tag
    cdef object parts
    if form.kind <= SLOTS:
        if write_instance(writer, form, value, depth):
            return 0
    elif form.kind == ENUM:
        if write_member(writer, form, value):
            return 0
    elif form.kind == BUILTIN:
        if write_builtin(writer, form, value, depth):
            return 0
    elif form.kind == COLLECTION:
        if write_collection(writer, form, value, depth):
            return 0
    elif form.kind != REDUCED and write_scalar(writer, form, value, depth):
        return 0
    tag, parts = reduce_value(value)
    reserve(writer, 1)
    put8(writer, <uint8_t>tag)
    return encode_dynamic(writer, parts, depth + 1)


cdef int encode_list(Writer *writer, list value, int depth) except -1:
    cdef Py_ssize_t i, count = PyList_GET_SIZE(value)
    open_container(writer, SHORT_LIST, count, depth)
    for i in range(count):
        if i >= PyList_GET_SIZE(value):
            raise RuntimeError("a list changed size while it was encoded")
        encode_dynamic(writer, <object>value[i], depth + 1)
    return 0


cdef int encode_dict(Writer *writer, dict value, int depth) except -1:
    cdef object key, item
    open_container(writer, DICT, len(value), depth)
    for key, item in value.items():
        encode_dynamic(writer, key, depth + 1)
        encode_dynamic(writer, item, depth + 1)
    return 0


cdef inline int descend(Reader *reader) except -1:
    reader.depth += 1
    if reader.depth > MAX_DEPTH:
        return fail_too_deep_bytes()
    return 0


cdef tuple decode_tuple(Reader *reader, Py_ssize_t count):
    cdef tuple values
    cdef object item
    cdef Py_ssize_t i
    descend(reader)
    values = PyTuple_New(count)
    for i in range(count):
        item = decode_dynamic(reader)
        Py_INCREF(item)
        PyTuple_SET_ITEM(values, i, item)
    reader.depth -= 1
    return values


cdef list decode_list(Reader *reader, Py_ssize_t count):
    cdef list values
    cdef object item
    cdef Py_ssize_t i
    descend(reader)
    values = PyList_New(count)
    for i in range(count):
        item = decode_dynamic(reader)
        Py_INCREF(item)
        PyList_SET_ITEM(values, i, item)
    reader.depth -= 1
    return values


cdef dict decode_dict(Reader *reader, Py_ssize_t count):
    cdef dict result = {}
    cdef object key, item
    cdef Py_ssize_t _
    descend(reader)
    for _ in range(count):
        key = decode_dynamic(reader)
        item = decode_dynamic(reader)
        try:
            result[key] = item
        except TypeError as error:
            raise CorruptStreamError(f"a key that cannot be one: {text_in_time(error)}") from error
    reader.depth -= 1
    return result


cdef set decode_set(Reader *reader):
    cdef list values = decode_list(reader, read_count(reader))
    try:
        return set(values)
    except TypeError as error:
        raise CorruptStreamError(
            f"an element that a set cannot have: {text_in_time(error)}"
        ) from error


cdef object decode_dynamic(Reader *reader):
    cdef uint8_t tag
    need(reader, 1)
    tag = get8(reader)
    if tag >= FIRST_SMALL_INT:
        return PyLong_FromLong(<long>tag - SMALL_INT)
    if tag >= SHORT_LIST:
        return decode_list(reader, tag - SHORT_LIST)
    if tag >= SHORT_TUPLE:
        return decode_tuple(reader, tag - SHORT_TUPLE)
    if tag >= SHORT_STR:
        return read_text(reader, tag - SHORT_STR)
    if tag == INT32:
        need(reader, 4)
        return PyLong_FromLong(<int32_t>get32(reader))
    elif tag == FLOAT:
        need(reader, 8)
        return PyFloat_FromDouble(ps_double_from(get64(reader)))
    elif tag == INT8:
        need(reader, 1)
        return PyLong_FromLong(<int8_t>get8(reader))
    elif tag == INT16:
        need(reader, 2)
        return PyLong_FromLong(<int16_t>get16(reader))
    elif tag == INT64:
        need(reader, 8)
        return PyLong_FromLongLong(<int64_t>get64(reader))
    elif tag == NONE:
        return None
    elif tag == FALSE:
        return False
    elif tag == TRUE:
        return True
    return decode_rare(reader, tag)


cdef bint read_number(Reader *reader, int64_t *number) except -1:
    cdef uint8_t tag
    need(reader, 1)
    tag = reader.position[0]
    if tag >= FIRST_SMALL_INT:
        reader.position += 1
        number[0] = <int64_t>tag - SMALL_INT
        return True
    if not INT8 <= tag <= INT64:
        return False
    reader.position += 1
    if tag == INT32:
        need(reader, 4)
        number[0] = <int32_t>get32(reader)
    elif tag == INT8:
        need(reader, 1)
        number[0] = <int8_t>get8(reader)
    elif tag == INT16:
        need(reader, 2)
        number[0] = <int16_t>get16(reader)
    else:
        need(reader, 8)
        number[0] = <int64_t>get64(reader)
    return True


cdef object decode_extended(Reader *reader, uint8_t tag):
    cdef const uint8_t *start = reader.position
    cdef object parts, value
    cdef PyObject *member
    if tag == MEMBER:
        member = read_member(reader)
        if member != NULL:
            return <object>member
    else:
        value = read_scalar(reader, tag)
        if value is not None:
            return value
    descend(reader)
    parts = decode_dynamic(reader)
    reader.depth -= 1
    value = rebuild_value(tag, parts)
    if tag == MEMBER:
        keep_member(start, reader, value)
    return value


cdef object decode_rare(Reader *reader, uint8_t tag):
    cdef Py_ssize_t size
    if tag == STR:
        return read_text(reader, read_varint(reader))
    if tag == BYTES:
        return read_bytes(reader, read_varint(reader))
    if tag == BYTEARRAY:
        size = read_varint(reader)
        need(reader, size)
        reader.position += size
        return PyByteArray_FromStringAndSize(<const char *>(reader.position - size), size)
    if tag == TUPLE:
        return decode_tuple(reader, read_count(reader))
    if tag == LIST:
        return decode_list(reader, read_count(reader))
    if tag == DICT:
        return decode_dict(reader, read_count(reader))
    if tag == SET:
        return decode_set(reader)
    if tag == FROZENSET:
        return frozenset(decode_set(reader))
    if tag == BIG_INT:
        return read_big_int(reader)
    if tag == NUMBERED:
        return read_numbered(reader)
    if tag == SIGNED:
        return read_signed(reader)
    if tag == UUID:
        return read_uuid(reader)
    if EXTENDED_FIRST <= tag <= EXTENDED_LAST:
        return decode_extended(reader, tag)
    if DEQUE <= tag <= DEFAULT_DICT:
        return read_collection(reader, tag)
    fail_corrupt(f"unknown value tag 0x{tag:02x}")


cdef class DynamicNode(CodecNode):
    """ANY: the value describes itself; accepts None."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        return encode_dynamic(writer, value, 0)

    cdef object decode_from(self, Reader *reader):
        return decode_dynamic(reader)

    cdef bint keeps(self, object value) except -1:
        return True
