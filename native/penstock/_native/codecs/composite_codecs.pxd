# Nodes of types that hold values of other types.

cimport cython

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from penstock._native.codecs.codec_node cimport CodecNode
from penstock._native.values.integers cimport PsIntCache
from penstock._native.values.row cimport RowBase
from penstock._native.wire.wire cimport Reader, Writer


cdef enum FieldKind:
    OTHER
    TEXT
    INT32
    INT64


cdef class FieldsNode(CodecNode):
    cdef tuple fields           # owns the nodes
    cdef Py_ssize_t count
    cdef PyObject **nodes       # the nodes, borrowed
    cdef FieldKind *kinds       # of each field
    cdef PsIntCache **ints      # cache of each integer field, once something was read
    cdef bint reads
    cdef bint atomic            # see is_atomic

    cdef int prepare_to_read(self) except -1


@cython.final
cdef class TupleNode(FieldsNode):
    pass


@cython.final
cdef class RowNode(FieldsNode):
    cdef list field_names
    cdef list row_kinds

    cdef bint has_names(self, RowBase row) except -1
    cdef object named(self, object value)


cdef bint certainly_writes(CodecNode node, object value) except -1


@cython.final
cdef class ListNode(CodecNode):
    cdef CodecNode element
    cdef bint nullable


@cython.final
cdef class MapNode(CodecNode):
    cdef CodecNode key
    cdef CodecNode value
    cdef FieldKind key_kind
    cdef FieldKind value_kind

    cdef bint encode_dict(self, Writer *writer, object content) except -1
