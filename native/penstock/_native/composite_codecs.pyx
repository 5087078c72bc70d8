"""Nodes of TUPLE, ROW, LIST, the arrays and MAP; twin of ``penstock.network.pure.codec``."""

from cpython.list cimport PyList_Check, PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from libc.string cimport memset

from penstock._native.failure cimport fail_corrupt, fail_misfit
from penstock._native.limits cimport MAX_VARINT_BYTES
from penstock._native.wire cimport get8, need, put8, put_varint, read_count, reserve

from collections.abc import Mapping

from penstock.common.types import Row, RowKind
from penstock.errors import CorruptStreamError
from penstock.network.pure.codec import list_values, row_values

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(object values, Py_ssize_t index)
    PyObject *Py_None
    int PyObject_GenericSetAttr(object owner, object name, object value) except -1

# The first byte of a TUPLE or ROW, and of a LIST or MAP after its count.
cdef enum:
    KIND_BITS = 0x03
    HAS_NULLS = 0x04

cdef object INSERT = RowKind.INSERT


cdef inline bint has_null(tuple values, Py_ssize_t count) noexcept:
    cdef Py_ssize_t i
    for i in range(count):
        if PyTuple_GET_ITEM(values, i) == Py_None:
            return True
    return False


cdef inline int write_null_bits(Writer *writer, int kind, tuple values, Py_ssize_t count) except -1:
    """The header byte, and a bit for each value when one of them is None."""
    if has_null(values, count):
        return write_some_null_bits(writer, kind, values, count)
    reserve(writer, 1)
    put8(writer, kind)
    return 0


cdef int write_some_null_bits(Writer *writer, int kind, tuple values, Py_ssize_t count) except -1:
    cdef Py_ssize_t i, size = (count + 7) // 8
    cdef uint8_t *bits
    reserve(writer, 1 + size)
    put8(writer, kind | HAS_NULLS)
    bits = writer.data + writer.position
    memset(bits, 0, size)
    for i in range(count):
        if PyTuple_GET_ITEM(values, i) == Py_None:
            bits[i >> 3] |= 1 << (i & 7)
    writer.position += size
    return 0


cdef inline int read_header(Reader *reader, Py_ssize_t count, const uint8_t **nulls) except -1:
    """The kind of the header byte; the null bits, or NULL when there are none."""
    cdef uint8_t header
    cdef size_t size
    need(reader, 1)
    header = get8(reader)
    nulls[0] = NULL
    if header > KIND_BITS:
        if header & ~(KIND_BITS | HAS_NULLS):
            return fail_corrupt(f"header byte 0x{header:02x}")
        size = (count + 7) // 8
        need(reader, size)
        nulls[0] = reader.position
        reader.position += size
    return header & KIND_BITS


cdef inline bint is_null(const uint8_t *nulls, Py_ssize_t index) noexcept:
    return nulls != NULL and nulls[index >> 3] >> (index & 7) & 1


cdef class FieldsNode(CodecNode):
    """What TUPLE and ROW share: a header byte, a bit per None, then the other fields."""

    def __cinit__(self, schema, *fields):
        cdef CodecNode field
        for field in fields:
            if field is None:
                raise TypeError("a field without a node")
        self.fields = fields
        self.count = len(fields)

    cdef int encode_fields(self, Writer *writer, tuple values, int kind) except -1:
        cdef Py_ssize_t i
        cdef PyObject *item
        if PyTuple_GET_SIZE(values) != self.count:
            return fail_misfit(self.name)
        write_null_bits(writer, kind, values, self.count)
        for i in range(self.count):
            item = PyTuple_GET_ITEM(values, i)
            if item != Py_None:
                (<CodecNode>PyTuple_GET_ITEM(self.fields, i)).encode_into(writer, <object>item)
        return 0


cdef class TupleNode(FieldsNode):
    """TUPLE: a tuple, list or Row of as many fields."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        if PyTuple_Check(value):
            return self.encode_fields(writer, <tuple>value, 0)
        if isinstance(value, (list, Row)):
            return self.encode_fields(writer, tuple(value), 0)
        return fail_misfit(self.name)

    cdef object decode_from(self, Reader *reader):
        cdef const uint8_t *nulls
        cdef tuple values
        cdef object item
        cdef Py_ssize_t i
        if read_header(reader, self.count, &nulls):
            fail_corrupt("TUPLE with a row kind")
        values = PyTuple_New(self.count)
        for i in range(self.count):
            if is_null(nulls, i):
                item = None
            else:
                item = (<CodecNode>PyTuple_GET_ITEM(self.fields, i)).decode_from(reader)
            Py_INCREF(item)
            PyTuple_SET_ITEM(values, i, item)
        return values


cdef class RowNode(FieldsNode):
    """ROW: a Row, matched by name when it has names; a tuple, list or dict stands for one."""

    def __cinit__(self, schema, *fields):
        self.field_names = list(schema.field_names)
        self.named = schema.named
        self.kinds = list(RowKind)

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef dict attributes
        cdef object own
        cdef int kind = 0
        if type(value) is Row:
            attributes = value.__dict__
            own = attributes.get("_fields")
            if own is None or own == self.field_names:
                if attributes["_row_kind"] is not INSERT:
                    kind = attributes["_row_kind"].value
                return self.encode_fields(writer, tuple(attributes["_values"]), kind)
        elif PyTuple_Check(value):
            return self.encode_fields(writer, <tuple>value, 0)
        kind, own = row_values(value, self.field_names, self.named, self.name)
        return self.encode_fields(writer, tuple(own), kind)

    cdef object decode_from(self, Reader *reader):
        cdef const uint8_t *nulls
        cdef list values
        cdef object item, row
        cdef Py_ssize_t i
        cdef int kind = read_header(reader, self.count, &nulls)
        values = PyList_New(self.count)
        for i in range(self.count):
            if is_null(nulls, i):
                item = None
            else:
                item = (<CodecNode>PyTuple_GET_ITEM(self.fields, i)).decode_from(reader)
            Py_INCREF(item)
            PyList_SET_ITEM(values, i, item)
        # What Row's constructor and setters do, without their calls: Row refuses plain setattr.
        row = Row.__new__(Row)
        PyObject_GenericSetAttr(row, "_fields", self.field_names)
        PyObject_GenericSetAttr(row, "_values", values)
        PyObject_GenericSetAttr(row, "_row_kind", self.kinds[kind])
        return row


cdef class ListNode(CodecNode):
    """LIST, BASIC_ARRAY, OBJECT_ARRAY (elements may be None) and PRIMITIVE_ARRAY (ARRAY)."""

    def __cinit__(self, schema, CodecNode element not None):
        self.element = element
        self.nullable = schema.kind == "LIST"

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef tuple values
        cdef PyObject *item
        cdef Py_ssize_t i, count
        if not PyList_Check(value) and not PyTuple_Check(value):
            value = list_values(value, self.name)
        # A copy, since encoding an element may run user code that changes the list.
        values = tuple(value)
        count = PyTuple_GET_SIZE(values)
        reserve(writer, MAX_VARINT_BYTES)
        put_varint(writer, count)
        if self.nullable:
            write_null_bits(writer, 0, values, count)
        for i in range(count):
            item = PyTuple_GET_ITEM(values, i)
            if item != Py_None:
                self.element.encode_into(writer, <object>item)
            elif not self.nullable:
                return fail_misfit(self.element.name)
        return 0

    cdef object decode_from(self, Reader *reader):
        cdef const uint8_t *nulls = NULL
        cdef list values
        cdef object item
        cdef Py_ssize_t i
        cdef Py_ssize_t count = read_count(reader)
        if self.nullable and read_header(reader, count, &nulls):
            fail_corrupt("list with a row kind")
        values = PyList_New(count)
        for i in range(count):
            item = None if is_null(nulls, i) else self.element.decode_from(reader)
            Py_INCREF(item)
            PyList_SET_ITEM(values, i, item)
        return values


cdef class MapNode(CodecNode):
    """MAP: count, header with null bits of the values, then key and value in turn."""

    def __cinit__(self, schema, CodecNode key not None, CodecNode value not None):
        self.key = key
        self.value = value

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef tuple keys, items
        cdef PyObject *key
        cdef PyObject *item
        cdef Py_ssize_t i, count
        if not isinstance(value, Mapping):
            return fail_misfit(self.name)
        keys = tuple(value.keys())
        items = tuple(value.values())
        count = PyTuple_GET_SIZE(keys)
        if PyTuple_GET_SIZE(items) != count:
            return fail_misfit(self.name)
        reserve(writer, MAX_VARINT_BYTES)
        put_varint(writer, count)
        write_null_bits(writer, 0, items, count)
        for i in range(count):
            key = PyTuple_GET_ITEM(keys, i)
            if key == Py_None:
                return fail_misfit(self.key.name)
            self.key.encode_into(writer, <object>key)
            item = PyTuple_GET_ITEM(items, i)
            if item != Py_None:
                self.value.encode_into(writer, <object>item)
        return 0

    cdef object decode_from(self, Reader *reader):
        cdef const uint8_t *nulls
        cdef dict result = {}
        cdef object key, item
        cdef Py_ssize_t i
        cdef Py_ssize_t count = read_count(reader)
        if read_header(reader, count, &nulls):
            fail_corrupt("map with a row kind")
        for i in range(count):
            key = self.key.decode_from(reader)
            item = None if is_null(nulls, i) else self.value.decode_from(reader)
            try:
                result[key] = item
            except TypeError as error:
                raise CorruptStreamError(f"a key that cannot be one: {error}") from error
        return result
