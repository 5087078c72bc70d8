# Keyed state in memory; see state_map.h.

cimport cython

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t

cdef extern from "state_map.h":
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
    int32_t ps_find(const PsStateMap *map, PsWord key, uint32_t hash) except -3
    int32_t ps_insert(PsStateMap *map, PsWord key, uint32_t hash, PsWord value,
                      uint32_t epoch) except -3
    PsEntry ps_take_out(PsStateMap *map, int32_t position) noexcept
    PsEntry *ps_empty(PsStateMap *map, int32_t *used) noexcept
    void ps_release_entries(PsEntry *entries, int32_t used) noexcept


@cython.final
cdef class StateMap:
    cdef PsStateMap map
    cdef int32_t found          # the position that was found last, until something is removed
    cdef readonly StateTable table
    cdef readonly object namespace

    cdef PsEntry *entry(self, Py_ssize_t position) except NULL
    cpdef Py_ssize_t find(self, object key) except -2
    cpdef object at(self, Py_ssize_t position)
    cdef int replace(self, Py_ssize_t position, object value) except -1
    cpdef int put_at(self, Py_ssize_t position, object key, object value) except -1
    cpdef object increase(self, object key, object number)
    cpdef object get(self, object key)
    cpdef int put(self, object key, object value) except -1
    cpdef object remove(self, object key)


cdef class StateTable:
    cdef readonly str name
    cdef readonly str kind
    cdef dict maps
    cdef uint32_t epoch

    cpdef StateMap map(self, object namespace)
