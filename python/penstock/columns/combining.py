"""The local combine of batches in front of an exchange, and its batches at the receiver.

`penstock.aggregates.combination` says which records are combined, and describes combined ones.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.grouped_folds import GroupedFolds
from penstock.columns.groups import numbered
from penstock.columns.key_columns import KeyColumns
from penstock.columns.keyed_columns import Keyed
from penstock.columns.panes import pane_starts
from penstock.columns.partial_folds import partial_columns
from penstock.columns.partition import Partition
from penstock.formats.numpy_values import numpy_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.aggregates.combination import Combination
    from penstock.columns.groups import Groups
    from penstock.columns.keyed_columns import KeyedColumns
    from penstock.expressions.evaluation import Evaluation

#: Smaller batches are sent as they are.
_FEWEST_ROWS: Final = 64

#: A record of combined rows costs about as much as this many rows, however few it has.
_ROWS_PER_RECORD: Final = 16

#: After this many rows the combine is switched off if too many remain.
_TRIED_ROWS: Final = 100_000

#: Groups per row above which combining does not pay.
_MOST_GROUPS: Final = 0.8


class Combiner:
    """Combines the rows of a sender's batches by key, and splits them among the receivers.

    It switches itself off if there were more than 0.8 groups per row after 100,000 rows, or if
    batches are too small for the number of receivers.

    Attributes:
        declared: The type of combined rows.
        rows: The rows that were combined.
        is_off: Whether it has switched itself off.
    """

    def __init__(
        self,
        combination: Combination,
        columns: KeyedColumns,
        kind: str | None,
        max_parallelism: int,
        num_channels: int,
    ) -> None:
        """Create a combiner.

        Args:
            combination: The aggregates.
            columns: Computes the keys and the arguments of aggregates.
            kind: The declared kind of the keys, on which their hash depends; None if undeclared.
            max_parallelism: The number of key groups.
            num_channels: The parallelism of the receivers.
        """
        self._combination = combination
        self.declared = combination.declared
        self._columns = columns
        aggregates = combination.aggregates
        self._folds = GroupedFolds(aggregates.calls, aggregates.folds)
        self._partition = Partition(key_of(combination, kind), max_parallelism, num_channels)
        self._num_channels = num_channels
        self._seen_rows = self._seen_groups = 0
        self.rows = 0
        self.is_off = False

    @cached_property
    def _schema(self) -> Any:
        return batch_schema(self._combination.declared)

    def split(self, batch: ColumnBatch) -> list[tuple[int, ColumnBatch]] | None:
        """Return each channel's combined rows; None if the rows must be sent as they are."""
        combined = self._combined(batch)
        if combined is None:
            return None
        self.rows += len(batch)
        return self._partition.split(combined)

    def _combined(self, batch: ColumnBatch) -> ColumnBatch | None:
        if self.is_off or len(batch) < _FEWEST_ROWS or batch.kinds is not None:
            return None
        panes = self._panes(batch)
        keyed = None if panes is None else self._columns.of(batch)
        if keyed is None or panes is None:
            return None
        groups = numbered([*keyed.keys, *panes])
        records = min(groups.count, self._num_channels)
        # Rows that are not combined count as one group each.
        sent = groups.count if records * _ROWS_PER_RECORD <= len(batch) else len(batch)
        self._note(len(batch), sent)
        if sent > _MOST_GROUPS * len(batch):
            return None
        found = partial_columns(self._folds.taken(groups, keyed.arguments))
        return None if found is None else self._batch(batch, groups, keyed.keys, found)

    def _panes(self, batch: ColumnBatch) -> list[Any] | None:
        """Return the column of the rows' panes, if there are panes; None if a row has none."""
        pane = self._combination.pane
        if pane is None:
            return []
        starts = pane_starts(batch, *pane)
        return None if starts is None else [starts]

    def _note(self, rows: int, groups: int) -> None:
        self._seen_rows += rows
        self._seen_groups += groups
        if self._seen_rows >= _TRIED_ROWS:
            self.is_off = self._seen_groups > _MOST_GROUPS * self._seen_rows
            self._seen_rows = self._seen_groups = 0

    def _batch(
        self, batch: ColumnBatch, groups: Groups, keys: Sequence[Any], found: list[Any]
    ) -> ColumnBatch | None:
        import pyarrow as pa

        firsts, stamps = pa.array(groups.firsts), batch.timestamps
        columns = [*[key.take(firsts) for key in keys], *found]
        if self._combination.pane is not None:
            columns.append(pa.array(groups.sizes))
        if not isinstance(stamps, int):
            stamps = stamps.take(pa.array(groups.lasts))
        try:
            arrays = [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(columns, self._schema, strict=True)
            ]
        except pa.ArrowInvalid:
            return None
        data = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return ColumnBatch(data, self._combination.declared, stamps)


class CombinedBatches:
    """Reads the batches of combined rows that an operator receives.

    Attributes:
        folds: Merges the combined rows.
        batches: The number of batches.
        rows: The combined rows in them.
        given_up: Always 0: every batch can be merged.
    """

    def __init__(self, combination: Combination) -> None:
        """Create a reader of combined rows."""
        self._declared = combination.declared
        self._num_keys = len(combination.key_fields.names)
        self.folds = GroupedFolds(*combination.merging)
        self.batches = self.rows = self.given_up = 0

    def takes(self, batch: ColumnBatch) -> bool:
        """Return whether a batch has combined rows."""
        return batch.declared is self._declared or batch.declared == self._declared

    def keyed(self, batch: ColumnBatch) -> Keyed | None:
        """Return the keys and accumulators of combined rows; None for other batches."""
        if not self.takes(batch):
            return None
        self.batches += 1
        self.rows += len(batch)
        columns = batch.data.columns
        return Keyed(columns[: self._num_keys], columns[self._num_keys :])

    def records(self, batch: ColumnBatch) -> Any:
        """Return the number of records that each combined row of windows represents, for numpy."""
        return numpy_values(batch.data.columns[-1])


def combined_batches(
    evaluation: Evaluation, combination: Combination | None
) -> CombinedBatches | None:
    """Return the reader of an operator's combined rows; None if it receives none.

    Args:
        evaluation: The evaluation of the operator, whose metrics count the batches.
        combination: The combination of the operator; None if it needs every record.
    """
    if combination is None or not evaluation.has_columns:
        return None
    found = CombinedBatches(combination)
    evaluation.column_programs.append(found)
    return found


def key_of(combination: Combination, kind: str | None) -> KeyColumns:
    """Return the key columns of combined rows.

    Args:
        combination: The combination.
        kind: The declared kind of the keys; None if undeclared.
    """
    fields = combination.key_fields
    places = tuple(range(len(fields.names)))
    return KeyColumns(places, fields.is_tuple, None if fields.is_tuple else kind)
