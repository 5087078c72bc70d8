"""Keyed state in memory, the native twin of ``penstock.taskexecutor.state.table``.

Maps, tables and snapshots are parts of one module: they call each other for each record, and the C
compiler inlines such calls only within a module.
"""

from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.long cimport PyLong_FromLongLong
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from penstock._native.codecs.dynamic_codec cimport decode_dynamic, read_number
from penstock._native.state.state_map cimport (
    PS_MAX_TERM, PS_MOST, PS_NONE, PsWord, ps_empty, ps_find, ps_find_again, ps_forget,
    ps_hash_word, ps_hold, ps_insert, ps_integer, ps_integer_word, ps_is_integer, ps_never_changes,
    ps_pack, ps_prefetch, ps_release, ps_release_entries, ps_take_out, ps_unpack,
)
from penstock._native.values.integers cimport ps_short_int
from penstock._native.wire.text cimport text_cache
from penstock._native.wire.wire cimport Reader, get8

from penstock.errors import CorruptStreamError, IllegalStateError, SerializationError
from penstock.taskexecutor.state.naming import name_state
from penstock.taskexecutor.state.removals import Removals

# The number of entries to examine for each row that may be returned at a time.
cdef enum:
    LOOKED = 16

# The depth up to which tuples are checked for immutability.
cdef enum:
    TUPLE_DEPTH = 3


cdef extern from "Python.h":
    bint PyLong_CheckExact(PyObject *value)
    Py_ssize_t Py_REFCNT(object value)


cdef inline object object_of(PsWord word):
    cdef PyObject *made = ps_unpack(word)
    cdef object value = <object>made
    Py_DECREF(value)
    return value


include "state_map.pxi"
include "state_loading.pxi"


cdef class StateTable:
    """All keys and namespaces of one state of one operator; see the pure twin."""

    def __init__(self, str name not None, str kind not None):
        self.name = name
        self.kind = kind
        self.maps = {}
        self.slots = []
        self.free_slots = []
        self.snapshots = []
        self.numbers = -1
        self.map(None)

    cpdef CopyOnWriteStateMap map(self, object namespace):
        """Return the entries of a namespace, creating the map if missing."""
        cdef object found = self.maps.get(namespace)
        cdef CopyOnWriteStateMap made
        if found is not None:
            return <CopyOnWriteStateMap>found
        made = CopyOnWriteStateMap(self, namespace)
        self.numbers += 1
        made.number = self.numbers
        self.maps[namespace] = made
        if self.store is not None:
            self.store.adopt(made)
        if self.free_slots:
            made.slot = self.free_slots.pop()
            self.slots[made.slot] = made
        else:
            made.slot = len(self.slots)
            self.slots.append(made)
        return made

    def namespaces(self):
        """Return the maps of all namespaces as a list."""
        if self.store is not None:
            for namespace in self.store.namespaces():
                self.map(namespace)
        return list(self.maps.values())

    def dispose(self):
        """Drop the entries in memory; the store closes its own."""
        cdef CopyOnWriteStateMap found
        self.changes = None
        self.removals = None
        for found in self.maps.values():
            found.is_stored = False
            found.clear()

    def drop_if_empty(self, namespace):
        """Forget a namespace without keys; see the pure twin."""
        cdef CopyOnWriteStateMap found
        if namespace is not None:
            found = self.maps.get(namespace)
            if found is not None and found.map.count == 0:
                self.drop(found)

    cdef int drop(self, CopyOnWriteStateMap found) except -1:
        del self.maps[found.namespace]
        self.slots[found.slot] = None
        self.free_slots.append(found.slot)
        found.slot = -1
        return 0

    def attach(self, store not None):
        """Cache the entries of a store from now on; see the pure twin."""
        self.store = store
        self.epoch = 1
        for found in self.maps.values():
            store.adopt(found)

    @property
    def num_cached(self):
        """Number of entries in memory."""
        cdef CopyOnWriteStateMap found
        cdef Py_ssize_t number = 0
        for found in self.maps.values():
            number += found.map.count
        return number

    def changed_rows(
        self, StateRows rows not None, Py_ssize_t most, Py_ssize_t most_bytes, last=None
    ):
        """Return the entries changed since `note_written`, as rows; see the pure twin."""
        cdef list changed = []
        cdef list new = []
        cdef uint32_t end = self.epoch if last is None else last
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t looked = 0
        cdef Py_ssize_t slot = 0
        cdef int32_t position
        cdef CopyOnWriteStateMap found
        cdef CopyOnWriteStateMap given = None      # the map of the last row
        cdef tuple row
        while slot < len(self.slots):
            found = self.slots[slot]
            slot += 1
            position = 0
            while found is not None and position < found.map.used:
                row = self.changed_row(rows, found, position, end)
                position += 1
                looked += 1
                if row is not None:
                    changed.append(row)
                    size += PyBytes_GET_SIZE(row[0]) + PyBytes_GET_SIZE(row[1])
                    if found is not given:
                        given = found
                        new.append(found)
                if len(changed) >= most or size >= most_bytes or looked >= LOOKED * most:
                    yield changed, self.stored(new)
                    changed, new, given, size, looked = [], [], None, 0, 0
            looked += 1
        if changed:
            yield changed, self.stored(new)

    cdef list stored(self, list maps):
        """Mark maps as stored; return the namespaces of those that had no rows."""
        cdef CopyOnWriteStateMap found
        cdef list new = []
        for found in maps:
            if not found.is_stored:
                found.is_stored = True
                new.append(found.namespace)
        return new

    cdef tuple changed_row(
        self, StateRows rows, CopyOnWriteStateMap found, int32_t position, uint32_t last
    ):
        """Return the row of an entry; None if it is unchanged, or changed after an epoch."""
        cdef PsEntry *entry = &found.map.entries[position]
        cdef PsWord word = entry.key
        cdef PsWord value = entry.value
        cdef bytes key
        if word == 0 or not self.written < entry.epoch <= last:
            return None
        # Held, since serialising a value may run code of its class.
        ps_hold(word)
        ps_hold(value)
        try:
            key = rows.key_of_word(found.tail, word)
            return key, rows.value_of_word(key, found.tail, found.original, word, value)
        finally:
            ps_release(word)
            ps_release(value)

    def note_written(self, last=None):
        """Note that the result of `changed_rows` is in the store as well; see the pure twin."""
        cdef CopyOnWriteStateMap found
        cdef uint32_t written = self.epoch if last is None else last
        if last is None:
            self.epoch += 1
            for found in self.maps.values():
                found.found = PS_NONE
        self.written = max(self.written, written)

    def let_go(self, Py_ssize_t wanted):
        """Evict up to so many unchanged entries; see the pure twin."""
        cdef Py_ssize_t left = wanted
        cdef Py_ssize_t visited = 0
        cdef CopyOnWriteStateMap found
        while left > 0 and visited <= len(self.slots):
            found = self.slots[self.cursor_slot] if self.cursor_slot < len(self.slots) else None
            if found is not None:
                self.cursor_position = self.let_go_in(found, self.cursor_position, &left)
                if self.cursor_position < found.map.used:
                    break
                # The table holds two references, this function one.
                if found.namespace is not None and found.map.count == 0:
                    if Py_REFCNT(found) == 3:
                        self.drop(found)
            self.cursor_slot = (self.cursor_slot + 1) % len(self.slots)
            self.cursor_position = 0
            visited += 1
        return wanted - left

    cdef int32_t let_go_in(
        self, CopyOnWriteStateMap found, int32_t position, Py_ssize_t *left
    ) except -1:
        """Evict entries of a map from a position on; return the next position."""
        cdef PsEntry taken
        cdef TableSnapshot snapshot
        while position < found.map.used and left[0] > 0:
            if self.is_written(found, position):
                for snapshot in self.snapshots:
                    snapshot.save(found, position)
                # Check again: serialising may run code of a value's class.
                if self.is_written(found, position):
                    found.found = found.used_last = PS_NONE
                    taken = ps_take_out(&found.map, position)
                    ps_release(taken.value)
                    ps_release(taken.key)
                    left[0] -= 1
            position += 1
        return position

    cdef inline bint is_written(self, CopyOnWriteStateMap found, int32_t position) noexcept:
        """Return whether the entry at a position is in the store as well."""
        if position >= found.map.used or found.map.entries[position].key == 0:
            return False
        return found.map.entries[position].epoch <= self.written

    def peek(self, Py_ssize_t slot, int32_t position, Py_ssize_t count):
        """Return some entries, for a reader of all in turn; see the pure twin."""
        cdef list found = []
        cdef CopyOnWriteStateMap contents
        cdef PsEntry *entry
        while count > 0:
            if slot >= len(self.slots):
                return found, 0, 0
            count -= 1
            contents = self.slots[slot]
            if contents is None or position >= contents.map.used:
                slot += 1
                position = 0
                continue
            entry = &contents.map.entries[position]
            if entry.key != 0:
                found.append((contents, object_of(entry.key), object_of(entry.value)))
            position += 1
        return found, slot, position

    def note_changes(self, kind, max_parallelism, key_groups):
        """Track from now on which key groups change; see the pure twin."""
        if self.changes is None:
            self.changes = KeyGroupEntries(kind, max_parallelism, key_groups, self.kind == "timer")

    def changed_groups(self, uint32_t since):
        """Return the key groups that changed since an earlier snapshot; see the pure twin."""
        if self.changes is None:
            raise IllegalStateError(f"state {self.name!r} does not note which key groups change")
        return self.changes.changed_since(since)

    def note_removals(self):
        """Track from now on which entries are removed; see the pure twin."""
        if self.removals is None:
            self.removals = Removals(self.epoch)

    def open_snapshot(self, kind, max_parallelism, key_groups, kept=(), uint32_t since=0):
        """Open a snapshot of the table, read in slices while it changes; see the pure twin."""
        return TableSnapshot(
            self,
            KeyGroupEntries(kind, max_parallelism, key_groups, self.kind == "timer", kept),
            since,
        )

    def open_unwritten(self, kind, max_parallelism, key_groups):
        """Open a snapshot of entries that are not in the store; see the pure twin."""
        return self.open_snapshot(kind, max_parallelism, key_groups, (), self.written + 1)

    def load(self, data not None, KeyReader keys not None):
        """Insert the entries that a snapshot serialised; see the pure twin."""
        cdef const unsigned char[::1] view = data
        if view.shape[0] > 0:
            load_entries(self, &view[0], view.shape[0], keys)

    def __iter__(self):
        for found in self.namespaces():
            for key, value in found if self.store is not None else found.items():
                yield found.namespace, key, value

    def __len__(self):
        return sum(map(len, self.namespaces()))


include "table_snapshot.pxi"
