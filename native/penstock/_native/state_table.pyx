"""Keyed state in memory, the native twin of ``penstock.taskexecutor.state.table``.

Maps, tables and snapshots are one module, which is therefore longer than others.  They call each
other for each record, and the C compiler inlines such calls only within a module.
"""

from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.long cimport PyLong_FromLongLong
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from penstock._native.dynamic_codec cimport decode_dynamic, read_number
from penstock._native.integers cimport ps_short_int
from penstock._native.state_map cimport (
    PS_MAX_TERM, PS_MOST, PS_NONE, PsWord, ps_empty, ps_find, ps_find_again, ps_forget,
    ps_hash_word, ps_hold, ps_insert, ps_integer, ps_integer_word, ps_is_integer, ps_never_changes,
    ps_pack, ps_prefetch, ps_release, ps_release_entries, ps_take_out, ps_unpack,
)
from penstock._native.text cimport text_cache
from penstock._native.wire cimport Reader, get8

from penstock.errors import CorruptStreamError, IllegalStateError, SerializationError
from penstock.taskexecutor.state.naming import name_state
from penstock.taskexecutor.state.removals import Removals

cdef enum:
    ENTRY = 1
    NAMESPACE = 2

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


cdef inline PsWord held_word(object value) noexcept:
    cdef PsWord word = ps_pack(<PyObject *>value)
    ps_hold(word)
    return word


cdef inline bint read_word(Reader *reader, PsWord *word) except -1:
    """Read an integer that an entry holds itself; return False, reading nothing, for others."""
    cdef const uint8_t *start = reader.position
    cdef int64_t number
    if not read_number(reader, &number):
        return False
    if not -PS_MOST <= number < PS_MOST:
        reader.position = start
        return False
    word[0] = ps_integer_word(number)
    return True


cdef inline object read_identity(Reader *reader, KeyReader keys):
    cdef object key = decode_dynamic(reader)
    if type(key) is keys.plain or type(key) is keys.other:
        return key
    return keys.identity(key)


cdef class StateMap:
    """The entries of one namespace; see the pure twin."""

    def __cinit__(self, StateTable table not None, namespace):
        self.table = table
        self.namespace = namespace
        self.found = PS_NONE
        self.used_last = PS_NONE
        self.slot = -1
        self.original = b""

    def __dealloc__(self):
        cdef int32_t used
        cdef PsEntry *entries = ps_empty(&self.map, &used)
        ps_release_entries(entries, used)

    cdef inline int32_t position_of(self, PsWord word, uint32_t *hash) except -3:
        """Return the position of a key; set its hash unless the entry was the last one used."""
        cdef int32_t position = self.used_last
        # An entry that is read is usually written next, or was written for the previous record.
        if position >= 0 and self.map.entries[position].key == word:
            return position
        ps_hash_word(word, hash)
        position = ps_find_again(&self.map, &text_cache, word, hash[0])
        if position >= 0:
            self.used_last = position
        return position

    cdef PsEntry *entry(self, Py_ssize_t position) except NULL:
        if not 0 <= position < self.map.used or self.map.entries[position].key == 0:
            raise IllegalStateError(f"state {self.table.name!r} has no entry at {position}")
        return &self.map.entries[position]

    cdef PsEntry *touched(self, Py_ssize_t position) except NULL:
        """Prepare the first change of an entry since the last snapshot was opened."""
        cdef TableSnapshot snapshot
        cdef PsEntry *entry
        if self.table.changes is not None:
            self.table.changes.note_change(self.map.entries[position].key, self.table.epoch)
        if self.table.snapshots:
            for snapshot in self.table.snapshots:
                snapshot.save(self, position)
        # Only now: serialising may run code of a value's class.
        entry = self.entry(position)
        entry.epoch = self.table.epoch
        return entry

    cdef PsEntry *lent(self, Py_ssize_t position) except NULL:
        """Prepare to return a value, which the receiver may change in place."""
        if ps_never_changes(self.map.entries[position].value, TUPLE_DEPTH):
            return &self.map.entries[position]
        return self.touched(position)

    cdef int32_t located(self, object key) except -3:
        """Return the position of a key, which may be loaded from the store, or PS_NONE."""
        cdef PsWord word = ps_pack(<PyObject *>key)
        cdef uint32_t hash
        cdef int32_t position
        ps_hash_word(word, &hash)
        position = ps_find_again(&self.map, &text_cache, word, hash)
        if position < 0 and self.is_stored:
            return self.fetched(key, word, hash)
        return position

    cdef int32_t fetched(self, object key, PsWord word, uint32_t hash) except -3:
        cdef object data = self.table.store.read(self, key)
        cdef const uint8_t[::1] view
        cdef Reader reader
        cdef object value
        if data is None:
            return PS_NONE
        view = data
        reader.position = &view[0]
        reader.end = &view[0] + view.shape[0]
        reader.depth = 0
        try:
            value = decode_dynamic(&reader)
        except SerializationError as error:
            name_state(error, self.table.name)
            raise
        return self.inserted(word, hash, ps_pack(<PyObject *>value), False)

    cdef int32_t inserted(
        self, PsWord word, uint32_t hash, PsWord value, bint is_changed
    ) except -3:
        """Add a key that is not present; an entry from the store counts as unchanged."""
        if self.table.store is not None:
            if self.table.room <= 0:
                self.table.store.make_room()
            self.table.room -= 1
        if self.table.changes is not None:
            self.table.changes.note_change(word, self.table.epoch)
        # Only now: making room may begin an epoch.
        return ps_insert(&self.map, word, hash, value, self.table.epoch if is_changed else 0)

    cpdef Py_ssize_t find(self, object key) except -2:
        self.found = self.located(key)
        return self.found

    cpdef object at(self, Py_ssize_t position):
        cdef PsEntry *entry = self.entry(position)
        if entry.epoch != self.table.epoch and not ps_is_integer(entry.value):
            entry = self.lent(position)
        return object_of(entry.value)

    cpdef int put_at(self, Py_ssize_t position, object key, object value) except -1:
        if position < 0 or position != self.found:
            # The key is new, or a call since the search has used or changed the state.
            return self.put(key, value)
        return self.replace(position, ps_pack(<PyObject *>value))

    cdef int replace(self, Py_ssize_t position, PsWord value) except -1:
        cdef PsEntry *entry = &self.map.entries[position]
        cdef PsWord old
        if entry.epoch != self.table.epoch:
            entry = self.touched(position)
        old = entry.value
        entry.value = value
        ps_hold(value)
        # Last, since it may run user code.
        ps_release(old)
        return 0

    cpdef object increase(self, object key, object number):
        cdef PsEntry *entry
        cdef int32_t position
        cdef int64_t total
        if not PyLong_CheckExact(<PyObject *>number):
            return None
        if not ps_short_int(<PyObject *>number, &total) or not -PS_MAX_TERM < total < PS_MAX_TERM:
            return None
        position = self.located(key)
        if position < 0:
            return None
        entry = &self.map.entries[position]
        if not ps_is_integer(entry.value):
            return None
        total += ps_integer(entry.value)
        if not -PS_MAX_TERM < total < PS_MAX_TERM:
            return None
        if entry.epoch != self.table.epoch:
            entry = self.touched(position)
        entry.value = ps_integer_word(total)
        return PyLong_FromLongLong(total)

    cpdef object get(self, object key):
        cdef PsEntry *entry
        cdef PsWord word = ps_pack(<PyObject *>key)
        cdef uint32_t hash
        cdef int32_t position = self.position_of(word, &hash)
        if position < 0 and self.is_stored:
            position = self.used_last = self.fetched(key, word, hash)
        if position < 0:
            return None
        entry = &self.map.entries[position]
        if entry.epoch != self.table.epoch and not ps_is_integer(entry.value):
            entry = self.lent(position)
        return object_of(entry.value)

    cpdef int put(self, object key, object value) except -1:
        cdef PsWord word = ps_pack(<PyObject *>key)
        cdef uint32_t hash
        cdef int32_t position = self.position_of(word, &hash)
        if position < 0:
            self.used_last = self.inserted(word, hash, ps_pack(<PyObject *>value), True)
            return 0
        return self.replace(position, ps_pack(<PyObject *>value))

    cpdef int touch(self, object key) except -1:
        """Mark the entry of a key as changed in this epoch; see the pure twin."""
        cdef uint32_t hash
        cdef int32_t position = self.position_of(ps_pack(<PyObject *>key), &hash)
        if position >= 0 and self.map.entries[position].epoch != self.table.epoch:
            self.touched(position)
        return 0

    cdef int read_entry(
        self, Reader *reader, KeyReader keys, bint has_numbers, Loaded *loaded
    ) except -1:
        """Read an entry for ``put_loaded``; its place is prefetched meanwhile."""
        cdef PsEntry *entry = &loaded.entries[loaded.count]
        cdef object identity
        if not (has_numbers and read_word(reader, &entry.key)):
            identity = read_identity(reader, keys)
            entry.key = ps_pack(<PyObject *>identity)
            ps_hold(entry.key)
        entry.value = 0
        loaded.count += 1
        if not read_word(reader, &entry.value):
            entry.value = held_word(decode_dynamic(reader))
        ps_hash_word(entry.key, &entry.hash)
        ps_prefetch(&self.map, entry.hash)
        return 0

    cdef int put_loaded(self, Loaded *loaded) except -1:
        """Insert the entries that were read."""
        cdef PsEntry *entry
        cdef int32_t position, i
        for i in range(loaded.count):
            entry = &loaded.entries[i]
            position = ps_find(&self.map, entry.key, entry.hash)
            if position < 0:
                self.inserted(entry.key, entry.hash, entry.value, True)
            else:
                self.replace(position, entry.value)
        while loaded.count > 0:
            loaded.count -= 1
            ps_release(loaded.entries[loaded.count].key)
            ps_release(loaded.entries[loaded.count].value)
        return 0

    cdef int32_t add_key(self, object key) except -3:
        """Add a key that is its own identity; return its position, or PS_NONE if it exists."""
        cdef PsWord word = ps_pack(<PyObject *>key)
        cdef uint32_t hash
        ps_hash_word(word, &hash)
        if ps_find(&self.map, word, hash) >= 0:
            return PS_NONE
        if self.table.changes is not None:
            self.table.changes.note_change(word, self.table.epoch)
        return ps_insert(&self.map, word, hash, ps_integer_word(1), self.table.epoch)

    cdef int take_out(self, int32_t position, PsEntry *taken) except -1:
        """Remove the entry at a position; the caller owns its references."""
        if self.map.entries[position].epoch != self.table.epoch:
            self.touched(position)
        self.found = self.used_last = PS_NONE
        if self.table.removals is not None:
            self.table.removals.note(self.namespace, object_of(self.map.entries[position].key))
        taken[0] = ps_take_out(&self.map, position)
        return 0

    cpdef object remove(self, object key):
        cdef PsEntry taken
        cdef int32_t position = self.located(key)
        cdef object value
        if position < 0:
            return None
        self.take_out(position, &taken)
        value = object_of(taken.value)
        ps_release(taken.value)
        ps_release(taken.key)
        if self.is_stored:
            self.table.store.note_removed(self, key)
        return value

    def clear(self):
        """Remove every entry."""
        cdef int32_t used, position
        cdef PsEntry *entries
        cdef StateMap contents
        cdef TableSnapshot snapshot
        self.found = self.used_last = PS_NONE
        if self.is_stored:
            self.table.store.clear(self)
            self.is_stored = False
        if self.table.changes is not None and self.map.count > 0:
            self.table.changes.note_all_changed(self.table.epoch)
        if self.table.removals is not None:
            for position in range(self.map.used):
                if self.map.entries[position].key != 0:
                    key = object_of(self.map.entries[position].key)
                    self.table.removals.note(self.namespace, key)
        if self.table.snapshots and self.map.count > 0:
            # There may be many: snapshots serialise them later and then release them.
            contents = StateMap(self.table, self.namespace)
            contents.number = self.number
            contents.map = self.map
            ps_forget(&self.map)
            for snapshot in self.table.snapshots:
                snapshot.detach(self, contents)
            return
        entries = ps_empty(&self.map, &used)
        ps_release_entries(entries, used)

    def keys(self):
        """Return the keys as a list."""
        cdef list keys = []
        cdef int32_t position
        if self.is_stored:
            return [key for key, _ in self.table.store.items(self)]
        for position in range(self.map.used):
            if self.map.entries[position].key != 0:
                keys.append(object_of(self.map.entries[position].key))
        return keys

    def values(self):
        """Return the values as a list."""
        return [value for _, value in self.items()]

    def items(self):
        """Return the pairs of key and value as a list."""
        cdef list pairs = []
        cdef int32_t position
        cdef object key
        if self.is_stored:
            return list(self.table.store.items(self))
        for position in range(self.map.used):
            if self.map.entries[position].key != 0:
                key = object_of(self.map.entries[position].key)
                pairs.append((key, self.at(position)))
        return pairs

    def __iter__(self):
        """Yield pairs of key and value, read during the iteration; see the pure twin."""
        cdef int32_t position = 0
        if self.table.store is not None:
            yield from self.table.store.items(self) if self.is_stored else self.items()
            return
        while position < self.map.used:
            if self.map.entries[position].key != 0:
                yield object_of(self.map.entries[position].key), self.at(position)
            position += 1

    def __len__(self):
        if self.is_stored:
            return sum(1 for _ in self.table.store.items(self))
        return self.map.count

    def __contains__(self, key):
        return self.find(key) >= 0


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

    cpdef StateMap map(self, object namespace):
        """Return the entries of a namespace, creating the map if missing."""
        cdef object found = self.maps.get(namespace)
        cdef StateMap made
        if found is not None:
            return <StateMap>found
        made = StateMap(self, namespace)
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
        cdef StateMap found
        self.changes = None
        self.removals = None
        for found in self.maps.values():
            found.is_stored = False
            found.clear()

    def drop_if_empty(self, namespace):
        """Forget a namespace without keys; see the pure twin."""
        cdef StateMap found
        if namespace is not None:
            found = self.maps.get(namespace)
            if found is not None and found.map.count == 0:
                self.drop(found)

    cdef int drop(self, StateMap found) except -1:
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
        cdef StateMap found
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
        cdef StateMap found
        cdef StateMap given = None      # the map of the last row
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
        cdef StateMap found
        cdef list new = []
        for found in maps:
            if not found.is_stored:
                found.is_stored = True
                new.append(found.namespace)
        return new

    cdef tuple changed_row(
        self, StateRows rows, StateMap found, int32_t position, uint32_t last
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
        cdef StateMap found
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
        cdef StateMap found
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

    cdef int32_t let_go_in(self, StateMap found, int32_t position, Py_ssize_t *left) except -1:
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

    cdef inline bint is_written(self, StateMap found, int32_t position) noexcept:
        """Return whether the entry at a position is in the store as well."""
        if position >= found.map.used or found.map.entries[position].key == 0:
            return False
        return found.map.entries[position].epoch <= self.written

    def peek(self, Py_ssize_t slot, int32_t position, Py_ssize_t count):
        """Return some entries, for a reader of all in turn; see the pure twin."""
        cdef list found = []
        cdef StateMap contents
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
            self.load_entries(&view[0], view.shape[0], keys)

    cdef int load_entries(self, const uint8_t *data, Py_ssize_t size, KeyReader keys) except -1:
        cdef Reader reader
        cdef StateMap contents = self.map(None)
        cdef bint has_timers = self.kind == "timer"
        cdef bint has_numbers = not has_timers and (keys.plain is int or keys.other is int)
        cdef Loaded loaded
        cdef uint8_t tag
        loaded.count = 0
        reader.position = data
        reader.end = data + size
        reader.depth = 0
        try:
            while reader.position < reader.end:
                tag = get8(&reader)
                if tag == NAMESPACE:
                    contents.put_loaded(&loaded)
                    contents = self.map(decode_dynamic(&reader))
                    continue
                if tag != ENTRY:
                    raise CorruptStreamError(f"0x{tag:02x} where an entry of state begins")
                if has_timers:
                    self.load_timer(&reader, contents, keys)
                    continue
                contents.read_entry(&reader, keys, has_numbers, &loaded)
                if loaded.count == LOADED_AT_ONCE:
                    contents.put_loaded(&loaded)
            contents.put_loaded(&loaded)
        finally:
            while loaded.count > 0:
                loaded.count -= 1
                ps_release(loaded.entries[loaded.count].key)
                ps_release(loaded.entries[loaded.count].value)
        return 0

    cdef int load_timer(self, Reader *reader, StateMap contents, KeyReader keys) except -1:
        cdef object key = read_identity(reader, keys)
        cdef object namespace = decode_dynamic(reader)
        is_key = namespace is None and type(key) is not tuple
        return contents.put(key if is_key else (key, namespace), 1)

    def __iter__(self):
        for found in self.namespaces():
            for key, value in found if self.store is not None else found.items():
                yield found.namespace, key, value

    def __len__(self):
        return sum(map(len, self.namespaces()))


cdef class TableSnapshot:
    """The content of a table at one moment; see the pure twin."""

    def __cinit__(
        self, StateTable of not None, KeyGroupEntries entries not None, uint32_t since=0
    ):
        of.epoch += 1
        if of.removals is not None:
            of.removals.begin(of.epoch)
        self.since = since
        self.table = of
        self.entries = entries
        self.epoch = of.epoch
        # If all groups are kept, no search is needed.
        self.end_slot = 0 if entries.keeps_all() else len(of.slots)
        self.detached = []
        of.snapshots.append(self)

    def advance(self, long long deadline_ns, int steps=64):
        """Serialise entries until a time is reached; see the pure twin."""
        cdef bint done = False
        while self.table is not None and not done:
            if self.failure is not None:
                break
            try:
                done = self.scan(steps)
            except Exception:
                self.close()
                raise
            if not done and monotonic_ns() >= deadline_ns:
                return False
        self.close()
        if self.failure is not None:
            raise self.failure
        return True

    def close(self):
        """Stop reading; the table does not preserve its contents any more."""
        if self.table is not None:
            self.table.snapshots.remove(self)
            self.table = None
            self.detached.clear()

    cdef int save(self, StateMap contents, Py_ssize_t position) except -1:
        """Serialise an entry before it changes, unless that was done."""
        cdef uint32_t epoch = contents.entry(position).epoch
        if epoch >= self.epoch or epoch < self.since or self.failure is not None:
            return 0
        if contents.slot < self.slot or contents.slot == self.slot and position < self.position:
            return 0
        try:
            self.add(contents, <int32_t>position)
        except Exception as error:
            # The checkpoint fails, not the record that is being processed.
            self.failure = error
        return 0

    cdef int detach(self, StateMap cleared, StateMap contents) except -1:
        """Keep the contents of a map that is being cleared."""
        if cleared.slot > self.slot:
            self.detached.append((contents, 0))
        elif cleared.slot == self.slot:
            self.detached.append((contents, self.position))
        return 0

    cdef bint scan(self, int steps) except -1:
        """Visit some entries or maps; return True when none are left."""
        cdef StateMap contents
        cdef int32_t position
        while steps > 0:
            if self.slot < self.end_slot:
                steps -= 1
                contents = self.table.slots[self.slot]
                if contents is not None:
                    self.position = self.scan_map(contents, self.position, &steps)
                    if self.position < contents.map.used:
                        continue
                self.slot += 1
                self.position = 0
            elif self.detached:
                steps -= 1
                contents, position = self.detached.pop()
                position = self.scan_map(contents, position, &steps)
                if position < contents.map.used:
                    self.detached.append((contents, position))
            else:
                return True
        return False

    cdef int32_t scan_map(self, StateMap contents, int32_t position, int *steps) except -1:
        """Serialise entries from a position on; return the next position."""
        cdef PsEntry *entry
        while position < contents.map.used and steps[0] > 0:
            entry = &contents.map.entries[position]
            if entry.key != 0 and self.since <= entry.epoch < self.epoch:
                if not self.entries.leaves_out(entry.key):
                    self.add(contents, position)
            position += 1
            steps[0] -= 1
        return position

    cdef int add(self, StateMap contents, int32_t position) except -1:
        cdef PsWord key = contents.map.entries[position].key
        cdef PsWord value = contents.map.entries[position].value
        self.num_recent += contents.map.entries[position].epoch == self.epoch - 1
        # Held, since serialising a value may run code of its class.
        ps_hold(key)
        ps_hold(value)
        try:
            if contents.table.snapshot_filter is not None:
                return self.add_filtered(contents, key, object_of(value))
            self.entries.add(contents.namespace, contents.number, key, value)
        finally:
            ps_release(key)
            ps_release(value)
        return 0

    cdef int add_filtered(self, StateMap contents, PsWord key, object value) except -1:
        cdef object kept = contents.table.snapshot_filter(value)
        if kept is not None:
            self.entries.add(contents.namespace, contents.number, key, ps_pack(<PyObject *>kept))
        return 0


cdef inline long long monotonic_ns() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1_000_000_000LL + now.tv_nsec
