"""The accumulators of keys as columns, in front of keyed state in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.columns.integer_folds import INTEGER_FOLDS
from penstock.expressions.checking import kind_of
from penstock.formats.arrow_types import arrow_type
from penstock.taskexecutor.operators.relational.joins.key_numbers import KeyNumbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.aggregates.named import Call, KeyFields, NamedAggregates
    from penstock.columns.array_types import Integers
    from penstock.columns.grouped_folds import Accumulators
    from penstock.columns.groups import Groups
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: At this many changed keys they are written, so that a barrier does not wait for more of them.
_MOST_CHANGED: Final = 1 << 14

_FEWEST_KEYS: Final = 64


class ColumnGroups:
    """Numbers keys, and keeps the accumulators of each aggregate by the number of the key.

    Keyed state stays complete: an accumulator is read from it when its key first appears, and
    written to it before anything else reads the state, such as a snapshot.  Therefore snapshots
    have the same form with and without columns.

    Attributes:
        batches: The batches whose accumulators were found here, for a metric.
    """

    def __init__(
        self,
        context: OperatorContext,
        aggregates: NamedAggregates,
        fields: KeyFields,
        keys: KeyReader,
        kept: Any,
    ) -> None:
        """Start without keys.

        Args:
            context: The operator's context.
            aggregates: The aggregates, none of which changes its accumulator in place.
            fields: The fields of the key.
            keys: Maps keys to their form in state.
            kept: The keyed state: the tuple of accumulators by key.
        """
        self._aggregates = aggregates
        self._fields = fields
        self._keys = keys
        self._kept = kept
        self._folds = [
            INTEGER_FOLDS[call.function] if _is_integer(call) else None for call in aggregates.calls
        ]
        kinds = [arrow_type(kind) for kind in fields.types]
        self._numbers = KeyNumbers(context, kinds, len(kinds))
        self._forget()
        self.batches = 0
        context.keyed_state.write_backs.append(self.write_back)
        context.metric_group().gauge("numBatchesInColumnState", lambda: self.batches)

    def _forget(self) -> None:
        self._numbers.clear()
        #: By number: the key as state has it.
        self._identities: list[object] = []
        #: By aggregate: the accumulators by number; a matrix has room for more.
        self._accumulators: list[Accumulators] = [
            [] if fold is None else np.empty((fold.width, _FEWEST_KEYS), np.int64)
            for fold in self._folds
        ]
        #: By number: whether keyed state lacks the last change.
        self._is_changed = np.zeros(_FEWEST_KEYS, bool)
        self._num_changed = 0

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._identities)

    def find(self, columns: Sequence[pa.Array]) -> tuple[Groups, Integers]:
        """Return the groups of some records, and the number of the key of each group.

        Args:
            columns: The columns of the key.

        Raises:
            NoKernelError: An accumulator in keyed state does not fit into columns; the caller must
                `clear` the groups.
        """
        names = [str(position) for position in range(len(columns))]
        batch = pa.RecordBatch.from_arrays(list(columns), names)
        groups, numbers = self._numbers.of(batch, range(len(columns)))
        known = len(self)
        if len(self._numbers) > known:
            is_new = numbers >= known
            firsts = pa.array(groups.firsts[is_new])
            values = self._fields.keys([column.take(firsts).to_pylist() for column in columns])
            # New keys are numbered in the order of their first records.
            self._add(list(map(self._keys.identity, values)))
        self.batches += 1
        return groups, numbers

    def _add(self, identities: list[object]) -> None:
        """Add the accumulators of keys behind all others."""
        empty = self._aggregates.create_accumulator()
        found = map(self._kept.get, identities)
        kept = [empty if each is None else each for each in found]
        known, count = len(self), len(self) + len(kept)
        for at, fold in enumerate(self._folds):
            added = [each[at] for each in kept]
            old = self._accumulators[at]
            if isinstance(old, list):
                old += added
            elif fold is not None:
                if count > old.shape[1]:
                    old = _extended(old, max(count, 2 * known))
                    self._accumulators[at] = old
                old[:, known:count] = fold.read(added)
        if count > len(self._is_changed):
            self._is_changed = _extended(self._is_changed, max(count, 2 * known))
        self._identities += identities

    def accumulators(self, numbers: Integers) -> list[Accumulators]:
        """Return, by aggregate, the accumulators of some keys."""
        places: list[int] | None = None
        found: list[Accumulators] = []
        for old in self._accumulators:
            if not isinstance(old, list):
                found.append(old[:, numbers])
                continue
            places = numbers.tolist() if places is None else places
            found.append([old[place] for place in places])
        return found

    def put(self, numbers: Integers, new: Sequence[Accumulators]) -> None:
        """Set the accumulators of some keys; see `accumulators`."""
        for old, each in zip(self._accumulators, new, strict=True):
            if not isinstance(old, list):
                old[:, numbers] = each
                continue
            for place, value in zip(numbers.tolist(), each, strict=True):
                old[place] = value
        self._num_changed += len(numbers) - int(np.count_nonzero(self._is_changed[numbers]))
        self._is_changed[numbers] = True
        if self._num_changed > _MOST_CHANGED:
            self.write_back()

    def write_back(self) -> None:
        """Write the changed accumulators to keyed state."""
        if not self._num_changed:
            return
        numbers = np.flatnonzero(self._is_changed)
        columns = [
            found if fold is None or isinstance(found, list) else fold.written(found)
            for fold, found in zip(self._folds, self.accumulators(numbers), strict=True)
        ]
        identities, put = self._identities, self._kept.put
        for number, new in zip(numbers.tolist(), zip(*columns, strict=True), strict=True):
            put(identities[number], new)
        self._is_changed[numbers] = False
        self._num_changed = 0

    def clear(self) -> None:
        """Write the changed accumulators, and forget all keys."""
        self.write_back()
        self._forget()


def _is_integer(call: Call) -> bool:
    """Return whether the accumulators of an aggregate are integers."""
    if call.function == "count":
        return True
    return call.function in INTEGER_FOLDS and [*map(kind_of, call.types)] == ["integer"]


def _extended(found: Any, width: int) -> Any:
    """Return an array with more zeros at the end of its last dimension."""
    more = np.zeros((*found.shape[:-1], width - found.shape[-1]), found.dtype)
    return np.concatenate((found, more), axis=-1)
