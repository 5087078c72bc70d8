"""Keyed state in memory, the native twin of ``penstock.taskexecutor.state.table``."""

from cpython.long cimport PyLong_FromLongLong
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int32_t, int64_t, uint32_t

from penstock._native.integers cimport ps_short_int

from penstock.errors import IllegalStateError


cdef extern from "Python.h":
    bint PyLong_CheckExact(PyObject *value)


cdef inline object object_of(PsWord word):
    cdef PyObject *made = ps_unpack(word)
    cdef object value = <object>made
    Py_DECREF(value)
    return value


cdef class StateMap:
    """The entries of one namespace; see the pure twin."""

    def __cinit__(self, StateTable table not None, namespace):
        self.table = table
        self.namespace = namespace
        self.found = PS_NONE

    def __dealloc__(self):
        cdef int32_t used
        cdef PsEntry *entries = ps_empty(&self.map, &used)
        ps_release_entries(entries, used)

    cdef PsEntry *entry(self, Py_ssize_t position) except NULL:
        if not 0 <= position < self.map.used or self.map.entries[position].key == 0:
            raise IllegalStateError(f"state {self.table.name!r} has no entry at {position}")
        return &self.map.entries[position]

    cpdef Py_ssize_t find(self, object key) except -2:
        cdef PsWord word = ps_pack(<PyObject *>key)
        cdef uint32_t hash
        ps_hash_word(word, &hash)
        self.found = ps_find(&self.map, word, hash)
        return self.found

    cpdef object at(self, Py_ssize_t position):
        return object_of(self.entry(position).value)

    cpdef int put_at(self, Py_ssize_t position, object key, object value) except -1:
        if position < 0 or position != self.found:
            # It is new, or what was called since it was found has used or changed the state.
            return self.put(key, value)
        return self.replace(position, value)

    cdef int replace(self, Py_ssize_t position, object value) except -1:
        cdef PsEntry *entry = &self.map.entries[position]
        cdef PsWord old = entry.value
        entry.value = ps_pack(<PyObject *>value)
        ps_hold(entry.value)
        # Last, since it may run code of users.
        ps_release(old)
        return 0

    cpdef object increase(self, object key, object number):
        cdef PsWord word
        cdef PsEntry *entry
        cdef uint32_t hash
        cdef int32_t position
        cdef int64_t total
        if not PyLong_CheckExact(<PyObject *>number):
            return None
        if not ps_short_int(<PyObject *>number, &total) or not -PS_MAX_TERM < total < PS_MAX_TERM:
            return None
        word = ps_pack(<PyObject *>key)
        ps_hash_word(word, &hash)
        position = ps_find(&self.map, word, hash)
        if position < 0:
            return None
        entry = &self.map.entries[position]
        if not ps_is_integer(entry.value):
            return None
        total += ps_integer(entry.value)
        if not -PS_MAX_TERM < total < PS_MAX_TERM:
            return None
        entry.value = ps_integer_word(total)
        return PyLong_FromLongLong(total)

    cpdef object get(self, object key):
        cdef PsWord word = ps_pack(<PyObject *>key)
        cdef uint32_t hash
        cdef int32_t position
        ps_hash_word(word, &hash)
        position = ps_find(&self.map, word, hash)
        if position < 0:
            return None
        return object_of(self.map.entries[position].value)

    cpdef int put(self, object key, object value) except -1:
        cdef PsWord word = ps_pack(<PyObject *>key)
        cdef uint32_t hash
        cdef int32_t position
        ps_hash_word(word, &hash)
        position = ps_find(&self.map, word, hash)
        if position < 0:
            ps_insert(&self.map, word, hash, ps_pack(<PyObject *>value), self.table.epoch)
            return 0
        return self.replace(position, value)

    cpdef object remove(self, object key):
        cdef PsWord word = ps_pack(<PyObject *>key)
        cdef PsEntry taken
        cdef uint32_t hash
        cdef int32_t position
        cdef object value
        ps_hash_word(word, &hash)
        position = ps_find(&self.map, word, hash)
        if position < 0:
            return None
        self.found = PS_NONE
        taken = ps_take_out(&self.map, position)
        value = object_of(taken.value)
        ps_release(taken.value)
        ps_release(taken.key)
        return value

    def clear(self):
        """Removes every entry."""
        cdef int32_t used
        cdef PsEntry *entries = ps_empty(&self.map, &used)
        self.found = PS_NONE
        ps_release_entries(entries, used)

    def keys(self):
        """The keys, as a list."""
        return [key for key, _ in self.items()]

    def values(self):
        """The values, as a list."""
        return [value for _, value in self.items()]

    def items(self):
        """Pairs of key and value, as a list."""
        cdef list pairs = []
        cdef int32_t position
        cdef object key, value
        for position in range(self.map.used):
            if self.map.entries[position].key != 0:
                key = object_of(self.map.entries[position].key)
                value = object_of(self.map.entries[position].value)
                pairs.append((key, value))
        return pairs

    def __iter__(self):
        """Pairs of key and value, taken while it goes on."""
        cdef int32_t position = 0
        while position < self.map.used:
            if self.map.entries[position].key != 0:
                yield (
                    object_of(self.map.entries[position].key),
                    object_of(self.map.entries[position].value),
                )
            position += 1

    def __len__(self):
        return self.map.count

    def __contains__(self, key):
        return self.find(key) >= 0


cdef class StateTable:
    """All keys and namespaces of one state of one operator; see the pure twin."""

    def __init__(self, str name not None, str kind not None):
        self.name = name
        self.kind = kind
        self.maps = {}
        self.map(None)

    cpdef StateMap map(self, object namespace):
        """The entries of a namespace, created when missing."""
        cdef object found = self.maps.get(namespace)
        if found is None:
            found = self.maps[namespace] = StateMap(self, namespace)
        return <StateMap>found

    def namespaces(self):
        """The maps of all namespaces, as a list."""
        return list(self.maps.values())

    def drop_if_empty(self, namespace):
        """Forgets a namespace that holds no key any more."""
        cdef object found
        if namespace is not None:
            found = self.maps.get(namespace)
            if found is not None and len(found) == 0:
                del self.maps[namespace]

    def __iter__(self):
        for found in self.namespaces():
            for key, value in found.items():
                yield found.namespace, key, value

    def __len__(self):
        return sum(map(len, self.maps.values()))
