"""Keyed state as rows, the native twin of ``penstock.taskexecutor.state.state_rows``."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free

from penstock._native.codecs.dynamic_codec cimport encode_dynamic, write_number
from penstock._native.keys.keys cimport CanonicalKey, key_of
from penstock._native.state.state_map cimport ps_integer, ps_is_integer, ps_pack
from penstock._native.wire.wire cimport Writer, ps_copy, put8, reserve

from penstock.errors import IllegalStateError
from penstock.serialization.key_form import form_of

cdef enum:
    READABLE = 0
    FORM = 1


cdef inline void put_bytes(Writer *writer, bytes data) noexcept:
    ps_copy(
        writer.data + writer.position,
        <const uint8_t *>PyBytes_AS_STRING(data),
        PyBytes_GET_SIZE(data),
    )
    writer.position += PyBytes_GET_SIZE(data)


cdef class StateRows:
    """Creates the rows of the entries of one operator's state; see the pure twin."""

    def __cinit__(self, kind, max_parallelism, key_groups not None):
        self.groups = KeyGroupEntries(kind, max_parallelism, key_groups, False)
        self.writer.scratch = NULL

    def __dealloc__(self):
        free(self.writer.scratch)

    cdef int begin(self) except -1:
        if self.is_busy:
            raise IllegalStateError("serialising a value of a state has used that state")
        self.is_busy = True
        self.writer.data = self.block
        self.writer.capacity = sizeof(self.block)
        self.writer.position = 0
        self.writer.numbered = False
        return 0

    cdef bytes ended(self):
        return PyBytes_FromStringAndSize(<const char *>self.writer.data, self.writer.position)

    cdef bytes key_of_word(self, bytes tail, PsWord word):
        cdef int32_t group = self.groups.first + self.groups.group_of(word)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(tail)
        cdef object identity, key
        cdef bytes form
        self.begin()
        try:
            reserve(&self.writer, 3 + size)
            put8(&self.writer, <uint8_t>(group >> 8))
            put8(&self.writer, <uint8_t>group)
            put_bytes(&self.writer, tail)
            if ps_is_integer(word):
                put8(&self.writer, READABLE)
                write_number(&self.writer, ps_integer(word))
                return self.ended()
            identity = <object><PyObject *>word
            if type(identity) is CanonicalKey:
                key = key_of(identity)
                # Marked by type, so that each form is one key: other types cannot be read back from
                # it.
                put8(&self.writer, READABLE if type(key) is float or type(key) is bool else FORM)
                form = form_of(key)
                reserve(&self.writer, PyBytes_GET_SIZE(form))
                put_bytes(&self.writer, form)
                return self.ended()
            put8(&self.writer, READABLE)
            encode_dynamic(&self.writer, identity, 0)
            return self.ended()
        finally:
            self.is_busy = False

    cdef bytes value_of_word(
        self, bytes key, bytes tail, bytes original, PsWord word, PsWord value
    ):
        cdef Py_ssize_t size = PyBytes_GET_SIZE(original)
        self.begin()
        try:
            if size > 0:
                reserve(&self.writer, size)
                put_bytes(&self.writer, original)
            if PyBytes_AS_STRING(key)[2 + PyBytes_GET_SIZE(tail)] == FORM:
                encode_dynamic(&self.writer, key_of(<object><PyObject *>word), 0)
            if ps_is_integer(value):
                write_number(&self.writer, ps_integer(value))
            else:
                encode_dynamic(&self.writer, <object><PyObject *>value, 0)
            return self.ended()
        finally:
            self.is_busy = False

    def key(self, bytes tail not None, identity):
        """Return the key of a row; see the pure twin."""
        return self.key_of_word(tail, ps_pack(<PyObject *>identity))

    def row(self, contents not None, identity, value):
        """Return key and value of the row of an entry; see the pure twin."""
        cdef PsWord word = ps_pack(<PyObject *>identity)
        cdef bytes tail = contents.tail
        cdef bytes key = self.key_of_word(tail, word)
        return key, self.value_of_word(
            key, tail, contents.original, word, ps_pack(<PyObject *>value)
        )
