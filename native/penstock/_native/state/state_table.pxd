# Keyed state in memory; see state_map.h.

cimport cython

from libc.stdint cimport int32_t, uint32_t

from penstock._native.keys.keys cimport KeyReader
from penstock._native.state.key_group_entries cimport KeyGroupEntries
from penstock._native.state.state_map cimport PsEntry, PsStateMap, PsWord
from penstock._native.state.state_rows cimport StateRows


@cython.final
cdef class CopyOnWriteStateMap:
    cdef PsStateMap map
    cdef int32_t found          # the position found last, until an entry is removed
    cdef int32_t used_last      # position of the entry last used by its key, until one is removed
    cdef readonly StateTable table
    cdef readonly object namespace
    cdef Py_ssize_t slot        # its slot in the table; -1 once it was removed
    cdef Py_ssize_t number      # unique among the namespaces of a table; 0 is None
    cdef public bint is_stored  # whether the table's store may have entries that are not in memory
    cdef public bytes tail      # for the store: the namespace in the keys of rows
    cdef public bytes original  # the namespace in their values

    cdef inline int32_t position_of(self, PsWord word, uint32_t *hash) except -3
    cdef PsEntry *entry(self, Py_ssize_t position) except NULL
    cdef PsEntry *touched(self, Py_ssize_t position) except NULL
    cdef PsEntry *lent(self, Py_ssize_t position) except NULL
    cdef int32_t located(self, object key) except -3
    cdef int32_t fetched(self, object key, PsWord word, uint32_t hash) except -3
    cdef int32_t inserted(
        self, PsWord word, uint32_t hash, PsWord value, bint is_changed
    ) except -3
    cpdef Py_ssize_t find(self, object key) except -2
    cpdef object at(self, Py_ssize_t position)
    cdef int replace(self, Py_ssize_t position, PsWord value) except -1
    cpdef int put_at(self, Py_ssize_t position, object key, object value) except -1
    cpdef object increase(self, object key, object number)
    cpdef object get(self, object key)
    cpdef int put(self, object key, object value) except -1
    cpdef int touch(self, object key) except -1
    cdef int32_t add_key(self, object key) except -3
    cdef int take_out(self, int32_t position, PsEntry *taken) except -1
    cpdef object remove(self, object key)


cdef class StateTable:
    cdef readonly str name
    cdef readonly str kind
    cdef dict maps
    cdef list slots             # the maps, and None for dropped ones
    cdef list free_slots
    cdef list snapshots         # the open snapshots
    cdef readonly uint32_t epoch    # number of snapshots opened so far
    cdef uint32_t written       # entries of a later epoch differ from the store's
    cdef Py_ssize_t numbers     # namespace numbers assigned so far
    cdef KeyGroupEntries changes    # tracks when key groups last changed; None if disabled
    cdef readonly object removals   # tracks which entries were removed; None if disabled
    cdef public object snapshot_filter  # filters a value for a snapshot; None keeps all of it
    cdef readonly object store      # the store of entries that are not in memory; None without one
    cdef public Py_ssize_t room     # entries that may be added before the store evicts some
    cdef Py_ssize_t cursor_slot     # where let_go continues: a slot, and a position in its map
    cdef int32_t cursor_position

    cpdef CopyOnWriteStateMap map(self, object namespace)
    cdef int drop(self, CopyOnWriteStateMap found) except -1
    cdef tuple changed_row(
        self, StateRows rows, CopyOnWriteStateMap found, int32_t position, uint32_t last
    )
    cdef list stored(self, list maps)
    cdef inline bint is_written(self, CopyOnWriteStateMap found, int32_t position) noexcept
    cdef int32_t let_go_in(
        self, CopyOnWriteStateMap found, int32_t position, Py_ssize_t *left
    ) except -1


@cython.final
cdef class TableSnapshot:
    cdef readonly KeyGroupEntries entries
    cdef StateTable table
    cdef readonly uint32_t epoch    # entries of an earlier epoch are part of the snapshot
    cdef readonly uint32_t since    # unless their epoch is before this one
    cdef readonly Py_ssize_t num_recent     # serialised entries that changed in the last epoch
    cdef Py_ssize_t slot        # everything before this slot and the position in it is serialised
    cdef int32_t position
    cdef Py_ssize_t end_slot
    cdef list detached          # pairs of map and position: contents cleared meanwhile
    cdef object failure

    cdef int save(self, CopyOnWriteStateMap contents, Py_ssize_t position) except -1
    cdef int detach(self, CopyOnWriteStateMap cleared, CopyOnWriteStateMap contents) except -1
    cdef bint scan(self, int steps) except -1
    cdef int32_t scan_map(
        self, CopyOnWriteStateMap contents, int32_t position, int *steps
    ) except -1
    cdef int add(self, CopyOnWriteStateMap contents, int32_t position) except -1
    cdef int add_filtered(self, CopyOnWriteStateMap contents, PsWord key, object value) except -1
