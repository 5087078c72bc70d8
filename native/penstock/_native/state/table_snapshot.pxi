# The content of a table at one moment; a part of state_table.pyx.


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

    cdef int save(self, CopyOnWriteStateMap contents, Py_ssize_t position) except -1:
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

    cdef int detach(self, CopyOnWriteStateMap cleared, CopyOnWriteStateMap contents) except -1:
        """Keep the contents of a map that is being cleared."""
        if cleared.slot > self.slot:
            self.detached.append((contents, 0))
        elif cleared.slot == self.slot:
            self.detached.append((contents, self.position))
        return 0

    cdef bint scan(self, int steps) except -1:
        """Visit some entries or maps; return True when none are left."""
        cdef CopyOnWriteStateMap contents
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

    cdef int32_t scan_map(
        self, CopyOnWriteStateMap contents, int32_t position, int *steps
    ) except -1:
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

    cdef int add(self, CopyOnWriteStateMap contents, int32_t position) except -1:
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

    cdef int add_filtered(self, CopyOnWriteStateMap contents, PsWord key, object value) except -1:
        cdef object kept = contents.table.snapshot_filter(value)
        if kept is not None:
            self.entries.add(contents.namespace, contents.number, key, ps_pack(<PyObject *>kept))
        return 0


cdef inline long long monotonic_ns() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1_000_000_000LL + now.tv_nsec
