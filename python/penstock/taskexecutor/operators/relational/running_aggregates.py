"""The results of aggregates after each row of a batch, computed by columns.

Calls without a kernel add row by row, but for the whole column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.aggregates.folds import Max, Min
from penstock.columns.group_kernels import NoKernelError
from penstock.columns.grouped_folds import (
    Taken,
    counted_rows,
    running_extreme,
    running_numbers,
)
from penstock.columns.groups import Groups, numbered
from penstock.table.functions import type_rules
from penstock.table.functions.accumulator_choice import counts_distinct
from penstock.table.plan.nodes import INSERT, ROW_KIND, UPDATE_AFTER, UPDATE_BEFORE
from penstock.taskexecutor.operators.relational.batches import (
    arrow_schema,
    column_of_values,
)
from penstock.taskexecutor.operators.relational.change_pairs import change_pairs, differing
from penstock.taskexecutor.operators.relational.distinct_values import first_rows
from penstock.taskexecutor.operators.relational.key_texts import are_groupable, key_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.operators.relational.aggregate_calls import AggregateCalls
    from penstock.taskexecutor.operators.relational.expiring_rows import KeyedRows

#: Smaller batches are aggregated row by row, which costs less than the calls of kernels.
LEAST_ROWS: Final = 32


class _Counted(NamedTuple):
    """The rows of a batch that a call aggregates.

    Attributes:
        call: The call.
        groups: The groups of all rows.
        mask: By row, whether the call aggregates it, as a numpy array of booleans; None if all.
        column: The argument of each row; None without one.
        old: By group, the accumulator before the batch; kernels may change it.
        signs: By row, 1 if it is added and -1 if it is retracted; None if all are added.
    """

    call: AggregateCall
    groups: Groups
    mask: Any
    column: Any
    old: Sequence[Any]
    signs: Any

    @property
    def ones(self) -> Any:
        """Return 1 for rows that the call aggregates, -1 if it retracts them, 0 for others."""
        if self.signs is not None:
            return self.signs if self.mask is None else self.signs * self.mask
        if self.mask is None:
            return np.ones(len(self.groups), np.int64)
        return self.mask.astype(np.int64)


class _Found(NamedTuple):
    """The accumulators and results that a kernel computes.

    Attributes:
        accumulators: By group, the accumulator after the batch.
        results: By row, the result, as a numpy array or an Arrow array.
        mask: By row, whether the result is NULL; None if none is.
        before: By group, the result before the batch, whatever it is for a new group; None where
            the accumulators' function computes it.
    """

    accumulators: Sequence[Any]
    results: Any
    mask: Any = None
    before: Sequence[Any] | None = None

    @property
    def array(self) -> Any:
        """The results as an Arrow array."""
        is_array = isinstance(self.results, pa.Array)
        return self.results if is_array else pa.array(self.results, mask=self.mask)


class RunningAggregates:
    """Computes the changes that each row of a batch makes to its group.

    Attributes:
        batches: The batches that were computed, for a metric.
        calls_by_row: The number of calls in these batches that added row by row, for a metric.
    """

    def __init__(
        self,
        input: Schema,
        output: Schema,
        keys: tuple[int, ...],
        calls: AggregateCalls,
        *,
        is_updating: bool,
        emits_equal: bool,
    ) -> None:
        """Create the computation; see `GroupAggregateOperator` and `fits`.

        Args:
            input: The columns of the input.
            output: The columns of the output.
            keys: Positions of the columns that make a group.
            calls: The aggregates, over columns.
            is_updating: Whether batches of the output have row kinds.
            emits_equal: Whether to emit a change whose new row equals the old one.
        """
        self._input = input
        self._keys = keys
        self._calls = calls
        self._types = output.types[len(keys) :]
        self._schema = arrow_schema(output, has_kinds=is_updating)
        self._is_updating = is_updating
        self._emits_equal = emits_equal
        self.batches = 0
        self.calls_by_row = 0

    @staticmethod
    def fits(input: Schema, output: Schema, keys: Sequence[int]) -> bool:
        """Return whether kernels group and compare these columns as keyed state does."""
        fields = arrow_schema(input, has_kinds=False)
        results = list(arrow_schema(output, has_kinds=False))[len(keys) :]
        return are_groupable([fields.field(key).type for key in keys]) and not any(
            pa.types.is_nested(field.type) for field in results
        )

    @staticmethod
    def can_retract(calls: Sequence[AggregateCall]) -> bool:
        """Return whether all calls have kernels that retract rows."""
        return all(
            not counts_distinct(call)
            and (
                call.function == "COUNT"
                or (call.function in _SUMS and type(call.type) in type_rules.BOUNDS)
            )
            for call in calls
        )

    def changes(self, batch: pa.RecordBatch, state: KeyedRows) -> Any:
        """Add the rows of a batch to the groups in state and return the changes, if any.

        Raises:
            NoKernelError: Rows are retracted, and kernels cannot compute that.
        """
        signs = _signs(batch)
        groups = numbered([batch.column(key) for key in self._keys])
        firsts = pa.array(groups.firsts)
        texts = key_texts(batch.take(firsts), self._keys)
        kept = [self._calls.of_state(state.get(text)) for text in texts]
        is_new = np.array([group is None for group in kept])
        create = self._calls.create
        counts, *old = zip(*[group or (0, *create()) for group in kept], strict=True)
        if signs is None:
            counts = (np.array(counts) + groups.sizes).tolist()
        else:
            running = running_numbers(groups, signs, counts)
            if running.min() <= 0:
                raise NoKernelError
            counts = running[groups.lasts].tolist()
        results, new = self._results(batch, groups, is_new.tolist(), old, signs)
        self.batches += 1
        for text, group in zip(texts, zip(counts, *new, strict=True), strict=True):
            state.put(text, group)
        return self._emitted(batch, groups, results, is_new)

    def _results(
        self,
        batch: pa.RecordBatch,
        groups: Groups,
        is_new: list[bool],
        old: Sequence[Sequence[Any]],
        signs: Any,
    ) -> tuple[list[Any], list[Sequence[Any]]]:
        """Return, by call, the results of all rows and then of all groups before the batch.

        Also returns, by call, the accumulators of all groups after the batch, and behind them the
        dictionaries of distinct values.
        """
        columns: list[Any] = []
        after: list[Sequence[Any]] = []
        schema = list(self._schema)[len(self._keys) :]
        by_row: set[int] = set()
        all_taken = self._taken(batch, groups, old, signs)
        self._leave_out_known(batch, all_taken, old, by_row)
        for place, (made, kind) in enumerate(
            zip(self._calls.accumulators, self._types, strict=True)
        ):
            target = schema[place].type
            taken = all_taken[place]
            found = self._kernel(taken, place)
            before = None if found is None else found.before
            if before is None:
                before = [
                    None if new else made.result(value)
                    for new, value in zip(is_new, taken.old, strict=True)
                ]
            accumulators: Sequence[Any]
            if found is None:
                if signs is not None:
                    raise NoKernelError
                by_row.add(place)
                accumulators, rows = self._each(batch, taken, place)
                array = column_of_values(rows, kind, target)
            else:
                accumulators = found.accumulators
                array = found.array.cast(target)
            columns.append(pa.concat_arrays([array, column_of_values(before, kind, target)]))
            after.append(accumulators)
        self.calls_by_row += len(by_row)
        return columns, [*after, *old[len(after) :]]

    def _taken(
        self, batch: pa.RecordBatch, groups: Groups, old: Sequence[Sequence[Any]], signs: Any
    ) -> list[_Counted]:
        """Return, by call, the rows that meet its condition."""
        found = []
        for place, call in enumerate(self._calls.calls):
            condition = column = None
            if call.condition is not None:
                condition = batch.column(call.condition.index)  # type: ignore[attr-defined]
            nullable = []
            if call.arguments:
                column = batch.column(call.arguments[0].index)  # type: ignore[attr-defined]
                if column.null_count and self._calls.accumulators[place].skips_null:
                    nullable.append(column)
            mask = counted_rows(condition, nullable)
            found.append(_Counted(call, groups, mask, column, old[place], signs))
        return found

    def _leave_out_known(
        self,
        batch: pa.RecordBatch,
        taken: list[_Counted],
        old: Sequence[Sequence[Any]],
        by_row: set[int],
    ) -> None:
        """Note the arguments of distinct calls, and leave out rows with arguments known before.

        Args:
            batch: The batch.
            taken: By call, its rows, which this changes.
            old: By accumulator and dictionary, those of all groups.
            by_row: Gets the positions of calls whose rows are noted one by one.
        """
        shared: dict[int, list[tuple[int, int]]] = {}
        for position, noted in enumerate(self._calls.noted):
            if noted is None:
                continue
            each = taken[position]
            if _is_numbered(each):
                shared.setdefault(noted.place, []).append((position, noted.bit))
                continue
            by_row.add(position)
            groups = list(zip(*old, strict=True))
            arguments = self._calls.arguments_of(batch, position)
            mask = [
                given is not None and noted.is_new(groups[code], given)
                for code, given in zip(each.groups.codes.tolist(), arguments, strict=True)
            ]
            taken[position] = each._replace(mask=np.array(mask, bool))
        for place, calls in shared.items():
            first = taken[calls[0][0]]
            wanted = [(bit, taken[position].mask) for position, bit in calls]
            masks = first_rows(first.groups, first.column, wanted, old[place])
            for (position, _), mask in zip(calls, masks, strict=True):
                taken[position] = taken[position]._replace(mask=mask)

    def _kernel(self, taken: _Counted, place: int) -> _Found | None:
        """Return the result of a call's kernel; None if the call has none for these values."""
        call = taken.call
        if not isinstance(call.function, str) or len(call.arguments) > 1:
            return None
        kernel = _KERNELS.get(call.function)
        if kernel is None:
            return None
        bound = type_rules.BOUNDS.get(type(self._types[place]))  # type: ignore[arg-type]
        try:
            return kernel(taken, bound)
        except NoKernelError:
            return None

    def _each(
        self, batch: pa.RecordBatch, taken: _Counted, place: int
    ) -> tuple[list[Any], list[Any]]:
        """Add the rows of a batch one by one; return the accumulators and the results."""
        made = self._calls.accumulators[place]
        found, results = list(taken.old), []
        arguments = self._calls.arguments_of(batch, place)
        codes = taken.groups.codes.tolist()
        for code, given, is_taken in zip(codes, arguments, taken.ones.tolist(), strict=True):
            if given is not None and is_taken:
                found[code] = made.add(found[code], *given)
            results.append(made.result(found[code]))
        return found, results

    def _emitted(
        self, batch: pa.RecordBatch, groups: Groups, results: list[Any], is_new: Any
    ) -> Any:
        """Return the batch of the changes; None without any."""
        rows = np.arange(len(groups))
        # Place of the result before each row: of the previous row of its group, or of state.
        codes = groups.codes[groups.order]
        before = np.empty(len(groups), np.int64)
        before[groups.order] = np.concatenate(([0], groups.order[:-1]))
        heads = groups.order[np.flatnonzero(np.diff(codes, prepend=-1))]
        before[heads] = len(groups) + groups.codes[heads]
        inserts = (before >= len(groups)) & is_new[groups.codes]
        all_rows = np.ones(len(groups), bool)
        changed = all_rows if self._emits_equal else differing(results, rows, before)
        counts, places, kinds = change_pairs(
            rows, before, inserts, changed, removal=UPDATE_BEFORE, addition=UPDATE_AFTER
        )
        if not len(places):
            return None
        of_rows, of_results = pa.array(np.repeat(rows, counts)), pa.array(places)
        arrays = [batch.column(key).take(of_rows) for key in self._keys]
        arrays += [column.take(of_results) for column in results]
        if self._is_updating:
            arrays.append(pa.array(kinds))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


# Kernels ------------------------------------------------------------------------------------------


def _count(taken: _Counted, bound: int | None) -> _Found:
    del bound
    found = running_numbers(taken.groups, taken.ones, taken.old)
    return _Found(found[taken.groups.lasts].tolist(), found, before=taken.old)


def _sums(taken: _Counted) -> tuple[Any, Any]:
    """Return the running sums and the running numbers of values."""
    if not pa.types.is_integer(taken.column.type):
        raise NoKernelError
    values = pc.fill_null(taken.column, 0).cast(pa.int64()).to_numpy()
    if taken.mask is not None:
        values = np.where(taken.mask, values, 0)
    if taken.signs is not None:
        values = values * taken.signs
    sums = running_numbers(taken.groups, values, [total for total, _ in taken.old])
    return sums, running_numbers(taken.groups, taken.ones, [count for _, count in taken.old])


def _pairs(taken: _Counted, sums: Any, counts: Any) -> list[Any]:
    lasts = taken.groups.lasts
    return list(zip(sums[lasts].tolist(), counts[lasts].tolist(), strict=True))


def _sum(taken: _Counted, bound: int | None) -> _Found:
    sums, counts = _sums(taken)
    if bound is None or (len(sums) and not -bound <= sums.min() <= sums.max() < bound):
        raise NoKernelError
    mask = None if taken.call.function == "$SUM0" else counts == 0
    return _Found(_pairs(taken, sums, counts), sums, mask)


def _average(taken: _Counted, bound: int | None) -> _Found:
    if bound is None:
        raise NoKernelError
    sums, counts = _sums(taken)
    means = np.abs(sums) // np.maximum(counts, 1) * np.sign(sums)
    return _Found(_pairs(taken, sums, counts), means, counts == 0)


def _extreme(taken: _Counted, bound: int | None) -> _Found:
    del bound
    if taken.mask is not None:
        raise NoKernelError
    fold: Any = Max() if taken.call.function == "MAX" else Min()
    part = Taken(fold, taken.groups, taken.groups, (taken.column,))
    return _Found(*running_extreme(part, taken.old))


def _signs(batch: pa.RecordBatch) -> Any:
    """Return, by row, 1 if it is added and -1 if it is retracted; None without row kinds."""
    if batch.schema.names[-1] != ROW_KIND:
        return None
    kinds = batch.column(batch.num_columns - 1).to_numpy()
    return np.where((kinds == INSERT) | (kinds == UPDATE_AFTER), 1, -1)


_SUMS: Final = ("SUM", "$SUM0", "AVG")

_KERNELS: Final[dict[str, Callable[[_Counted, int | None], _Found]]] = {
    "COUNT": _count,
    "APPROX_COUNT_DISTINCT": _count,
    "SUM": _sum,
    "$SUM0": _sum,
    "AVG": _average,
    "MIN": _extreme,
    "MAX": _extreme,
}


def _is_numbered(taken: _Counted) -> bool:
    """Return whether kernels find equal arguments of a call as dictionaries do."""
    if len(taken.call.arguments) != 1 or not isinstance(taken.call.function, str):
        return False
    kind = taken.column.type
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind))
