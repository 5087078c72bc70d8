"""Open sessions of keys that have one session, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.formats.numpy_values import numpy_values
from penstock.taskexecutor.compiled import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.columns.array_types import Booleans, Integers, Values
    from penstock.taskexecutor.operators.relational.windows.slice_partials import SlicePartials

_Key = tuple[Any, ...]

#: The first number of places.
_FIRST: Final = 1024

#: The place of a key that has sessions elsewhere.
ELSEWHERE: Final = -2


class SessionColumns:
    """The open sessions of keys, each in a place of arrays.

    Attributes:
        places: By key, the place of its session; `ELSEWHERE` if its sessions are not here.
        first_end: No session ends before this time.
    """

    def __init__(self, partials: SlicePartials) -> None:
        """Start without sessions; ``partials`` has no columns of a key."""
        self._partials = partials
        self._merging = partials.merging
        self.places: dict[_Key, int] = {}
        self.first_end = MAX_TIMESTAMP
        self._free: list[int] = []
        self._used = 0
        self._keys: list[_Key] = []
        self._starts = np.zeros(0, np.int64)
        self._ends = np.zeros(0, np.int64)
        #: Whether a session has changed since the last barrier, and whether it is in the state.
        self._is_changed = np.zeros(0, bool)
        self._is_stored = np.zeros(0, bool)
        self._values = [_numbers(pa.array([], kind)).copy() for kind in partials.value_types]
        self._valid = [np.zeros(0, bool) for _ in self._values]

    def add(
        self, keys: Sequence[_Key], starts: Integers, ends: Integers, values: Sequence[pa.Array]
    ) -> list[int]:
        """Add sessions of keys that differ, merged with those that they meet.

        Args:
            keys: The keys.
            starts: The starts in ms, as a numpy array.
            ends: The ends in ms, exclusive, as a numpy array.
            values: The columns of the partial aggregates.

        Returns:
            The positions of those that do not fit here: their keys have other sessions.
        """
        find = self.places.get
        places = np.fromiter((find(key, -1) for key in keys), np.int64, len(keys))
        known = np.flatnonzero(places >= 0)
        found = places[known]
        meets = (self._starts[found] <= ends[known]) & (starts[known] <= self._ends[found])
        rest = [*known[~meets].tolist(), *np.flatnonzero(places == ELSEWHERE).tolist()]
        known, found = known[meets], found[meets]
        self._starts[found] = np.minimum(self._starts[found], starts[known])
        self._ends[found] = np.maximum(self._ends[found], ends[known])
        self._is_changed[found] = True
        new = np.flatnonzero(places == -1)
        taken = self._take([keys[i] for i in new.tolist()])
        self._starts[taken], self._ends[taken] = starts[new], ends[new]
        self._is_changed[taken], self._is_stored[taken] = True, False
        if len(new):
            self.first_end = min(self.first_end, int(ends[new].min()))
        for i, column in enumerate(values):
            numbers, valid = _numbers(column), _valid(column)
            self._values[i][taken], self._valid[i][taken] = numbers[new], valid[new]
            self._merge(i, found, numbers[known], valid[known])
        return rest

    def _merge(self, i: int, places: Integers, numbers: Values, valid: Booleans) -> None:
        old, was_valid = self._values[i][places], self._valid[i][places]
        both = valid & was_valid
        merged = np.where(valid, numbers, old)
        merged[both] = self._merging[i](old[both], numbers[both])
        self._values[i][places] = merged
        self._valid[i][places] = valid | was_valid

    def _take(self, keys: list[_Key]) -> Integers:
        """Return places for keys that have none."""
        while len(self._free) < len(keys):
            self._grow()
        taken = [self._free.pop() for _ in keys]
        for place, key in zip(taken, keys, strict=True):
            self._keys[place] = key
            self.places[key] = place
        return np.array(taken, np.int64)

    def _grow(self) -> None:
        old = len(self._keys)
        size = max(_FIRST, 2 * old)
        self._free += range(size - 1, old - 1, -1)
        self._keys += [()] * (size - old)
        self._starts = np.resize(self._starts, size)
        self._ends = np.resize(self._ends, size)
        self._ends[old:] = MAX_TIMESTAMP
        self._is_changed = np.resize(self._is_changed, size)
        self._is_changed[old:] = False
        self._is_stored = np.resize(self._is_stored, size)
        self._values = [np.resize(each, size) for each in self._values]
        self._valid = [np.resize(each, size) for each in self._valid]

    def ended(self, timestamp: int) -> Integers:
        """Return the places of the sessions whose last ms has passed."""
        if self.first_end - 1 > timestamp:
            return np.zeros(0, np.int64)
        # Places without a session end last of all.
        is_ended = (self._ends - 1 <= timestamp) & (self._ends < MAX_TIMESTAMP)
        open_ends = self._ends[~is_ended]
        self.first_end = int(open_ends.min()) if len(open_ends) else MAX_TIMESTAMP
        return np.flatnonzero(is_ended)

    def changed(self) -> Integers:
        """Return the places of the sessions that changed since the last barrier."""
        found = np.flatnonzero(self._is_changed)
        self._is_changed[found] = False
        self._is_stored[found] = True
        return found

    def remove(self, places: Integers) -> list[_Key]:
        """Remove the sessions of some places; return the keys of those that are in the state."""
        keys = [self._keys[place] for place in places.tolist()]
        stored = [keys[i] for i in np.flatnonzero(self._is_stored[places]).tolist()]
        for key in keys:
            del self.places[key]
        self._free += places.tolist()
        self._ends[places] = MAX_TIMESTAMP
        self._is_changed[places] = self._is_stored[places] = False
        return stored

    def read(self, places: Integers) -> tuple[list[_Key], Integers, Integers, pa.RecordBatch]:
        """Return keys, starts, ends and partial aggregates of the sessions of some places."""
        values = [
            _column(each[places], valid[places], kind)
            for each, valid, kind in zip(
                self._values, self._valid, self._partials.value_types, strict=True
            )
        ]
        keys = [self._keys[place] for place in places.tolist()]
        starts, ends = self._starts[places], self._ends[places]
        return keys, starts, ends, self._partials.of_values(ends, values)


def _numbers(column: pa.Array) -> Values:
    """Return the values of a column as numbers that numpy merges; anything where it is NULL."""
    kind = column.type
    if pa.types.is_decimal(kind):
        # Python's integers have any size.
        return np.array([int(value or 0) for value in column.to_pylist()], object)
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    return numpy_values(column.cast(pa.int64()).fill_null(0))


def _valid(column: pa.Array) -> Booleans:
    return numpy_values(column.is_valid())


def _column(numbers: Values, valid: Booleans, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array(numbers.tolist(), kind, mask=~valid)
    found = pa.array(numbers, mask=~valid)
    if pa.types.is_date32(kind):
        found = found.cast(pa.int32())
    return found.cast(kind)
