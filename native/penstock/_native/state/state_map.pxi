# The entries of one namespace; a part of state_table.pyx.


cdef class CopyOnWriteStateMap:
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
        cdef CopyOnWriteStateMap contents
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
            contents = CopyOnWriteStateMap(self.table, self.namespace)
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
