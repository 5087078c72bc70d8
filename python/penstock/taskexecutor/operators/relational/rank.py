"""The first rows of each partition."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
from penstock.taskexecutor.operators.relational.ordering import sort_key
from penstock.taskexecutor.operators.relational.replacements import (
    LEAST_ROWS,
    Replaced,
    Replacements,
    can_rank,
    order_ranks,
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


class _Top(NamedTuple):
    """The first rows of a partition while a batch is processed.

    Attributes:
        ranks: Their ranks, in order.
        places: Their positions; rows in state stand behind those of the batch.
    """

    ranks: list[int]
    places: list[int]


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
        #: Row kinds of a displaced row and of the row in its place; the top 1 is updated.
        self.kinds = (UPDATE_BEFORE, UPDATE_AFTER) if last == 1 else (DELETE, INSERT)
        self.passed_over = 0
        context.metric_group().gauge("numRowsBelowTop", lambda: self.passed_over)
        #: By key: the rows in order; without deletions only as many as may be emitted.
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
        known = [(group, row) for group, rows in enumerate(grouped.kept) for row in rows or ()]
        if len(known) > _MOST_KNOWN * batch.num_rows:
            return False
        try:
            ranks, old_ranks = order_ranks(grouped, self.schema, self.order, known)
        except NoKernelError:
            return False
        if self.last == 1:
            before: list[int | None] = [None] * len(grouped.texts)
            for (group, _), rank in zip(known, old_ranks, strict=True):
                before[group] = rank
            best = replaced_by_rank(grouped.groups, ranks, before, replaces_equal=False)
            self._replace_best(replacements, grouped, best)
            return True
        tops = [_Top([], []) for _ in grouped.texts]
        for place, ((group, _), rank) in enumerate(zip(known, old_ranks, strict=True)):
            tops[group].ranks.append(rank)
            tops[group].places.append(batch.num_rows + place)
        replaced = self._replaced(grouped.groups.codes, ranks, tops, len(known))
        old = [*(row for _, row in known), None]
        self._emit_replaced(replacements, grouped, replaced, old)
        self._keep(grouped, tops, known)
        return True

    def _emit_replaced(
        self,
        replacements: Replacements,
        grouped: GroupedBatch,
        replaced: Replaced,
        old: list[_Row | None],
    ) -> None:
        self.passed_over += grouped.batch.num_rows - len(replaced.rows)
        self.emit(replacements.changes(grouped, replaced, old, emits_equal=True))

    def _replace_best(
        self, replacements: Replacements, grouped: GroupedBatch, replaced: Replaced
    ) -> None:
        """Replace the only row that stays of each group."""
        if self.expires:
            # A row below the top also keeps its key alive.
            for text, rows in zip(grouped.texts, grouped.kept, strict=True):
                if rows:
                    self.rows.put(text, rows)
        for group, _, row in replaced.latest(grouped, self.width):
            self.rows.put(grouped.texts[group], [row])
        old = [rows[0] if rows else None for rows in grouped.kept]
        self._emit_replaced(replacements, grouped, replaced, old)

    def _replaced(self, codes: Any, ranks: Any, tops: list[_Top], known: int) -> Replaced:
        """Insert rows into the first ones of their groups; return those that stayed for a time."""
        none = len(codes) + known
        # A row below a full top stays below it.
        worst = int(ranks.max()) + 1
        limits = [top.ranks[-1] if len(top.ranks) == self.last else worst for top in tops]
        places = np.flatnonzero(ranks < np.array(limits, np.int64)[codes])
        rows, before = [], []
        for place, code, rank in zip(
            places.tolist(), codes[places].tolist(), ranks[places].tolist(), strict=True
        ):
            top = tops[code]
            displaced = none
            if len(top.ranks) == self.last:
                if rank >= top.ranks[-1]:
                    continue
                top.ranks.pop()
                displaced = top.places.pop()
            at = bisect_right(top.ranks, rank)
            top.ranks.insert(at, rank)
            top.places.insert(at, place)
            rows.append(place)
            before.append(displaced)
        return Replaced(np.array(rows, np.int64), np.array(before, np.int64))

    def _keep(self, grouped: GroupedBatch, tops: list[_Top], known: list[tuple[int, _Row]]) -> None:
        """Write the first rows of the groups to state."""
        count = grouped.batch.num_rows
        changed = [
            (text, top.places)
            for text, top in zip(grouped.texts, tops, strict=True)
            # A row below the top also keeps its key alive.
            if self.expires or any(place < count for place in top.places)
        ]
        wanted = [place for _, places in changed for place in places if place < count]
        rows = rows_of(grouped.batch.take(pa.array(wanted, pa.int64())), self.width)
        new = dict(zip(wanted, rows, strict=True))
        for text, places in changed:
            kept = [new[at] if at < count else known[at - count][1] for at in places]
            self.rows.put(text, kept)

    def _add(self, text: str, row: _Row) -> None:
        """Add a row; emit it if it is one of the first, and the row that it displaces."""
        found: list[_Row] = self.rows.get(text) or []
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
        self.rows.put(text, rows)

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
            self.rows.put(text, rows)
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
