# Serialised entries of keyed state by key group.

cimport cython

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from penstock._native.keys.key_hash cimport HASH_ANY, HASH_LONG, HashKind, ps_hash_long, ps_murmur
from penstock._native.state.state_map cimport PsWord, ps_integer, ps_is_integer
from penstock._native.wire.wire cimport Writer


# The entries of one key group, one after the other.
cdef struct PsGroup:
    uint8_t *data
    size_t size
    size_t capacity
    Py_ssize_t namespace    # number of the namespace of the next entry; 0 is None
    uint32_t changed        # epoch in which an entry last changed or was removed
    bint is_kept            # whether a base keeps the group, so that its entries are not serialised


@cython.final
cdef class KeyGroupEntries:
    cdef HashKind kind
    cdef int32_t first
    cdef int32_t count
    cdef int32_t max_parallelism
    cdef bint has_timers
    cdef bint is_busy
    cdef readonly Py_ssize_t num_added
    cdef readonly Py_ssize_t added_bytes
    cdef int32_t num_taken      # number of groups that are not kept
    cdef PsGroup *groups
    cdef Writer writer
    cdef uint8_t block[512]

    cdef inline int32_t group_of_integer(self, PsWord key) noexcept:
        """Return the group of a self-hashed integer, relative to the first; any number."""
        cdef int64_t number = ps_integer(key)
        cdef uint32_t hash
        if self.kind == HASH_ANY and -0x80000000 <= number <= 0x7FFFFFFF:
            hash = <uint32_t>number
        else:
            hash = ps_hash_long(number)
        return <int32_t>(ps_murmur(hash) % <uint32_t>self.max_parallelism) - self.first

    cdef inline bint leaves_out(self, PsWord key) noexcept:
        """Return whether a cheap check shows that the entry of a key is not serialised."""
        cdef int32_t group
        if self.num_taken == self.count or not ps_is_integer(key):
            return False
        if self.kind != HASH_ANY and self.kind != HASH_LONG:
            return False
        group = self.group_of_integer(key)
        return 0 <= group < self.count and self.groups[group].is_kept

    cdef int32_t group_of(self, PsWord key) except -1
    cdef bint keeps_all(self) noexcept
    cdef int add(
        self, object namespace, Py_ssize_t number, PsWord key, PsWord value
    ) except -1
    cdef int serialise(
        self, PsGroup *group, object namespace, Py_ssize_t number, PsWord key, PsWord value
    ) except -1
    cdef int note_change(self, PsWord key, uint32_t epoch) except -1
    cdef void note_all_changed(self, uint32_t epoch) noexcept
    cdef list changed_since(self, uint32_t since)
    cdef int encode(self, PsWord key, PsWord value) except -1
    cdef int append(self, PsGroup *group) except -1
