"""Nodes of TUPLE, ROW, LIST, the arrays and MAP; twin of ``penstock.serialization.pure.codec``."""

from cpython.dict cimport PyDict_CheckExact, PyDict_Next, PyDict_Size
from cpython.list cimport PyList_Check, PyList_GET_SIZE, PyList_New
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_Check, PyTuple_CheckExact, PyTuple_GET_SIZE, PyTuple_New
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from penstock._native.values.integers cimport PsIntCache, ps_cached_int, ps_clear_ints, ps_short_int
from penstock._native.values.row cimport RowBase, make_row
from penstock._native.wire.failure cimport fail_corrupt, fail_memory, fail_misfit
from penstock._native.wire.limits cimport MAX_VARINT_BYTES
from penstock._native.wire.wire cimport (
    PyUnicode_1BYTE_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_COMPACT_ASCII, get8, get32, get64,
    need, put8, put32, put64, put_varint, read_count, read_text, read_varint, reserve, write_sized,
)

from collections.abc import Mapping
from sys import intern

from penstock.common.exception_deadline import text_in_time
from penstock.common.types import Row, RowKind
from penstock.errors import CorruptStreamError
from penstock.serialization.pure.codec import row_values

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(object values, Py_ssize_t index)
    # For a tuple or a list.
    Py_ssize_t PySequence_Fast_GET_SIZE(object values)
    PyObject *PySequence_Fast_GET_ITEM(object values, Py_ssize_t index)
    PyObject *Py_None
    bint PyFloat_CheckExact(PyObject *value)
    bint PyLong_CheckExact(PyObject *value)
    bint PyUnicode_CheckExact(PyObject *value)
    void PyObject_GC_UnTrack(PyObject *container)
    # These steal the reference.
    void PyTuple_SET_ITEM(object values, Py_ssize_t index, PyObject *value)
    void PyList_SET_ITEM(object values, Py_ssize_t index, PyObject *value)

# The first byte of a TUPLE or ROW, and of a LIST or MAP after its count.
cdef enum:
    KIND_BITS = 0x03
    HAS_NULLS = 0x04

cdef object INSERT = RowKind.INSERT

cdef frozenset ATOMIC_KINDS = frozenset({
    "STRING", "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "BIG_INT", "FLOAT", "DOUBLE", "BYTES",
})


cdef inline bint has_null(tuple values, Py_ssize_t count) noexcept:
    cdef Py_ssize_t i
    for i in range(count):
        if PyTuple_GET_ITEM(values, i) == Py_None:
            return True
    return False


cdef inline int write_null_bits(Writer *writer, int kind, tuple values, Py_ssize_t count) except -1:
    """Write the header byte, and a bit for each value if one of them is None."""
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
    """Return the kind in the header byte; set the null bits, or NULL if there are none."""
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


cdef FieldKind kind_of(object schema):
    if schema.kind == "STRING":
        return TEXT
    if schema.kind == "LONG":
        return INT64
    if schema.kind == "INT":
        return INT32
    return OTHER


cdef bint is_atomic(CodecNode node):
    """Return whether the decoded values cannot be part of a reference cycle."""
    if isinstance(node, TupleNode):
        return (<TupleNode>node).atomic
    return node.schema.kind in ATOMIC_KINDS


cdef class FieldsNode(CodecNode):
    """Common part of TUPLE and ROW: a header byte, a bit per None, then the other fields.

    The commonest types are written and read here; the others by their nodes.
    """

    def __cinit__(self, schema, *fields):
        cdef CodecNode field
        cdef Py_ssize_t i
        for field in fields:
            if field is None:
                raise TypeError("a field without a node")
        self.fields = fields
        self.count = len(fields)
        self.atomic = all([is_atomic(field) for field in fields])
        self.nodes = <PyObject **>calloc(self.count + 1, sizeof(PyObject *))
        self.kinds = <FieldKind *>calloc(self.count + 1, sizeof(FieldKind))
        self.ints = <PsIntCache **>calloc(self.count + 1, sizeof(PsIntCache *))
        if self.nodes == NULL or self.kinds == NULL or self.ints == NULL:
            raise MemoryError
        for i in range(self.count):
            self.nodes[i] = PyTuple_GET_ITEM(self.fields, i)
            self.kinds[i] = kind_of((<CodecNode>self.nodes[i]).schema)

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.ints != NULL:
            for i in range(self.count):
                if self.ints[i] != NULL:
                    ps_clear_ints(self.ints[i])
                    free(self.ints[i])
        free(self.ints)
        free(self.kinds)
        free(self.nodes)

    cdef int prepare_to_read(self) except -1:
        """Create what a writer does not need."""
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.kinds[i] in (INT32, INT64) and self.ints[i] == NULL:
                self.ints[i] = <PsIntCache *>calloc(1, sizeof(PsIntCache))
                if self.ints[i] == NULL:
                    return fail_memory()
        self.reads = True
        return 0


cdef inline int write_field(FieldsNode node, Writer *writer, Py_ssize_t i,
                            PyObject *value) except -1:
    return write_value(<CodecNode>node.nodes[i], node.kinds[i], writer, value)


cdef inline int write_value(CodecNode node, FieldKind kind, Writer *writer,
                            PyObject *value) except -1:
    """Write a value that is not None."""
    cdef int64_t number
    if kind == TEXT:
        if PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT_ASCII(value):
            return write_sized(writer, PyUnicode_1BYTE_DATA(value), PyUnicode_GET_LENGTH(value))
    elif kind != OTHER:
        if PyLong_CheckExact(value) and ps_short_int(value, &number):
            if kind == INT64:
                reserve(writer, 8)
                put64(writer, <uint64_t>number)
                return 0
            if number == <int32_t>number:
                reserve(writer, 4)
                put32(writer, <uint32_t>number)
                return 0
    return node.encode_into(writer, <object>value)


cdef inline PyObject *read_field(FieldsNode node, Reader *reader, Py_ssize_t i) except NULL:
    """Return a new reference, without Cython's own reference counting."""
    cdef FieldKind kind = node.kinds[i]
    cdef object value
    if kind == INT64:
        need(reader, 8)
        return ps_cached_int(node.ints[i], <int64_t>get64(reader))
    if kind == INT32:
        need(reader, 4)
        return ps_cached_int(node.ints[i], <int32_t>get32(reader))
    if kind == TEXT:
        value = read_text(reader, read_varint(reader))
    else:
        value = (<CodecNode>node.nodes[i]).decode_from(reader)
    Py_INCREF(value)
    return <PyObject *>value


cdef inline int write_fields(FieldsNode node, Writer *writer, tuple values, int kind) except -1:
    cdef Py_ssize_t i
    cdef PyObject *item
    if PyTuple_GET_SIZE(values) != node.count:
        return fail_misfit(node.name)
    write_null_bits(writer, kind, values, node.count)
    for i in range(node.count):
        item = PyTuple_GET_ITEM(values, i)
        if item != Py_None:
            write_field(node, writer, i, item)
    return 0


cdef inline int write_row_fields(
    FieldsNode node, Writer *writer, list values, int kind
) except -1:
    """Write the list of a row as `write_fields` does; encoding a value may change the list."""
    cdef Py_ssize_t i
    if PyList_GET_SIZE(values) != node.count:
        return fail_misfit(node.name)
    for i in range(node.count):
        if PySequence_Fast_GET_ITEM(values, i) == Py_None:
            return write_fields(node, writer, tuple(values), kind)
    reserve(writer, 1)
    put8(writer, kind)
    for i in range(node.count):
        if PyList_GET_SIZE(values) != node.count:
            return fail_misfit(node.name)
        write_field(node, writer, i, PySequence_Fast_GET_ITEM(values, i))
    return 0


cdef inline bint are_same(list names, list others) noexcept:
    """Return whether two lists have the identical names; equal names do not count."""
    cdef Py_ssize_t i
    if PyList_GET_SIZE(names) != PyList_GET_SIZE(others):
        return False
    for i in range(PyList_GET_SIZE(names)):
        if PySequence_Fast_GET_ITEM(names, i) != PySequence_Fast_GET_ITEM(others, i):
            return False
    return True


cdef bint keeps_fields(FieldsNode node, object values) except -1:
    """Return whether every field of a tuple or list certainly decodes unchanged."""
    cdef PyObject *item
    cdef Py_ssize_t i
    if PySequence_Fast_GET_SIZE(values) != node.count:
        return False
    for i in range(node.count):
        item = PySequence_Fast_GET_ITEM(values, i)
        if item == Py_None:
            continue
        if node.kinds[i] == TEXT:
            if not PyUnicode_CheckExact(item):
                return False
        elif node.kinds[i] != OTHER:
            if not PyLong_CheckExact(item):
                return False
        elif not (<CodecNode>node.nodes[i]).keeps(<object>item):
            return False
    return True


cdef class TupleNode(FieldsNode):
    """TUPLE: a tuple with the declared number of fields."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        if PyTuple_Check(value):
            return write_fields(self, writer, <tuple>value, 0)
        return fail_misfit(self.name)

    cdef object decode_from(self, Reader *reader):
        cdef const uint8_t *nulls
        cdef tuple values
        cdef Py_ssize_t i
        if not self.reads:
            self.prepare_to_read()
        if read_header(reader, self.count, &nulls):
            fail_corrupt("TUPLE with a row kind")
        values = PyTuple_New(self.count)
        for i in range(self.count):
            if is_null(nulls, i):
                Py_INCREF(None)
                PyTuple_SET_ITEM(values, i, Py_None)
            else:
                PyTuple_SET_ITEM(values, i, read_field(self, reader, i))
        if self.atomic:
            # The garbage collector would untrack it later, at a higher cost.
            PyObject_GC_UnTrack(<PyObject *>values)
        return values

    cdef bint keeps(self, object value) except -1:
        return PyTuple_CheckExact(value) and keeps_fields(self, value)


cdef class RowNode(FieldsNode):
    """ROW: a Row, matched by name if it has names."""

    def __cinit__(self, schema, *fields):
        # The interned names, with which code looks them up.
        self.field_names = list(map(intern, schema.field_names))
        self.row_kinds = list(RowKind)

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef RowBase row
        cdef object own
        cdef int kind = 0
        if isinstance(value, RowBase):
            row = <RowBase>value
            if row.names is None or self.has_names(row):
                if row.kind is not INSERT:
                    kind = row.kind.value
                return write_row_fields(self, writer, row.values, kind)
        kind, own = row_values(value, self.field_names, self.name)
        return write_fields(self, writer, tuple(own), kind)

    cdef object decode_from(self, Reader *reader):
        cdef const uint8_t *nulls
        cdef list values
        cdef Py_ssize_t i
        cdef int kind
        if not self.reads:
            self.prepare_to_read()
        kind = read_header(reader, self.count, &nulls)
        values = PyList_New(self.count)
        for i in range(self.count):
            if is_null(nulls, i):
                Py_INCREF(None)
                PyList_SET_ITEM(values, i, Py_None)
            else:
                PyList_SET_ITEM(values, i, read_field(self, reader, i))
        # The names are shared: a row only replaces them as a whole.
        return make_row(self.field_names, values, INSERT if kind == 0 else self.row_kinds[kind])

    cdef bint keeps(self, object value) except -1:
        return (
            type(value) is Row and isinstance(value, RowBase)
            and self.has_names(<RowBase>value) and keeps_fields(self, (<RowBase>value).values)
        )

    cdef inline bint has_names(self, RowBase row) except -1:
        if row.names is self.field_names:
            return True
        if row.names is not None and are_same(row.names, self.field_names):
            return True
        return row.names == self.field_names

    cdef object named(self, object value):
        """Return a row without names with the declared ones; None for any other value."""
        cdef RowBase row
        if type(value) is not Row or not isinstance(value, RowBase):
            return None
        row = <RowBase>value
        if row.names is not None or not keeps_fields(self, row.values):
            return None
        return make_row(self.field_names, list(row.values), row.kind)


cdef inline bint are_writable(FieldsNode node, object values) noexcept:
    """Return whether every field of a tuple or list has a class that is written in place."""
    cdef PyObject *item
    cdef int64_t number
    cdef Py_ssize_t i
    if PySequence_Fast_GET_SIZE(values) != node.count:
        return False
    for i in range(node.count):
        item = PySequence_Fast_GET_ITEM(values, i)
        if item == Py_None:
            continue
        if node.kinds[i] == TEXT:
            if not PyUnicode_CheckExact(item):
                return False
        elif node.kinds[i] == OTHER:
            if not PyFloat_CheckExact(item) or (<CodecNode>node.nodes[i]).exact is not float:
                return False
        elif not PyLong_CheckExact(item) or not ps_short_int(item, &number):
            return False
        elif node.kinds[i] == INT32 and number != <int32_t>number:
            return False
    return True


cdef bint certainly_writes(CodecNode node, object value) except -1:
    """Return whether a node writes a value without an error; False if the check would cost more."""
    cdef RowBase row
    if isinstance(node, RowNode):
        if type(value) is not Row or not isinstance(value, RowBase):
            return False
        row = <RowBase>value
        if row.kind is not INSERT or row.names is not None and not (<RowNode>node).has_names(row):
            return False
        return are_writable(<RowNode>node, row.values)
    return isinstance(node, TupleNode) and PyTuple_CheckExact(value) and are_writable(
        <TupleNode>node, value
    )


cdef class ListNode(CodecNode):
    """LIST, BASIC_ARRAY, OBJECT_ARRAY (elements may be None) and PRIMITIVE_ARRAY (ARRAY)."""

    def __cinit__(self, schema, CodecNode element not None):
        self.element = element
        self.nullable = schema.kind == "LIST"

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef tuple values
        cdef PyObject *item
        cdef Py_ssize_t i, count
        if not PyList_Check(value):
            return fail_misfit(self.name)
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
            PyList_SET_ITEM(values, i, <PyObject *>item)
        return values


cdef bint holds_none(object content) noexcept:
    cdef PyObject *key
    cdef PyObject *item
    cdef Py_ssize_t position = 0
    while PyDict_Next(content, &position, &key, &item):
        if key == Py_None or item == Py_None:
            return True
    return False


cdef class MapNode(CodecNode):
    """MAP: count, header with null bits of the values, then keys and values alternately."""

    def __cinit__(self, schema, CodecNode key not None, CodecNode value not None):
        self.key = key
        self.value = value
        self.key_kind = kind_of(key.schema)
        self.value_kind = kind_of(value.schema)

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef tuple keys, items
        cdef PyObject *key
        cdef PyObject *item
        cdef Py_ssize_t i, count
        if PyDict_CheckExact(value) and not holds_none(value) and self.encode_dict(writer, value):
            return 0
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

    cdef bint encode_dict(self, Writer *writer, object content) except -1:
        """Encode a dict without None; return False, writing nothing, if it changes meanwhile."""
        cdef PyObject *key
        cdef PyObject *item
        cdef object _key, _item
        cdef Py_ssize_t position = 0, written = 0, count = PyDict_Size(content)
        cdef size_t start = writer.position
        reserve(writer, MAX_VARINT_BYTES + 1)
        put_varint(writer, count)
        put8(writer, 0)
        while PyDict_Next(content, &position, &key, &item):
            # Encoding may run user code, which may change the dict.
            _key, _item = <object>key, <object>item
            write_value(self.key, self.key_kind, writer, key)
            write_value(self.value, self.value_kind, writer, item)
            written += 1
            if PyDict_Size(content) != count:
                break
        if written == count == PyDict_Size(content):
            return True
        writer.position = start
        return False

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
                raise CorruptStreamError(
                    f"a key that cannot be one: {text_in_time(error)}"
                ) from error
        return result
