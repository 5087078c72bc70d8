"""Entries by key group, the native twin of ``penstock.taskexecutor.state.key_group_entries``."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from penstock._native.codecs.dynamic_codec cimport encode_dynamic, write_number
from penstock._native.keys.key_hash cimport HASH_ANY, HASH_LONG, hash_key, hash_kind, ps_murmur
from penstock._native.keys.keys cimport key_of
from penstock._native.state.state_map cimport ps_integer, ps_is_integer, ps_pack
from penstock._native.wire.failure cimport fail_memory
from penstock._native.wire.wire cimport put8, reserve

from penstock.errors import IllegalStateError

cdef enum:
    ENTRY = 1
    NAMESPACE = 2


cdef class KeyGroupEntries:
    """Serialised entries of one table in a snapshot; see the pure twin."""

    def __cinit__(
        self, kind, int32_t max_parallelism, key_groups not None, bint has_timers, kept=()
    ):
        cdef int32_t group
        self.kind = hash_kind(kind)
        self.max_parallelism = max_parallelism
        self.first = key_groups.start
        self.count = len(key_groups)
        self.has_timers = has_timers
        self.groups = <PsGroup *>calloc(max(self.count, 1), sizeof(PsGroup))
        if self.groups == NULL:
            fail_memory()
        self.writer.scratch = NULL
        self.num_taken = self.count
        for group in kept:
            if self.first <= group < self.first + self.count:
                if not self.groups[group - self.first].is_kept:
                    self.groups[group - self.first].is_kept = True
                    self.num_taken -= 1

    cdef bint keeps_all(self) noexcept:
        """Return whether no group's entries are serialised."""
        return self.num_taken == 0

    def __dealloc__(self):
        if self.groups != NULL:
            for index in range(self.count):
                free(self.groups[index].data)
            free(self.groups)
        free(self.writer.scratch)

    cdef int32_t group_of(self, PsWord key) except -1:
        cdef uint32_t hash
        cdef int32_t group
        cdef object identity
        if ps_is_integer(key) and (self.kind == HASH_ANY or self.kind == HASH_LONG):
            group = self.group_of_integer(key)
        else:
            identity = ps_integer(key) if ps_is_integer(key) else <object><PyObject *>key
            if self.has_timers and type(identity) is tuple:
                identity = identity[0]
            hash_key(self.kind, key_of(identity), &hash)
            group = <int32_t>(ps_murmur(hash) % <uint32_t>self.max_parallelism) - self.first
        if not 0 <= group < self.count:
            raise IllegalStateError(
                f"a key of group {self.first + group} is in the state of a subtask that has the "
                f"groups {self.first} to {self.first + self.count - 1}"
            )
        return group

    cdef int note_change(self, PsWord key, uint32_t epoch) except -1:
        self.groups[self.group_of(key)].changed = epoch
        return 0

    cdef void note_all_changed(self, uint32_t epoch) noexcept:
        cdef int32_t index
        for index in range(self.count):
            self.groups[index].changed = epoch

    cdef list changed_since(self, uint32_t since):
        """Return the groups that changed in an epoch or later, in order; all for 0."""
        return [self.first + i for i in range(self.count) if self.groups[i].changed >= since]

    cdef int add(
        self, object namespace, Py_ssize_t number, PsWord key, PsWord value
    ) except -1:
        """Serialise an entry, unless its group is kept; the caller holds its words."""
        cdef PsGroup *group = &self.groups[self.group_of(key)]
        if group.is_kept:
            return 0
        if self.is_busy:
            raise IllegalStateError("serialising a value of a state has used that state")
        self.is_busy = True
        try:
            self.serialise(group, namespace, number, key, value)
        finally:
            self.is_busy = False
        return 0

    def add_removed(self, object namespace, Py_ssize_t number, object identity):
        """Serialise the key of a removed entry; see the pure twin."""
        self.add(namespace, number, ps_pack(<PyObject *>identity), ps_pack(<PyObject *>None))

    cdef int serialise(
        self, PsGroup *group, object namespace, Py_ssize_t number, PsWord key, PsWord value
    ) except -1:
        self.writer.data = self.block
        self.writer.capacity = sizeof(self.block)
        self.writer.position = 0
        self.writer.numbered = False
        if group.namespace != number:
            put8(&self.writer, NAMESPACE)
            encode_dynamic(&self.writer, namespace, 0)
            reserve(&self.writer, 1)
        put8(&self.writer, ENTRY)
        self.encode(key, value)
        self.append(group)
        group.namespace = number
        self.num_added += 1
        self.added_bytes += self.writer.position
        return 0

    cdef int encode(self, PsWord key, PsWord value) except -1:
        cdef object identity, namespace = None
        if ps_is_integer(key):
            write_number(&self.writer, ps_integer(key))
        else:
            identity = <object><PyObject *>key
            if self.has_timers and type(identity) is tuple:
                identity, namespace = identity
            encode_dynamic(&self.writer, key_of(identity), 0)
        if self.has_timers:
            return encode_dynamic(&self.writer, namespace, 0)
        if ps_is_integer(value):
            return write_number(&self.writer, ps_integer(value))
        return encode_dynamic(&self.writer, <object><PyObject *>value, 0)

    cdef int append(self, PsGroup *group) except -1:
        cdef size_t needed = group.size + self.writer.position
        cdef size_t capacity
        cdef uint8_t *data
        if needed > group.capacity:
            capacity = max(needed, group.capacity + group.capacity // 2, <size_t>64)
            data = <uint8_t *>realloc(group.data, capacity)
            if data == NULL:
                return fail_memory()
            group.data = data
            group.capacity = capacity
        memcpy(group.data + group.size, self.writer.data, self.writer.position)
        group.size = needed
        return 0

    def key_groups(self):
        """Return the groups with entries, in order."""
        return [self.first + i for i in range(self.count) if self.groups[i].size > 0]

    def take(self, int32_t key_group):
        """Remove and return the entries of a group."""
        cdef PsGroup *group
        cdef bytes taken
        if not self.first <= key_group < self.first + self.count:
            return b""
        group = &self.groups[key_group - self.first]
        taken = PyBytes_FromStringAndSize(<const char *>group.data, group.size)
        free(group.data)
        group.data = NULL
        group.size = group.capacity = 0
        group.namespace = 0
        return taken
