"""The first rows of each partition."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.columns.group_kernels import NoKernelError
from penstock.columns.record_batches import LEAST_ROWS, one_batch, rows_of
from penstock.formats.numpy_values import numpy_values
from penstock.table.functions.row_equality import equal_to
from penstock.table.plan.nodes import ADDED, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import kinds_of
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.gathering import GatheringOperator
from penstock.taskexecutor.operators.relational.joins.key_blocks import key_blocks
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.ordering import (
    can_rank,
    order_ranks,
    sort_key,
    sorted_places,
)
from penstock.taskexecutor.operators.relational.ranks.replacements import (
    Replaced,
    Replacements,
    replaced_by_rank,
)
from penstock.taskexecutor.operators.relational.ranks.top_rows import (
    MOST_ROWS,
    TopRows,
    TopsInState,
)
from penstock.taskexecutor.operators.relational.watermarks import milliseconds
from penstock.taskexecutor.operators.relational.windows.windows import LocalTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.columns.array_types import Booleans, Integers
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import OrderItem
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.relational.ranks.top_rows import Tops

_Row = tuple[Any, ...]

#: With the rows in state of as many keys, `order_ranks` can rank the rows.
_MOST_AT_ONCE: Final = 1 << 15

#: Rows in state for each row of a batch.  If there are more, searching them row by row costs less
#: than ranking them all.
_MOST_KNOWN: Final = 4


class RankOperator(GatheringOperator):
    """Keeps the rows of each partition in order and emits changes of the first ones."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        partition: tuple[int, ...],
        order: Sequence[OrderItem],
        first: int,
        last: int | None,
        with_rank: bool,
        has_kinds: bool,
        state_ttl_ms: int = 0,
        emits_old: bool = True,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The same, and the rank.
            partition: Positions of the partitioning columns.
            order: The order; its expressions are columns.
            first: The first rank that stays, from 1.
            last: The last one; None for all.
            with_rank: Whether the rank is a column.
            has_kinds: Whether batches of the input have row kinds.
            state_ttl_ms: The time after which state that was not written expires; 0 for never.
            emits_old: Whether UPDATE_BEFORE is emitted.
        """
        super().__init__(context, input, output, has_kinds=has_kinds, is_updating=True)
        self.prepare_waiting(context)
        self.schema = output
        self.partition = partition
        self.key = sort_key(order)
        self.first = first
        self.last = last
        self.with_rank = with_rank
        self.keeps_all = has_kinds
        #: Whether a row that arrives replaces at most one other row, and no rank is emitted.
        self.is_plain = first == 1 and bool(last) and not with_rank and not has_kinds
        #: The number of rows that stay, of a plain top.
        self.most = last or 0
        #: Row kinds of a displaced row, None to emit none, and of the row in its place; the top 1
        #: is updated.
        self.kinds: tuple[int | None, int] = (DELETE, INSERT)
        if last == 1:
            self.kinds = (UPDATE_BEFORE if emits_old else None, UPDATE_AFTER)
        self.emits_old = emits_old
        self.passed_over = 0
        context.metric_group().gauge("numRowsBelowTop", lambda: self.passed_over)
        #: By key: a tuple of the rows in order, without deletions only as many as may be emitted.
        #: Old snapshots have lists.  The garbage collector forgets tuples of plain values.
        self.rows = keyed_rows(context, "rows", state_ttl_ms)
        self.order = order
        self.expires = state_ttl_ms > 0
        self.replacements = None
        if self.is_plain and Replacements.fits(output, partition) and can_rank(output, order):
            removal, addition = self.kinds
            self.replacements = Replacements(
                context, output, partition, removal=removal, addition=addition, has_kinds=True
            )
        self.is_gathering = self.replacements is not None
        self.table = context.keyed_state.table("rows", "value")
        self.tops = None
        # A database may have more rows than fit into memory.
        is_in_memory = not self.expires and self.table.store is None
        if self.replacements is not None and is_in_memory and self.most <= MOST_ROWS:
            self.tops = TopRows(context, self.table, output, partition, self.most)

    def open(self) -> None:
        """Restore the rows in columns, or those that a snapshot has in blocks."""
        if self.tops is not None and self.replacements is not None:
            for batch in self.tops.restored():
                self._inserted(self.tops.find(batch))
        elif self.is_plain:
            key_blocks(self.table, self.rows, self.input_schema, self.partition, self.width)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Process the waiting batches, and write the rows in columns to keyed state."""
        super().prepare_snapshot_pre_barrier(checkpoint_id)
        if self.tops is not None:
            self.tops.save()

    def process_batches(self, batches: list[pa.RecordBatch]) -> None:
        """Process batches at once."""
        batch = one_batch(batches, self.input_schema)
        if self.replacements is not None:
            if self.tops is not None:
                for start in range(0, batch.num_rows, _MOST_AT_ONCE):
                    part = batch.slice(start, _MOST_AT_ONCE)
                    self._insert(self.replacements, self.tops.find(part))
                return
            if batch.num_rows >= LEAST_ROWS and self._insert_in_state(self.replacements, batch):
                return
        kinds = kinds_of(batch)
        texts = key_texts(batch, self.partition)
        rows = rows_of(batch, self.width)
        if self.is_plain:
            for text, row in zip(texts, rows, strict=True):
                self._add(text, row)
            self.flush()
            return
        for position, (text, row) in enumerate(zip(texts, rows, strict=True)):
            is_added = kinds is None or kinds[position] in ADDED
            self._change(text, row, is_added=is_added)
        self.flush()

    def _insert_in_state(self, replacements: Replacements, batch: pa.RecordBatch) -> bool:
        """Insert the rows of a batch by columns; return False if kernels cannot."""
        grouped = replacements.grouped(batch, self.rows)
        tops = TopsInState(grouped, self.rows, self.schema, expires=self.expires)
        if tops.sizes.sum() > _MOST_KNOWN * batch.num_rows:
            return False
        try:
            self._insert(replacements, tops)
        except NoKernelError:
            return False
        return True

    def _insert(self, replacements: Replacements, tops: Tops) -> None:
        """Insert the rows of a batch into the first ones of their keys, and emit the changes."""
        replaced = self._inserted(tops)
        self.passed_over += tops.batch.num_rows - len(replaced.rows)
        self.emit(replacements.changes(tops.batch, replaced, tops.known, emits_equal=True))

    def _inserted(self, tops: Tops) -> Replaced:
        """Insert the rows of a batch into the first ones of their keys.

        Raises:
            NoKernelError: There are too many rows; none is inserted.
        """
        count = tops.batch.num_rows
        known = np.repeat(np.arange(len(tops.sizes)), tops.sizes)
        codes = np.concatenate((tops.groups.codes, known))
        ranks = order_ranks(tops.batch, codes, tops.known(), self.order)
        if self.last == 1:
            replaced = replaced_by_rank(
                tops.groups, ranks[:count], known, ranks[count:], replaces_equal=False
            )
            groups, rows = replaced.latest(tops.groups)
            tops.put(groups, np.ones(len(groups), np.int64), rows)
            return replaced
        # Of equal rows, known ones come first, then those of the batch in their order.
        turned = np.concatenate((np.arange(count, len(codes)), np.arange(count)))
        order = turned[sorted_places(codes[turned], ranks[turned])]
        # All rows of a group stay for ever if they are few.
        sizes = np.bincount(codes)
        is_few = sizes <= self.most
        stays = is_few[codes]
        rows, before, groups, firsts = self._of_many(tops, codes, order, stays)
        few = np.flatnonzero(stays[:count])
        rows = np.concatenate((few, rows))
        by_row = np.argsort(rows)
        before = np.concatenate((np.full(len(few), -1), before))
        tops.put(
            np.concatenate((np.flatnonzero(is_few), groups)),
            np.concatenate((sizes[is_few], np.array(list(map(len, firsts)), np.int64))),
            np.concatenate(
                (order[stays[order]], order[np.array(list(chain.from_iterable(firsts)), np.int64)])
            ),
        )
        return Replaced(rows[by_row], before[by_row])

    def _of_many(
        self, tops: Tops, codes: Integers, order: Integers, stays: Booleans
    ) -> tuple[Integers, Integers, Integers, list[list[int]]]:
        """Insert the rows of a batch into groups that have more rows than stay.

        Args:
            tops: The first rows.
            codes: The group of each row of the batch, and behind them of each known row.
            order: The positions of these rows by group and rank.
            stays: Whether a row is of another group.

        Returns:
            The rows that stayed for a time, and for each the one that it displaced, or -1; the
            groups that changed, and for each its first rows as places in the order.
        """
        count = tops.batch.num_rows
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        # A row below a full top stays below it.
        limits = np.full(len(tops.sizes), len(order))
        is_full = tops.sizes == self.most
        limits[is_full] = places[count + np.cumsum(tops.sizes)[is_full] - 1]
        rows = np.flatnonzero(~stays[:count] & (places[:count] < limits[codes[:count]]))
        groups = np.unique(codes[rows])
        firsts: dict[int, list[int]] = {group: [] for group in groups.tolist()}
        known = count + np.flatnonzero(np.isin(codes[count:], groups))
        for group, place in zip(codes[known].tolist(), places[known].tolist(), strict=True):
            firsts[group].append(place)
        entered, displaced = _entered(
            codes[rows].tolist(), places[rows].tolist(), firsts, self.most
        )
        # A place of -1 stands for none.
        at = np.append(order, -1)
        return (
            at[np.array(entered, np.int64)],
            at[np.array(displaced, np.int64)],
            groups,
            list(firsts.values()),
        )

    def _add(self, text: str, row: _Row) -> None:
        """Add a row; emit it if it is one of the first, and the row that it displaces."""
        found: Sequence[_Row] = self.rows.get(text) or ()
        key = self.key(row)
        is_full = len(found) == self.last
        if is_full and key >= self.key(found[-1]):
            self.passed_over += 1
            self.rows.put(text, found)
            return
        rows = list(found)
        rows.insert(bisect_right(rows, key, key=self.key), row)
        removal, addition = self.kinds
        if is_full:
            displaced = rows.pop()
            if removal is not None:
                self.changes.add(removal, displaced)
        self.changes.add(addition if is_full else INSERT, row)
        self.rows.put(text, tuple(rows))

    def _change(self, text: str, row: _Row, *, is_added: bool) -> None:
        rows: list[_Row] = list(self.rows.get(text) or ())
        before = rows[self.first - 1 : self.last]
        keys = [self.key(found) for found in rows]
        key = self.key(row)
        if is_added:
            rows.insert(bisect_right(keys, key), row)
            if not self.keeps_all and self.last is not None:
                del rows[self.last :]
        else:
            start, end = bisect_left(keys, key), bisect_right(keys, key)
            is_same = equal_to(row)
            places = [i for i in range(start, end) if is_same(rows[i])]
            if not places:
                return
            del rows[places[0]]
        if rows:
            self.rows.put(text, tuple(rows))
        else:
            self.rows.remove(text)
        after = rows[self.first - 1 : self.last]
        if self.with_rank:
            self._emit_ranks(before, after)
        else:
            self._emit_rows(before, after)

    def _emit_ranks(self, before: list[_Row], after: list[_Row]) -> None:
        for position in range(max(len(before), len(after))):
            rank = (self.first + position,)
            old = before[position] if position < len(before) else None
            new = after[position] if position < len(after) else None
            if old == new:
                continue
            if old is None and new is not None:
                self.changes.add(INSERT, new + rank)
            elif new is None and old is not None:
                self.changes.add(DELETE, old + rank)
            elif old is not None and new is not None:
                if self.emits_old:
                    self.changes.add(UPDATE_BEFORE, old + rank)
                self.changes.add(UPDATE_AFTER, new + rank)

    def _emit_rows(self, before: list[_Row], after: list[_Row]) -> None:
        # One row was added or removed, so each side has one row that the other lacks.
        start = 0
        while start < min(len(before), len(after)) and before[start] == after[start]:
            start += 1
        end = 0
        while (
            end < min(len(before), len(after)) - start
            and before[len(before) - 1 - end] == after[len(after) - 1 - end]
        ):
            end += 1
        old, new = before[start : len(before) - end], after[start : len(after) - end]
        gone = [row for row in old if row not in new]
        come = [row for row in new if row not in old]
        if len(old) - len(gone) != len(new) - len(come):
            gone, come = old, new
        for row in gone:
            self.changes.add(DELETE, row)
        for row in come:
            self.changes.add(INSERT, row)


def _entered(
    codes: list[int], places: list[int], tops: dict[int, list[int]], most: int
) -> tuple[list[int], list[int]]:
    """Insert places into the first ones of their groups; return those that stayed for a time.

    Args:
        codes: The group of each place.
        places: The places; the least is the best.
        tops: By group, its first places in order.
        most: The number of places that stay in a group.

    Returns:
        The places that entered, and for each the one that it displaced, or -1.
    """
    entered, displaced = [], []
    for code, place in zip(codes, places, strict=True):
        top = tops[code]
        if len(top) < most:
            displaced.append(-1)
        elif place < top[-1]:
            displaced.append(top.pop())
        else:
            continue
        insort(top, place)
        entered.append(place)
    return entered, displaced


class WindowRankOperator(KeyedRelationalOperator):
    """Emits the first rows of each partition when its window, or the input, has ended."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        partition: tuple[int, ...],
        order: Sequence[OrderItem],
        first: int,
        last: int | None,
        with_rank: bool,
        has_kinds: bool,
        end_index: int | None,
        session: Session,
        is_zoned: bool,
    ) -> None:
        """Create the operator; see `RankOperator`.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The same, and the rank.
            partition: Positions of the partitioning columns.
            order: The order; its expressions are columns.
            first: The first rank that stays, from 1.
            last: The last one; None for all.
            with_rank: Whether the rank is a column.
            has_kinds: Whether batches of the input have row kinds.
            end_index: The position of window_end; None if the whole input is ranked.
            session: Settings that results depend on.
            is_zoned: Whether windows are of local time.
        """
        super().__init__(context, input, output, has_kinds=has_kinds, is_updating=False)
        self.partition = partition
        self.key = sort_key(order)
        self.first = first
        self.last = last
        self.with_rank = with_rank
        self.end_index = end_index
        self.local = LocalTime(session, is_zoned=is_zoned)
        #: By end of the window, as namespace, and key: the rows.
        self.table = context.keyed_state.table("rows", "value")
        self.ends: set[int] = set()
        self.watermark = MIN_TIMESTAMP

    def open(self) -> None:
        """Note the windows that are open."""
        self.ends = {
            found.namespace for found in self.table.namespaces() if found.namespace is not None
        }

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        texts = key_texts(batch, self.partition)
        if self.end_index is None:
            ends = [MAX_TIMESTAMP] * batch.num_rows
        else:
            column = milliseconds(batch.column(self.end_index))
            ends = self.local.utc_ends(numpy_values(column)).tolist()
        for text, end, row in zip(texts, ends, rows_of(batch, self.width), strict=True):
            if end - 1 <= self.watermark and self.end_index is not None:
                continue
            self.ends.add(end)
            found = self.table.map(end)
            rows = found.get(text) or []
            rows.append(row)
            found.put(text, rows)

    def process_watermark(self, timestamp: int) -> None:
        """Emit the partitions whose window has ended."""
        self.watermark = timestamp
        for end in sorted(end for end in self.ends if end - 1 <= timestamp):
            found = self.table.map(end)
            for rows in found.values():
                ordered = sorted(rows, key=self.key)[self.first - 1 : self.last]
                for position, row in enumerate(ordered):
                    rank = (self.first + position,) if self.with_rank else ()
                    self.changes.add(INSERT, row + rank)
            found.clear()
            self.table.drop_if_empty(end)
            self.ends.discard(end)
        self.flush()
        self.output.emit_watermark(timestamp)
