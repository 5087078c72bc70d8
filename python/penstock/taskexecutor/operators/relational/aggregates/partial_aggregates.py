"""Aggregates of the groups of one batch, computed on columns and merged into state afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrow_groups import grouped
from penstock.columns.record_batches import LEAST_ROWS, values_of
from penstock.table import types
from penstock.table.functions.aggregates import is_mergeable
from penstock.taskexecutor.operators.relational.key_texts import key_text, key_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_SUMS: Final = ("SUM", "$SUM0", "AVG")
_EXTREMES: Final = ("MIN", "MAX")
#: Above it, a sum of integers may exceed 64 bits.
_SAFE: Final = 1 << 62


class PartialGroup(NamedTuple):
    """The rows of one group in a batch.

    Attributes:
        key: The values of the key.
        text: The `key_text` of the key, or of its part in the exchange.
        extra: The value of the column beside the key; None without it.
        rows: The number of rows.
        values: The accumulators of the calls.
    """

    key: tuple[Any, ...]
    text: str
    extra: Any
    rows: int
    values: tuple[Any, ...]


class PartialAggregates:
    """Groups batches and computes accumulators for ``AggregateCalls.merge``.

    Floating-point and decimal sums are left to the accumulators, whose results depend on the order
    of rows.

    Attributes:
        rows: The number of rows that were aggregated on columns, for a metric.
    """

    def __init__(
        self, keys: Sequence[int], calls: Sequence[AggregateCall], partition: Sequence[int]
    ) -> None:
        """Create aggregates for calls that can be merged; see `of`."""
        self._keys = tuple(keys)
        #: The places in the key of the columns of the exchange.
        self._places = [self._keys.index(position) for position in partition]
        self._calls = tuple(calls)
        self.rows = 0

    @classmethod
    def of(
        cls,
        context: OperatorContext,
        input: Schema,
        keys: Sequence[int],
        calls: Sequence[AggregateCall],
        partition: Sequence[int] | None = None,
    ) -> PartialAggregates | None:
        """Return the aggregates of an operator on columns; None if they need single rows.

        Args:
            context: The operator's context.
            input: The columns of the input.
            keys: The positions of the columns that make a group.
            calls: The aggregates, over columns.
            partition: Those of the keys that `PartialGroup.text` has; None for all.
        """
        kinds = [input.fields[key].type for key in keys]
        if not all(map(_is_plain, kinds)) or not all(map(is_mergeable, calls)):
            return None
        made = cls(keys, calls, keys if partition is None else partition)
        context.metric_group().gauge("numRowsAggregatedInColumns", lambda: made.rows)
        return made

    def groups(
        self, batch: pa.RecordBatch, extra: pa.Array | None = None
    ) -> Iterator[PartialGroup] | None:
        """Return the groups of a batch without row kinds, in the order of their first rows.

        Args:
            batch: The rows.
            extra: An array of one more part of the key; None for none.

        Returns:
            None if there are too few rows, or values too large for columns.
        """
        if batch.num_rows < LEAST_ROWS:
            return None
        columns = {f"k{i}": batch.column(key) for i, key in enumerate(self._keys)}
        if extra is not None:
            columns["extra"] = extra
        names = list(columns)
        columns["n"] = pa.repeat(1, batch.num_rows)
        wanted = [("n", "count")]
        for position, call in enumerate(self._calls):
            column = argument_of(batch, call)
            if column is None:
                continue
            if call.function in _SUMS:
                column = column.cast(pa.int64())
            if call.function == "AVG" and not _fits(column):
                return None
            columns[f"a{position}"] = column
            if call.function in _SUMS:
                wanted.append((f"a{position}", "sum"))
            if call.function in _EXTREMES:
                wanted.append((f"a{position}", call.function.lower()))
            else:
                wanted.append((f"a{position}", "count"))
        table = pa.table(columns)
        found = grouped(table, names, wanted)
        self.rows += batch.num_rows
        return self._read(found, has_extra=extra is not None)

    def _read(self, found: pa.Table, *, has_extra: bool) -> Iterator[PartialGroup]:
        def values(name: str) -> list[Any]:
            return values_of(found.column(name).combine_chunks())

        rows = found.num_rows
        names = [f"k{i}" for i in range(len(self._keys))]
        keys = list(map(values, names))
        texts = [key_text(())] * rows
        if self._places:
            columns = [found.column(name).combine_chunks() for name in names]
            texts = key_texts(pa.RecordBatch.from_arrays(columns, names), self._places)
        counts = values("n_count")
        accumulators: list[list[Any]] = []
        for position, call in enumerate(self._calls):
            name = f"a{position}"
            if f"{name}_count" not in found.column_names and call.function == "COUNT":
                accumulators.append(counts)
            elif call.function == "COUNT":
                accumulators.append(values(f"{name}_count"))
            elif call.function in _EXTREMES:
                accumulators.append(values(f"{name}_{call.function.lower()}"))
            else:
                pairs = zip(values(f"{name}_sum"), values(f"{name}_count"), strict=True)
                accumulators.append([(total or 0, count) for total, count in pairs])
        key_rows = zip(*keys, strict=True) if keys else [()] * rows
        extras = values("extra") if has_extra else [None] * rows
        value_rows = zip(*accumulators, strict=True) if accumulators else [()] * rows
        yield from map(PartialGroup, key_rows, texts, extras, counts, value_rows)


def argument_of(batch: pa.RecordBatch, call: AggregateCall) -> pa.Array | None:
    """Return the column that a call aggregates, NULL where rows are left out; None for no column.

    Args:
        batch: The rows.
        call: The call; one without an argument counts rows.
    """
    if call.arguments:
        column = batch.column(call.arguments[0].index)  # type: ignore[attr-defined]
    elif call.condition is not None:
        column = pa.repeat(1, batch.num_rows)
    else:
        return None
    if call.condition is not None:
        mask = pc.fill_null(batch.column(call.condition.index), False)  # type: ignore[attr-defined]
        column = pc.if_else(mask, column, pa.scalar(None, column.type))
    return column


def _fits(column: pa.Array) -> bool:
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    return max(-low, high) * len(column) < _SAFE


def _is_plain(kind: object) -> bool:
    return not isinstance(kind, types.ArrayType | types.MapType | types.RowType)
