"""Records that a program computes, written without creating Python objects.

A function like ``lambda n: (n % 10, n)`` in front of an exchange creates a tuple that no other code
sees: its key is hashed, its fields are written, and it is released.  Here both work on the
registers of the program.  Cases that may fail, or run code of a class, are left to the codec, which
gets the tuple.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint64_t

from penstock._native.codecs.codec_node cimport CodecNode
from penstock._native.codecs.composite_codecs cimport INT32, INT64, OTHER, TEXT
from penstock._native.codecs.dynamic_codec cimport (
    DynamicNode, encode_dynamic, write_number, write_tuple_header,
)
from penstock._native.evaluator.registers cimport PsValue, ps_as_number, ps_field, ps_field_count
from penstock._native.wire.wire cimport (
    PyUnicode_1BYTE_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_COMPACT_ASCII, put8, put32, put64,
    reserve, write_sized,
)

cdef extern from "Python.h":
    bint PyFloat_CheckExact(PyObject *value)
    bint PyUnicode_CheckExact(PyObject *value)

cdef enum:
    # Limit for a text; beyond it the cost of a tuple matters little.
    MAX_TEXT = 4096
    # The first byte of a TUPLE without None.
    NO_NULLS = 0


cdef inline bint is_short_text(PyObject *value) noexcept:
    return (
        PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT_ASCII(value)
        and PyUnicode_GET_LENGTH(value) <= MAX_TEXT
    )


cdef inline bint describes_itself(const PsValue *value) noexcept:
    """Return whether the dynamic codec can write a value without running its class's code."""
    cdef int64_t number
    if ps_as_number(value, &number):
        return True
    return PyFloat_CheckExact(value.object) or is_short_text(value.object)


cdef inline bint fits(TupleNode node, Py_ssize_t i, const PsValue *value) noexcept:
    """Return whether the node of a field certainly writes a value, and decodes it unchanged."""
    cdef int64_t number
    if ps_as_number(value, &number):
        return node.kinds[i] == INT64 or node.kinds[i] == INT32 and number == <int32_t>number
    if node.kinds[i] == TEXT:
        return is_short_text(value.object)
    if node.kinds[i] == OTHER and PyFloat_CheckExact(value.object):
        return (<CodecNode>node.nodes[i]).exact is float
    return False


cdef inline int write_fitting(TupleNode node, Py_ssize_t i, Writer *writer,
                              const PsValue *value) except -1:
    cdef int64_t number
    if ps_as_number(value, &number):
        reserve(writer, 8)
        if node.kinds[i] == INT64:
            put64(writer, <uint64_t>number)
        else:
            put32(writer, <int32_t>number)
        return 0
    if node.kinds[i] == TEXT:
        return write_sized(
            writer, PyUnicode_1BYTE_DATA(value.object), PyUnicode_GET_LENGTH(value.object)
        )
    return (<CodecNode>node.nodes[i]).encode_into(writer, <object>value.object)


cdef class ComputedRecords:
    """Writes tuples by their fields, as the codec would, to the channel of the selector."""

    cdef int channel_of(self, const PsMade *made) noexcept:
        """Return the channel of a tuple; NO_CHANNEL if writing it requires an object."""
        cdef Py_ssize_t i, count = ps_field_count(made)
        if self.selector.position >= count:
            return NO_CHANNEL
        if self.node is None:
            for i in range(count):
                if not describes_itself(ps_field(made, i)):
                    return NO_CHANNEL
        elif count != self.node.count:
            return NO_CHANNEL
        else:
            for i in range(count):
                if not fits(self.node, i, ps_field(made, i)):
                    return NO_CHANNEL
        return self.selector.choose_by_key(ps_field(made, self.selector.position))

    cdef int encode_into(self, Writer *writer, const PsMade *made) except -1:
        """Write a tuple that has a channel."""
        cdef const PsValue *value
        cdef int64_t number
        cdef Py_ssize_t i, count = ps_field_count(made)
        if self.node is not None:
            reserve(writer, 1)
            put8(writer, NO_NULLS)
            for i in range(count):
                write_fitting(self.node, i, writer, ps_field(made, i))
            return 0
        write_tuple_header(writer, count)
        for i in range(count):
            value = ps_field(made, i)
            if ps_as_number(value, &number):
                write_number(writer, number)
            else:
                encode_dynamic(writer, <object>value.object, 1)
        return 0


cdef ComputedRecords computed_records(ChannelSelector selector, Codec codec):
    """Return the writer of a writer's tuples by their fields; None if nothing is computed."""
    cdef ComputedRecords records
    if not isinstance(selector, KeyGroupSelector) or (<KeyGroupSelector>selector).position < 0:
        return None
    if not isinstance(codec.root, (TupleNode, DynamicNode)):
        return None
    records = ComputedRecords()
    records.selector = <KeyGroupSelector>selector
    records.node = <TupleNode>codec.root if isinstance(codec.root, TupleNode) else None
    return records
