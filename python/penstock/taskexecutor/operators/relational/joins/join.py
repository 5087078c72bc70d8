"""Joins of streams that may be updated."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.columns.record_batches import one_batch, rows_of
from penstock.table.plan.nodes import ADDED, DELETE, INSERT
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import TwoInputRelationalOperator
from penstock.taskexecutor.operators.relational.batches import arrow_schema, kinds_of
from penstock.taskexecutor.operators.relational.expiring_rows import ExpiringRows, keyed_rows
from penstock.taskexecutor.operators.relational.gathering import Gathering
from penstock.taskexecutor.operators.relational.joins.column_sides import ColumnSides
from penstock.taskexecutor.operators.relational.joins.inner_join import InnerJoin
from penstock.taskexecutor.operators.relational.joins.join_condition import JoinCondition, nulls
from penstock.taskexecutor.operators.relational.joins.join_pairs import (
    JoinPairs,
    texts_without_nulls,
)
from penstock.taskexecutor.operators.relational.joins.key_blocks import (
    key_blocks,
    parts_by_key_group,
    taken_batches,
)
from penstock.taskexecutor.operators.relational.joins.keyed_sides import KeyedSides
from penstock.taskexecutor.operators.relational.joins.partner_rows import MOST_PAIRS
from penstock.taskexecutor.operators.relational.key_texts import key_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import JoinKind
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_Row = tuple[Any, ...]
#: A row, its number of copies, and the number of its partners; with a time to live, also the time
#: of its last change in ms.
_Record = list[Any]


#: The length of a record without a time.
_WITHOUT_TIME = 3


class JoinOperator(Gathering, TwoInputRelationalOperator):
    """Keeps both sides by key and joins each row with the other side.

    Rows of a side whose partners matter (of outer, semi and anti joins) count them, so that they
    are emitted or retracted when the first partner arrives and the last one is removed.
    """

    num_inputs = 2
    enough_rows = 16_384

    def __init__(
        self,
        context: OperatorContext,
        inputs: tuple[Schema, Schema],
        output: Schema,
        has_kinds: tuple[bool, bool],
        kind: JoinKind,
        keys: tuple[tuple[int, ...], tuple[int, ...]],
        condition: Expression | None,
        session: Session,
        is_null_aware: bool,
        equates_nulls: bool,
        is_updating: bool,
        state_ttl_ms: tuple[int, int] = (0, 0),
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            inputs: The columns of both sides.
            output: The columns of the output.
            has_kinds: Whether batches of the sides have row kinds.
            kind: Which rows without a match are emitted.
            keys: Positions of the columns that must be equal.
            condition: The condition besides the keys; None without one.
            session: Settings that results depend on.
            is_null_aware: Whether the join is a NOT IN.
            equates_nulls: Whether NULL equals NULL.
            is_updating: Whether rows of the output may change.
            state_ttl_ms: Of each side, the time after which a row that was not written expires; 0
                for never.
        """
        super().__init__(context, inputs, output, has_kinds=has_kinds, is_updating=is_updating)
        self.kind = kind
        self.keys = keys
        self.condition = JoinCondition(context, inputs, condition, session)
        self.is_null_aware = is_null_aware
        self.equates_nulls = equates_nulls
        self.is_outer = (kind in ("LEFT", "FULL"), kind in ("RIGHT", "FULL"))
        self.is_half = kind in ("SEMI", "ANTI")
        self.has_kinds = has_kinds
        self.is_updating = is_updating
        self.pairs = JoinPairs(context, inputs, output, self.condition)
        #: By key: the rows of a side; see `_keep`.
        self.sides = tuple(
            keyed_rows(context, name, ttl_ms)
            for name, ttl_ms in zip(("left", "right"), state_ttl_ms, strict=True)
        )
        self.lifetimes = tuple(
            side.lifetime if isinstance(side, ExpiringRows) else None for side in self.sides
        )

        self.inner = None
        self.columns = None
        self.prepare_waiting(context)
        self.tables = tuple(context.keyed_state.table(name, "value") for name in ("left", "right"))
        self.schemas = tuple(arrow_schema(schema, has_kinds=False) for schema in inputs)
        if kind == "INNER" and not (is_null_aware or any(has_kinds) or any(state_ttl_ms)):
            # A database may have more rows than fit into memory.
            if all(table.store is None for table in self.tables):
                parts = partial(
                    parts_by_key_group, max_parallelism=context.environment.max_parallelism
                )
                self.columns = ColumnSides(
                    context,
                    self.tables,
                    self.schemas,
                    (_types(self.schemas[0], keys[0]), _types(self.schemas[1], keys[1])),
                    lambda side, rows: (rows, keys[side]),
                    parts,
                )
                self.rows_in_state = [
                    taken_batches(*each)
                    for each in zip(self.tables, inputs, self.schemas, strict=True)
                ]
            sides = self.columns or KeyedSides(self.sides, self.widths, keys)
            self.inner = InnerJoin(context, self.pairs, sides, keys, equates_nulls=equates_nulls)

    def open(self) -> None:
        """Restore the rows of both sides, and open the user functions."""
        if self.columns is not None:
            self.columns.restore(self.rows_in_state)
        else:
            for side, table in enumerate(self.tables):
                key_blocks(
                    table, self.sides[side], self.schemas[side], self.keys[side], self.widths[side]
                )
        self.condition.open()

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Process the waiting batches, and add the rows that keyed state lacks to it."""
        super().prepare_snapshot_pre_barrier(checkpoint_id)
        if self.columns is not None:
            self.columns.save()

    def take_batch(self, side: int, batch: pa.RecordBatch) -> None:
        """Process a batch of one side, which may wait for others."""
        if self.columns is None:
            super().take_batch(side, batch)
        else:
            self.gather(batch, side)

    def process_gathered(self, input_number: int, batches: list[pa.RecordBatch]) -> None:
        """Process batches of one side at once."""
        batch = one_batch(batches, self.input_schemas[input_number])
        super().take_batch(input_number, batch)

    def close(self) -> None:
        """Close the user functions."""
        self.condition.close()

    def process_side(self, side: int, batch: pa.RecordBatch) -> None:
        """Process a batch of one side."""
        if self.inner is not None:
            for joined in self.inner.joined(side, batch):
                self.output.collect(joined, MIN_TIMESTAMP)
            return
        kinds = kinds_of(batch) or [INSERT] * batch.num_rows
        rows = rows_of(batch, self.widths[side])
        if self.is_null_aware:
            for row, kind in zip(rows, kinds, strict=True):
                self._change_null_aware(side, row, is_added=kind in ADDED)
            return
        keys = self.keys[side]
        texts = texts_without_nulls(batch, keys, () if self.equates_nulls else keys)
        if self.kind == "INNER":
            self._join_inner(side, batch, texts, rows, kinds)
            return
        others, partners = self._partners(side, batch, texts, rows)
        for text, row, found, kind in zip(texts, rows, partners, kinds, strict=True):
            if text is None:
                self._emit_alone(side, row, kind)
            else:
                self._change(side, text, row, others[text], found, kind)

    def _join_inner(
        self,
        side: int,
        batch: pa.RecordBatch,
        texts: list[str | None],
        rows: list[_Row],
        kinds: Sequence[int],
    ) -> None:
        """Keep the rows of one side and emit their pairs; rows whose key is None have none."""
        others: dict[str, list[_Record]] = {}
        positions: list[int] = []
        pairs: list[_Row] = []
        for position, (text, row, kind) in enumerate(zip(texts, rows, kinds, strict=True)):
            if text is None or self._keep(side, text, row, 0, kind) is None:
                continue
            records = others.get(text)
            if records is None:
                records = others[text] = list(self._records(1 - side, text).values())
            for record in records:
                number = record[1]
                positions += [position] * number
                pairs += [record[0]] * number
            if len(positions) >= MOST_PAIRS:
                self._emit_joined(side, batch, positions, pairs, kinds)
                positions, pairs = [], []
        self._emit_joined(side, batch, positions, pairs, kinds)

    def _emit_joined(
        self,
        side: int,
        batch: pa.RecordBatch,
        positions: list[int],
        pairs: list[_Row],
        kinds: Sequence[int],
    ) -> None:
        if not positions:
            return
        emitted = None
        if self.is_updating:
            emitted = [kinds[position] for position in positions]
        for joined in self.pairs.joined(side, batch, positions, pairs, emitted):
            self.output.collect(joined, MIN_TIMESTAMP)

    def _partners(
        self, side: int, batch: pa.RecordBatch, texts: list[str | None], rows: list[_Row]
    ) -> tuple[dict[str, dict[Any, _Record]], list[list[_Record]]]:
        """Return the other side's records of each key, and by row those that join."""
        others: dict[str, dict[Any, _Record]] = {}
        positions: list[int] = []
        candidates: list[_Record] = []
        for position, text in enumerate(texts):
            if text is None:
                continue
            if text not in others:
                others[text] = self._records(1 - side, text)
            records = others[text]
            positions += [position] * len(records)
            candidates += records.values()
        pairs = [record[0] for record in candidates]
        kept = self.pairs.kept(side, batch, positions, pairs)
        partners: list[list[_Record]] = [[] for _ in rows]
        for index, (position, record) in enumerate(zip(positions, candidates, strict=True)):
            if kept is None or kept[index]:
                partners[position].append(record)
        return others, partners

    def _emit_alone(self, side: int, row: _Row, kind: int) -> None:
        """Emit the result of a row without partners, if any."""
        if self.is_half:
            if side == 0 and self.kind == "ANTI":
                self.changes.add(kind, row)
        elif self.is_outer[side]:
            self.changes.add(_plain(kind), self._padded(side, row))

    def _padded(self, side: int, row: _Row) -> _Row:
        return row + nulls(self.widths[1]) if side == 0 else nulls(self.widths[0]) + row

    def _pair(self, side: int, row: _Row, other: _Row) -> _Row:
        return row + other if side == 0 else other + row

    def _records(self, side: int, text: str) -> dict[Any, _Record]:
        """Return the rows of a side that have a key and have not expired; see `_keep`."""
        kept = self.sides[side].get(text) or {}
        # State of `InnerJoin` has rows.
        found: dict[Any, _Record] = (
            {number: [row, 1, 0] for number, row in enumerate(kept)}
            if isinstance(kept, list)
            else kept
        )
        lifetime = self.lifetimes[side]
        if lifetime is None or not found:
            return found
        for record in found.values():
            if len(record) == _WITHOUT_TIME:
                # Restored from a snapshot without a time to live.
                record.append(lifetime.now())
        return {key: record for key, record in found.items() if not lifetime.expired(record[3])}

    def _touch(self, side: int, record: _Record) -> None:
        """Restart the time to live of a row of one side."""
        lifetime = self.lifetimes[side]
        if lifetime is not None:
            record[3:] = [lifetime.now()]

    def _keep(self, side: int, text: str, row: _Row, count: int, kind: int) -> _Record | None:
        """Add a row with its number of partners to a side, or take it out.

        Rows of a side without deletions are stored by number, others by their text.

        Returns:
            The record of the row; None if the row to take out is missing.
        """
        own = self._records(side, text)
        row_text = key_text(row) if self.has_kinds[side] else next(reversed(own), -1) + 1
        record = own.get(row_text)
        if kind in ADDED:
            if record is None:
                record = own[row_text] = [row, 1, count]
            else:
                record[1] += 1
                record[2] = count
            self._touch(side, record)
        elif record is None:
            return None
        else:
            record[1] -= 1
            self._touch(side, record)
            if record[1] == 0:
                del own[row_text]
        if own:
            self.sides[side].put(text, own)
        else:
            self.sides[side].remove(text)
        return record

    def _change(
        self,
        side: int,
        text: str,
        row: _Row,
        others: dict[object, _Record],
        partners: list[_Record],
        kind: int,
    ) -> None:
        """Apply a change to an outer, semi or anti join, and emit the resulting changes."""
        count = sum([record[1] for record in partners])
        if self._keep(side, text, row, count, kind) is None:
            return
        if self.is_half:
            self._emit_half(side, row, partners, count, kind)
        else:
            self._emit_pairs(side, row, partners, kind)
        if partners and (self.is_outer[1 - side] or (self.is_half and side == 1)):
            for partner in partners:
                partner[2] += 1 if kind in ADDED else -1
                self._touch(1 - side, partner)
            self.sides[1 - side].put(text, others)

    def _emit_pairs(self, side: int, row: _Row, partners: list[_Record], kind: int) -> None:
        if not partners:
            self._emit_alone(side, row, kind)
            return
        other_side = 1 - side
        is_added = kind in ADDED
        # A padded row that appears or goes has another kind than the change.
        if self.is_outer[side] or (is_added and self.is_outer[other_side]):
            kind = _plain(kind)
        if not self.is_outer[other_side]:
            others = [record[0] for record in partners for _ in range(record[1])]
            pairs = [row + o for o in others] if side == 0 else [o + row for o in others]
            self.changes.extend(kind, pairs)
            return
        for other, number, matches, *_ in partners:
            for _ in range(number):
                if is_added and matches == 0:
                    self.changes.add(DELETE, self._padded(other_side, other))
                self.changes.add(kind, self._pair(side, row, other))
                if not is_added and matches == 1:
                    self.changes.add(INSERT, self._padded(other_side, other))

    def _emit_half(
        self, side: int, row: _Row, partners: list[_Record], count: int, kind: int
    ) -> None:
        is_semi = self.kind == "SEMI"
        if side == 0:
            if (count > 0) == is_semi:
                self.changes.add(kind, row)
            return
        is_added = kind in ADDED
        # The first partner of a row ends its presence in an ANTI join.
        of_anti = DELETE if is_added else INSERT
        kind = kind if is_semi else of_anti
        for other, number, matches, *_ in partners:
            if matches == (0 if is_added else 1):
                self.changes.extend(kind, [other] * number)

    # NOT IN ---------------------------------------------------------------------------------------

    def _change_null_aware(self, side: int, row: _Row, *, is_added: bool) -> None:
        """Apply a change to a NOT IN, which a NULL on the right makes unknown for every row."""
        left, right = self._records(0, ""), self._records(1, "")
        own = left if side == 0 else right
        row_text = key_text(row)
        record = own.get(row_text)
        if is_added:
            if record is None:
                record = own[row_text] = [row, 1, 0]
            else:
                record[1] += 1
            self._touch(side, record)
        elif record is None:
            return
        else:
            record[1] -= 1
            if record[1] == 0:
                del own[row_text]
        if side == 0:
            if self._is_not_in(row, right):
                self.changes.add(INSERT if is_added else DELETE, row)
                if is_added:
                    left[row_text][2] = 1
            self.sides[0].put("", left)
            return
        self.sides[1].put("", right)
        for record in left.values():
            is_shown = self._is_not_in(record[0], right)
            if is_shown != bool(record[2]):
                for _ in range(record[1]):
                    self.changes.add(INSERT if is_shown else DELETE, record[0])
                record[2] = int(is_shown)
        self.sides[0].put("", left)

    def _is_not_in(self, row: _Row, right: dict[str, _Record]) -> bool:
        return is_not_in(row, [r[0] for r in right.values()], self.keys, self.condition)


def _plain(kind: int) -> int:
    """Return the row kind of a row that is no old or new row of an update."""
    return INSERT if kind in ADDED else DELETE


def is_not_in(
    row: _Row,
    others: list[_Row],
    keys: tuple[tuple[int, ...], tuple[int, ...]],
    condition: JoinCondition,
) -> bool:
    """Return whether NOT IN is true for a row and the rows of its subquery."""
    if condition.condition is not None:
        kept = condition.of_rows([(row, other) for other in others])
        others = [other for other, keep in zip(others, kept, strict=True) if keep]
    values = [row[i] for i in keys[0]]
    for other in others:
        is_equal: bool | None = True
        for value, key in zip(values, keys[1], strict=True):
            if value is None or other[key] is None:
                is_equal = None if is_equal else is_equal
            elif value != other[key]:
                is_equal = False
        if is_equal is not False:
            return False
    return True


def _types(schema: pa.Schema, positions: Sequence[int]) -> list[pa.DataType]:
    return [schema.field(position).type for position in positions]
