"""The results of aggregates after each row of a batch, computed by columns.

Calls without a kernel add row by row, but for the whole column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.change_pairs import change_pairs
from penstock.columns.group_kernels import MOST, NoKernelError
from penstock.columns.grouped_folds import counted_rows
from penstock.columns.groups import Groups, numbered
from penstock.columns.record_batches import values_of
from penstock.formats.numpy_values import numpy_values
from penstock.table.functions import type_rules
from penstock.table.functions.accumulator_choice import counts_distinct
from penstock.table.functions.accumulators import Extreme
from penstock.table.plan.nodes import INSERT, ROW_KIND, UPDATE_AFTER, UPDATE_BEFORE
from penstock.taskexecutor.operators.relational.aggregates.distinct_values import first_rows
from penstock.taskexecutor.operators.relational.aggregates.packed_groups import COUNT, EXTREME, SUM
from penstock.taskexecutor.operators.relational.aggregates.result_slots import (
    ResultColumn,
    ResultSlots,
)
from penstock.taskexecutor.operators.relational.batches import arrow_schema, column_of_values
from penstock.taskexecutor.operators.relational.key_texts import are_groupable, key_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.columns.array_types import Booleans, Integers, Values
    from penstock.table.plan.expressions import AggregateCall
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.operators.relational.aggregates.aggregate_calls import AggregateCalls
    from penstock.taskexecutor.operators.relational.aggregates.packed_groups import PackedGroups
    from penstock.taskexecutor.operators.relational.expiring_rows import KeyedRows

#: The largest size of an array of texts.
_MOST_BYTES: Final = (1 << 31) - 1

_SUMS: Final = ("SUM", "$SUM0", "AVG")


class _Counted(NamedTuple):
    """The rows of a batch that a call aggregates.

    Attributes:
        call: The call.
        mask: By row, whether the call aggregates it, as a numpy array of booleans; None if all.
        column: The argument of each row; None without one.
    """

    call: AggregateCall
    mask: Any
    column: Any


class _Batch:
    """A batch and the groups that it changes.

    Attributes:
        rows: The batch.
        groups: The groups of its rows.
        slots: The slots of results.
        signs: By row, 1 if it is added and -1 if it is retracted; None if all are added.
        is_new: By group, whether state has none, as a numpy array of booleans.
        integers: The integers of `PackedGroups.read`, which become those after the batch.
        others: The other parts, likewise.
        plain: By call whose accumulators were added row by row though they are packed, these.
    """

    def __init__(self, rows: pa.RecordBatch, groups: Groups) -> None:
        """Start without the state of the groups."""
        self.rows = rows
        self.groups = groups
        self.slots = ResultSlots(groups)
        self.signs = _signs(rows)
        self.is_new: Any = None
        self.integers: Any = None
        self.others: list[list[Any]] = []
        self.plain: dict[int, list[Any]] = {}

    def ones(self, mask: Booleans | None) -> Values:
        """Return 1 for rows of a mask, -1 if they are retracted, 0 for others."""
        if self.signs is not None:
            return self.signs if mask is None else self.signs * mask
        return np.ones(len(self.groups), np.int64) if mask is None else mask


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
        layout: PackedGroups,
        *,
        per_batch: bool,
        is_updating: bool,
        emits_equal: bool,
        emits_old: bool,
    ) -> None:
        """Create the computation; see `GroupAggregateOperator` and `fits`.

        Args:
            input: The columns of the input.
            output: The columns of the output.
            keys: Positions of the columns that make a group.
            calls: The aggregates, over columns.
            layout: The form of groups in state.
            per_batch: Whether a group emits one change for all of its rows.
            is_updating: Whether batches of the output have row kinds.
            emits_equal: Whether to emit a change whose new row equals the old one.
            emits_old: Whether to emit UPDATE_BEFORE.
        """
        self._input = input
        self._keys = keys
        self._calls = calls
        self._layout = layout
        self._types = output.types[len(keys) :]
        self._schema = arrow_schema(output, has_kinds=is_updating)
        self._targets = [field.type for field in self._schema][len(keys) :]
        self._per_batch = per_batch
        self._is_updating = is_updating
        self._emits_equal = emits_equal
        self._removal = UPDATE_BEFORE if emits_old else None
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

    def changes(self, rows: pa.RecordBatch, state: KeyedRows) -> pa.RecordBatch | None:
        """Add the rows of a batch to the groups in state and return the changes, if any.

        Raises:
            NoKernelError: Kernels cannot compute these values; state is unchanged.
        """
        groups = numbered([rows.column(key) for key in self._keys])
        batch = _Batch(rows, groups)
        firsts = rows.take(pa.array(groups.firsts))
        texts = key_texts(firsts, self._keys)
        kept = [state.get(text) for text in texts]
        batch.is_new = np.array([group is None for group in kept])
        batch.integers, batch.others = self._layout.read(kept)
        taken = self._taken(rows)
        by_row = self._leave_out_known(batch, taken)
        sums = self._sums(batch, taken)
        results = []
        for place, each in enumerate(taken):
            found = self._result(batch, each, place, sums)
            if found is None:
                if batch.signs is not None:
                    raise NoKernelError
                by_row.add(place)
                found = self._each(batch, each, place)
            results.append(found)
        for at, running in sums.items():
            batch.integers[at] = running[batch.slots.lasts]
        self.calls_by_row += len(by_row)
        self.batches += 1
        new = self._layout.written(batch.integers, batch.others)
        if batch.plain:
            new = [self._plain(group, at, batch.plain) for at, group in enumerate(new)]
        for text, group in zip(texts, new, strict=True):
            state.put(text, group)
        is_counting = any(each.mask is None and each.call.function == "COUNT" for each in taken)
        # Added and retracted rows of one batch may leave a count as it was.
        all_change = is_counting and (batch.signs is None or not self._per_batch)
        return self._emitted(batch, firsts, results, all_change=self._emits_equal or all_change)

    def _plain(self, group: object, at: int, plain: dict[int, list[object]]) -> tuple[object, ...]:
        """Return a group in its plain form, with accumulators that may not fit the packed one."""
        rows, *values = self._layout.plain(group) or ()
        for place, accumulators in plain.items():
            values[place] = accumulators[at]
        return rows, *values

    # Rows -----------------------------------------------------------------------------------------

    def _taken(self, batch: pa.RecordBatch) -> list[_Counted]:
        """Return, by call, the rows that meet its condition."""
        masks: dict[tuple[int, ...], Any] = {}
        found = []
        for call, made in zip(self._calls.calls, self._calls.accumulators, strict=True):
            condition, where = None, -1
            if call.condition is not None:
                where = call.condition.index  # type: ignore[attr-defined]
                condition = batch.column(where)
            places = [argument.index for argument in call.arguments]  # type: ignore[attr-defined]
            nullable = [place for place in places if made.skips_null and batch[place].null_count]
            if (where, *nullable) not in masks:
                mask = counted_rows(condition, [batch[place] for place in nullable])
                masks[where, *nullable] = None if mask is None or mask.all() else mask
            column = batch[places[0]] if places else None
            found.append(_Counted(call, masks[where, *nullable], column))
        return found

    def _leave_out_known(self, batch: _Batch, taken: list[_Counted]) -> set[int]:
        """Note the arguments of distinct calls, and leave out rows with arguments known before.

        Args:
            batch: The batch.
            taken: By call, its rows, which this changes.

        Returns:
            The positions of calls whose rows are noted one by one.
        """
        by_row: set[int] = set()
        shared: dict[int, list[tuple[int, int]]] = {}
        # `Noted.place` counts the accumulators of all calls; only some are among the others.
        skipped = len(taken) - self._layout.kinds.count(None)
        for position, noted in enumerate(self._calls.noted):
            if noted is None:
                continue
            each = taken[position]
            if _is_numbered(each):
                shared.setdefault(noted.place, []).append((position, noted.bit))
                continue
            by_row.add(position)
            seen = batch.others[noted.place - skipped]
            arguments = self._calls.arguments_of(batch.rows, position)
            mask = [
                given is not None and noted.is_new(seen[code], given)
                for code, given in zip(batch.groups.codes.tolist(), arguments, strict=True)
            ]
            taken[position] = each._replace(mask=np.array(mask, bool))
        for place, calls in shared.items():
            first = taken[calls[0][0]]
            wanted = [(bit, taken[position].mask) for position, bit in calls]
            seen = batch.others[place - skipped]
            masks = first_rows(batch.groups, first.column, wanted, seen)
            for (position, _), mask in zip(calls, masks, strict=True):
                taken[position] = taken[position]._replace(mask=mask)
        return by_row

    # Results --------------------------------------------------------------------------------------

    def _sums(self, batch: _Batch, taken: Sequence[_Counted]) -> dict[int, Values]:
        """Return, by number of an integer that is a sum of those of rows, its running values."""
        places, more = [0], [batch.ones(None)]
        for each, kind, at in zip(taken, self._layout.kinds, self._layout.columns, strict=True):
            if kind == COUNT:
                places.append(at)
                more.append(batch.ones(each.mask))
            elif kind == SUM:
                values = numpy_values(pc.fill_null(each.column, 0).cast(pa.int64()))
                if _may_overflow(values, batch.integers[at]):
                    continue
                places += (at, at + 1)
                more += (values * batch.ones(each.mask), batch.ones(each.mask))
        found = batch.slots.sums(more, batch.integers[places])
        if batch.signs is not None and found[0][batch.slots.ordered].min() <= 0:
            raise NoKernelError
        return dict(zip(places, found, strict=True))

    def _result(
        self, batch: _Batch, taken: _Counted, place: int, sums: dict[int, Values]
    ) -> ResultColumn | None:
        """Return the results of a call by kernels; None if they cannot compute these values."""
        kind, at = self._layout.kinds[place], self._layout.columns[place]
        if kind == COUNT:
            return ResultColumn(sums[at])
        if kind == SUM:
            return self._result_of_sum(taken.call.function, place, sums)
        try:
            if kind == EXTREME:
                return _extreme(batch, taken, at)
            if isinstance(self._calls.accumulators[place], Extreme) and _is_text(taken.column):
                return _extreme_text(batch, taken, at)
        except NoKernelError:
            pass
        return None

    def _result_of_sum(
        self, function: object, place: int, sums: dict[int, Values]
    ) -> ResultColumn | None:
        at = self._layout.columns[place]
        if at not in sums:
            return None
        totals, counts = sums[at], sums[at + 1]
        if function == "AVG":
            means = np.abs(totals) // np.maximum(counts, 1) * np.sign(totals)
            return ResultColumn(means, counts == 0)
        bound = type_rules.BOUNDS[type(self._types[place])]  # type: ignore[index]
        if not -bound <= int(totals.min()) <= int(totals.max()) < bound:
            del sums[at], sums[at + 1]
            return None
        return ResultColumn(totals, None if function == "$SUM0" else counts == 0)

    def _each(self, batch: _Batch, taken: _Counted, place: int) -> ResultColumn:
        """Add the rows of a batch one by one."""
        made = self._calls.accumulators[place]
        at = self._layout.columns[place]
        is_packed = self._layout.kinds[place] is not None
        kept = self._layout.accumulators(batch.integers, place) if is_packed else batch.others[at]
        found, results = list(kept), []
        arguments = self._calls.arguments_of(batch.rows, place)
        codes = batch.groups.codes.tolist()
        ones = batch.ones(taken.mask).tolist()
        before = [
            None if new else made.result(value)
            for new, value in zip(batch.is_new.tolist(), kept, strict=True)
        ]
        for code, given, is_taken in zip(codes, arguments, ones, strict=True):
            if given is not None and is_taken:
                found[code] = made.add(found[code], *given)
            results.append(made.result(found[code]))
        if is_packed:
            batch.plain[place] = found
        else:
            batch.others[at] = found
        kind, target = self._types[place], self._targets[place]
        rows, groups = (column_of_values(each, kind, target) for each in (results, before))
        return ResultColumn(batch.slots.spread(rows, groups))

    def _emitted(
        self,
        batch: _Batch,
        firsts: pa.RecordBatch,
        results: list[ResultColumn],
        *,
        all_change: bool,
    ) -> pa.RecordBatch | None:
        """Return the batch of the changes; None without any.

        Args:
            batch: The batch.
            firsts: The first row of each group.
            results: The results of each call.
            all_change: Whether each row makes a change.
        """
        if self._per_batch:
            keys, slots, before = firsts, batch.slots.lasts, batch.slots.heads
            inserts = batch.is_new
        else:
            keys, slots = batch.rows, batch.slots.of_rows
            before = slots - 1
            inserts = np.zeros(len(slots), bool)
            inserts[batch.groups.firsts[np.flatnonzero(batch.is_new)]] = True
        changed = np.full(len(slots), all_change)
        for column in () if all_change else results:
            changed |= column.differing(slots, before)
        counts, places, kinds = change_pairs(
            slots, before, inserts, changed, removal=self._removal, addition=UPDATE_AFTER
        )
        if not len(places):
            return None
        of_rows = pa.array(np.repeat(np.arange(len(slots)), counts))
        arrays = [
            _repeated(firsts.column(key), len(of_rows)) or keys.column(key).take(of_rows)
            for key in self._keys
        ]
        arrays += [
            column.at(places, target)
            for column, target in zip(results, self._targets, strict=False)
        ]
        if self._is_updating:
            arrays.append(pa.array(kinds))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


# Kernels ------------------------------------------------------------------------------------------


def _may_overflow(values: Values, old: Values) -> bool:
    """Return whether sums may need more than 64 bits."""
    bounds = [abs(int(f(part))) for part in (values, old) for f in (np.min, np.max)]
    return max(bounds[:2]) * len(values) + max(bounds[2:]) > MOST


def _extreme(batch: _Batch, taken: _Counted, at: int) -> ResultColumn:
    """Return the results of a minimum or maximum of integers."""
    values = numpy_values(pc.fill_null(taken.column, 0).cast(pa.int64()))
    old, known = batch.integers[at], batch.integers[at + 1].astype(bool)
    is_max = taken.call.function == "MAX"
    found, nulls = batch.slots.extremes(values, taken.mask, old, known, is_max=is_max)
    lasts = batch.slots.lasts
    batch.integers[at + 1] = ~nulls[lasts]
    batch.integers[at] = np.where(nulls[lasts], 0, found[lasts])
    return ResultColumn(found, nulls)


def _extreme_text(batch: _Batch, taken: _Counted, at: int) -> ResultColumn:
    """Return the results of a minimum or maximum of texts, by their places in their order."""
    column, kept = taken.column, pa.array(batch.others[at], taken.column.type)
    known = numpy_values(kept.is_valid())
    encoded = pc.fill_null(pa.concat_arrays([column, kept]), "").dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    texts = encoded.dictionary.take(order)
    places = np.empty(len(order), np.int64)
    places[numpy_values(order)] = np.arange(len(order))
    numbers = places[numpy_values(encoded.indices)]
    values, old = numbers[: len(column)], numbers[len(column) :]
    is_max = taken.call.function == "MAX"
    found, nulls = batch.slots.extremes(values, taken.mask, old, known, is_max=is_max)
    results = ResultColumn(found, nulls, texts)
    batch.others[at] = values_of(results.at(batch.slots.lasts, column.type))
    return results


def _repeated(column: pa.Array, count: int) -> pa.Array | None:
    """Return the only value of a column of texts several times; None if it has others."""
    if not _is_text(column) or column.null_count or len(column.unique()) != 1:
        return None
    text = column[0].as_py().encode()
    if len(text) * count > _MOST_BYTES:
        return None
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text * count))


def _signs(batch: pa.RecordBatch) -> Integers | None:
    """Return, by row, 1 if it is added and -1 if it is retracted; None without row kinds."""
    if batch.schema.names[-1] != ROW_KIND:
        return None
    kinds = numpy_values(batch.column(batch.num_columns - 1))
    return np.where((kinds == INSERT) | (kinds == UPDATE_AFTER), 1, -1)


def _is_text(column: pa.Array) -> bool:
    return bool(pa.types.is_string(column.type))


def _is_numbered(taken: _Counted) -> bool:
    """Return whether kernels find equal arguments of a call as dictionaries do."""
    if len(taken.call.arguments) != 1 or not isinstance(taken.call.function, str):
        return False
    return bool(pa.types.is_integer(taken.column.type)) or _is_text(taken.column)
