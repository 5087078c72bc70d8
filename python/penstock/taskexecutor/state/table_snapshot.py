"""TableSnapshot: the content of a `StateTable` at one moment, serialised in slices."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.taskexecutor.state.key_group_entries import KeyGroupEntries
    from penstock.taskexecutor.state.state_map import CopyOnWriteStateMap
    from penstock.taskexecutor.state.table import StateTable


class TableSnapshot:
    """The content of a table at one moment.

    Entries that the cursor has passed, and those changed since, are serialised already.

    Attributes:
        entries: The serialised entries, by key group; complete after ``advance`` returned True.
        epoch: Entries of an earlier epoch are part of the snapshot.
        since: Entries of an epoch before this are not.
        num_recent: Number of serialised entries that changed in the last epoch.
    """

    def __init__(self, table: StateTable, entries: KeyGroupEntries, since: int = 0) -> None:
        """Open a snapshot; use ``StateTable.open_snapshot``."""
        table.epoch += 1
        if table.removals is not None:
            table.removals.begin(table.epoch)
        self.entries = entries
        self.since = since
        self.num_recent = 0
        self._table: StateTable | None = table
        self.epoch = table.epoch
        #: All entries up to this map, and this position in it, are serialised.
        self._slot = 0
        self._position = 0
        # If all groups are left out, there is nothing to visit.
        self._end_slot = 0 if entries.keeps_all else len(table._slots)
        #: Contents that were cleared meanwhile, and the positions up to which they are serialised.
        self._detached: list[tuple[CopyOnWriteStateMap, int]] = []
        self._failure: Exception | None = None
        table.snapshots.append(self)

    def advance(self, deadline_ns: int, steps: int = 64) -> bool:
        """Serialise entries until a deadline; return True at the end.

        Args:
            deadline_ns: The deadline, by the monotonic clock.
            steps: Entries between two readings of the clock.

        Raises:
            Exception: An entry could not be serialised, now or when it was changed.
        """
        done = False
        while self._table is not None and self._failure is None and not done:
            try:
                done = self._scan(self._table, steps)
            except Exception:
                self.close()
                raise
            if not done and time.monotonic_ns() >= deadline_ns:
                return False
        self.close()
        if self._failure is not None:
            raise self._failure
        return True

    def close(self) -> None:
        """Stop reading, and release the table's contents."""
        if self._table is not None:
            self._table.snapshots.remove(self)
            self._table = None
            self._detached.clear()

    def save(self, contents: CopyOnWriteStateMap, position: int) -> None:
        """Serialise an entry before it changes, unless that was done."""
        if not self.since <= contents._epochs[position] < self.epoch or self._failure is not None:
            return
        if (contents.slot, position) < (self._slot, self._position):
            return
        try:
            self._add(contents, position)
        except Exception as error:
            # The checkpoint must fail, not the record being processed.
            self._failure = error

    def detach(self, cleared: CopyOnWriteStateMap, contents: CopyOnWriteStateMap) -> None:
        """Keep the contents of a map that is being cleared."""
        if cleared.slot > self._slot:
            self._detached.append((contents, 0))
        elif cleared.slot == self._slot:
            self._detached.append((contents, self._position))

    def _scan(self, table: StateTable, steps: int) -> bool:
        """Visit some entries or maps; return True at the end."""
        while steps > 0:
            if self._slot < self._end_slot:
                contents = table._slots[self._slot]
                steps -= 1
                if contents is not None:
                    self._position, steps = self._scan_map(contents, self._position, steps)
                    if self._position < len(contents._entries):
                        continue
                self._slot += 1
                self._position = 0
            elif self._detached:
                contents, position = self._detached.pop()
                position, steps = self._scan_map(contents, position, steps - 1)
                if position < len(contents._entries):
                    self._detached.append((contents, position))
            else:
                return True
        return False

    def _scan_map(
        self, contents: CopyOnWriteStateMap, position: int, steps: int
    ) -> tuple[int, int]:
        """Serialise entries from a position on; return the next position and the steps left."""
        end = min(len(contents._entries), position + steps)
        for at in range(position, end):
            is_part = self.since <= contents._epochs[at] < self.epoch
            if is_part and contents._entries[at] is not None:
                self._add(contents, at)
        return max(position, end), steps - max(0, end - position)

    def _add(self, contents: CopyOnWriteStateMap, position: int) -> None:
        entry = contents._entries[position]
        assert entry is not None, "the caller has found it"
        key, value = entry
        self.num_recent += contents._epochs[position] == self.epoch - 1
        if contents.table.snapshot_filter is not None:
            value = contents.table.snapshot_filter(value)
            if value is None:
                return
        self.entries.add(contents.namespace, contents.number, key, value)
