"""The first rows of each partition."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.columns.group_kernels import NoKernelError
from penstock.table.functions.row_equality import equal_to
from penstock.table.plan.nodes import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import kinds_of, rows_of
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.ordering import (
    can_rank,
    order_ranks,
    sort_key,
    sorted_places,
)
from penstock.taskexecutor.operators.relational.replacements import (
    LEAST_ROWS,
    Replaced,
    Replacements,
    replaced_by_rank,
)
from penstock.taskexecutor.operators.relational.watermarks import milliseconds
from penstock.taskexecutor.operators.relational.windows import LocalTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import OrderItem
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.operators.relational.replacements import GroupedBatch
    from penstock.taskexecutor.task.operator_context import OperatorContext

_Row = tuple[Any, ...]

#: Rows in state for each row of a batch.  If there are more, searching them row by row costs less
#: than ranking them all.
_MOST_KNOWN: Final = 4


class RankOperator(KeyedRelationalOperator):
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
        """
        super().__init__(context, input, output, has_kinds=has_kinds, is_updating=True)
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
        #: Row kinds of a displaced row and of the row in its place; the top 1 is updated.
        self.kinds = (UPDATE_BEFORE, UPDATE_AFTER) if last == 1 else (DELETE, INSERT)
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

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        if (
            self.replacements is not None
            and batch.num_rows >= LEAST_ROWS
            and self._insert(self.replacements, batch)
        ):
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
            is_added = kinds is None or kinds[position] in (INSERT, UPDATE_AFTER)
            self._change(text, row, is_added=is_added)
        self.flush()

    def _insert(self, replacements: Replacements, batch: pa.RecordBatch) -> bool:
        """Insert the rows of a batch by columns; return False if kernels cannot."""
        grouped = replacements.grouped(batch, self.rows)
        sizes = np.array([len(rows) if rows else 0 for rows in grouped.kept], np.int64)
        if sizes.sum() > _MOST_KNOWN * batch.num_rows:
            return False
        known = list(chain.from_iterable(rows for rows in grouped.kept if rows))
        groups = np.repeat(np.arange(len(sizes)), sizes)
        codes = np.concatenate((grouped.groups.codes, groups))
        try:
            ranks = order_ranks(batch, codes, known, self.schema, self.order)
            if self.last == 1:
                new, old = ranks[: batch.num_rows], ranks[batch.num_rows :]
                replaced = replaced_by_rank(grouped.groups, new, groups, old, replaces_equal=False)
                self._put_best(grouped, replaced)
            else:
                replaced = self._put_first(grouped, codes, ranks, known)
        except NoKernelError:
            return False
        self.passed_over += batch.num_rows - len(replaced.rows)
        self.emit(replacements.changes(grouped, replaced, known, emits_equal=True))
        return True

    def _put_best(self, grouped: GroupedBatch, replaced: Replaced) -> None:
        """Write the only row that stays of each group to state."""
        if self.expires:
            self._keep_alive(grouped)
        for group, _, row in replaced.latest(grouped, self.width):
            self.rows.put(grouped.texts[group], (row,))

    def _keep_alive(self, grouped: GroupedBatch) -> None:
        """Restart the time to live of all keys, as a row below the top also does."""
        for text, rows in zip(grouped.texts, grouped.kept, strict=True):
            if rows:
                self.rows.put(text, rows)

    def _put_first(
        self, grouped: GroupedBatch, codes: Any, ranks: Any, known: Sequence[_Row]
    ) -> Replaced:
        """Insert rows into the first ones of their groups, in state too.

        Args:
            grouped: The batch.
            codes: The group of each row of the batch, and behind them of each row in state.
            ranks: The rank of each of them.
            known: The rows in state.
        """
        count = grouped.batch.num_rows
        # Of equal rows, those in state come first, then those of the batch in their order.
        turned = np.concatenate((np.arange(count, len(codes)), np.arange(count)))
        order = turned[sorted_places(codes[turned], ranks[turned])]
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        tops: list[list[int]] = [[] for _ in grouped.texts]
        for group, place in zip(codes[count:].tolist(), places[count:].tolist(), strict=True):
            tops[group].append(place)
        entered, displaced = _entered(
            codes[:count].tolist(), places[:count].tolist(), tops, self.most
        )
        # A place of -1 stands for none.
        rows = np.append(order, -1)
        replaced = Replaced(rows[np.array(entered, np.int64)], rows[np.array(displaced, np.int64)])
        if self.expires:
            self._keep_alive(grouped)
        self._put_tops(grouped, codes[replaced.rows], order, tops, known)
        return replaced

    def _put_tops(
        self,
        grouped: GroupedBatch,
        changed: Any,
        order: Any,
        tops: list[list[int]],
        known: Sequence[_Row],
    ) -> None:
        """Write the first rows of the groups that changed to state."""
        count = grouped.batch.num_rows
        groups = np.flatnonzero(np.bincount(changed)).tolist()
        rows = order[np.array(list(chain.from_iterable(map(tops.__getitem__, groups))), np.int64)]
        is_new = rows < count
        new = rows_of(grouped.batch.take(pa.array(rows[is_new])), self.width)
        # The new rows stand behind those in state.
        found = np.where(is_new, len(known) + np.cumsum(is_new) - 1, rows - count)
        values = map([*known, *new].__getitem__, found.tolist())
        for group in groups:
            self.rows.put(grouped.texts[group], tuple(islice(values, len(tops[group]))))

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
            self.changes.add(removal, rows.pop())
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
    codes: list[int], places: list[int], tops: list[list[int]], most: int
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
            ends = self.local.utc_ends(column.to_numpy(zero_copy_only=False)).tolist()
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
