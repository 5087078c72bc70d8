# The entries of one namespace of a keyed state.

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t

from penstock._native.wire.text cimport PsTextCache

cdef extern from "state/state_map.h":
    ctypedef uintptr_t PsWord

    ctypedef struct PsEntry:
        PsWord key
        PsWord value
        uint32_t hash
        uint32_t epoch

    ctypedef struct PsStateMap:
        PsEntry *entries
        int32_t used
        int32_t count

    const int64_t PS_MAX_TERM
    const int64_t PS_MOST
    int PS_NONE
    int PS_FAILED

    bint ps_is_integer(PsWord word) noexcept
    int64_t ps_integer(PsWord word) noexcept
    PsWord ps_integer_word(int64_t number) noexcept
    PsWord ps_pack(PyObject *object) noexcept
    PyObject *ps_unpack(PsWord word) except NULL
    void ps_hold(PsWord word) noexcept
    void ps_release(PsWord word) noexcept
    int ps_hash_word(PsWord word, uint32_t *hash) except -1
    int32_t ps_find_again(
        const PsStateMap *map, PsTextCache *texts, PsWord key, uint32_t hash
    ) except -3
    int32_t ps_find(const PsStateMap *map, PsWord key, uint32_t hash) except -3
    void ps_prefetch(const PsStateMap *map, uint32_t hash) noexcept
    int32_t ps_insert(PsStateMap *map, PsWord key, uint32_t hash, PsWord value,
                      uint32_t epoch) except -3
    PsEntry ps_take_out(PsStateMap *map, int32_t position) noexcept
    PsEntry *ps_empty(PsStateMap *map, int32_t *used) noexcept
    void ps_release_entries(PsEntry *entries, int32_t used) noexcept
    bint ps_never_changes(PsWord word, int depth) noexcept
    void ps_forget(PsStateMap *map) noexcept
