"""The first rows of each partition."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.columns.first_rows import codes_with_known, inserted
from penstock.columns.group_kernels import NoKernelError
from penstock.columns.order_ranks import order_ranks
from penstock.columns.record_batches import LEAST_ROWS, one_batch, rows_of
from penstock.formats.numpy_values import numpy_values
from penstock.table.functions.row_equality import equal_to
from penstock.table.plan.nodes import ADDED, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import arrow_schema, kinds_of
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.gathering import GatheringOperator
from penstock.taskexecutor.operators.relational.joins.key_blocks import (
    key_blocks,
    parts_by_key_group,
    taken_batches,
)
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.ordering import (
    can_rank,
    order_columns,
    sort_key,
)
from penstock.taskexecutor.operators.relational.ranks.replacements import (
    Replacements,
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

    from penstock.columns.first_rows import Replaced
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
        self.order = order_columns(order)
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
            schema = arrow_schema(output, has_kinds=False)
            self.tops = TopRows(
                context,
                self.table,
                schema,
                [schema.field(key).type for key in partition],
                lambda rows: (rows, partition),
                partial(parts_by_key_group, max_parallelism=context.environment.max_parallelism),
                self.most,
            )

    def open(self) -> None:
        """Restore the rows in columns, or those that a snapshot has in blocks."""
        if self.tops is not None and self.replacements is not None:
            schema = arrow_schema(self.schema, has_kinds=False)
            for batch in taken_batches(self.table, self.schema, schema):
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
        codes = codes_with_known(tops.groups, tops.sizes)
        ranks = order_ranks(tops.batch, codes, tops.known(), self.order)
        found = inserted(tops.groups, tops.sizes, codes, ranks, self.most)
        tops.put(found.groups, found.sizes, found.rows)
        return found.replaced

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
