# Serialised entries of keyed state by key group.

cimport cython

from libc.stdint cimport int32_t, uint8_t, uint32_t

from penstock._native.key_hash cimport HashKind
from penstock._native.state_map cimport PsWord
from penstock._native.wire cimport Writer


# The entries of one key group, one after the other.
cdef struct PsGroup:
    uint8_t *data
    size_t size
    size_t capacity
    Py_ssize_t namespace    # number of the namespace that the next entry is in; 0 is None
    uint32_t removed        # epoch in which an entry was last removed
    bint is_changed         # differs from what the snapshot is based on


@cython.final
cdef class KeyGroupEntries:
    cdef HashKind kind
    cdef int32_t first
    cdef int32_t count
    cdef int32_t max_parallelism
    cdef bint has_timers
    cdef bint is_busy
    cdef PsGroup *groups
    cdef Writer writer
    cdef uint8_t block[512]

    cdef int32_t group_of(self, PsWord key) except -1
    cdef int add(
        self, object namespace, Py_ssize_t number, PsWord key, PsWord value, bint is_changed
    ) except -1
    cdef int note_removal(self, PsWord key, uint32_t epoch) except -1
    cdef int note_changed(self, PsWord key) except -1
    cdef void note_all_removed(self, uint32_t epoch) noexcept
    cdef void mark_removals(self, KeyGroupEntries removals, uint32_t since) noexcept
    cdef int encode(self, PsWord key, PsWord value) except -1
    cdef int append(self, PsGroup *group) except -1
