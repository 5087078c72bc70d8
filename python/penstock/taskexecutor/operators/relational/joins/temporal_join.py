"""Joins with the version of a table at the time of a row."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from penstock.columns.record_batches import rows_of
from penstock.errors import InvalidProgramError
from penstock.table.plan.nodes import DELETE, UPDATE_BEFORE
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.base import TwoInputRelationalOperator
from penstock.taskexecutor.operators.relational.batches import kinds_of
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.joins.join_condition import JoinCondition, nulls
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.waiting_rows import WaitingRows
from penstock.taskexecutor.operators.relational.watermarks import milliseconds

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import JoinKind
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_Row = tuple[Any, ...]
#: A row kind, a left row, and its version of the right side, if any.
_Joined = tuple[int, _Row, _Row | None]


class TemporalJoinOperator(TwoInputRelationalOperator):
    """Keeps left rows until their time has passed, and versions that they may need."""

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
        left_time: int,
        right_time: int | None,
        is_updating: bool,
        state_ttl_ms: int = 0,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            inputs: The columns of both sides.
            output: The columns of the output.
            has_kinds: Whether batches of the sides have row kinds.
            kind: INNER or LEFT.
            keys: Positions of the columns that must be equal.
            condition: The condition besides the keys; None without one.
            session: Settings that results depend on.
            left_time: The position of the left time attribute.
            right_time: The position of the right one.
            is_updating: Whether rows of the output may change.
            state_ttl_ms: The time after which versions of a key without rows expire; 0 for never.

        Raises:
            InvalidProgramError: The join is by processing time.
        """
        super().__init__(context, inputs, output, has_kinds=has_kinds, is_updating=is_updating)
        if right_time is None:
            raise InvalidProgramError(
                "a temporal join by processing time needs a table that can be looked up"
            )
        self.keys = keys
        self.times = left_time, right_time
        self.is_left = kind == "LEFT"
        self.condition = JoinCondition(context, inputs, condition, session)
        #: By key: left rows that wait, as time, row kind and row; versions in order of time.
        self.waiting = WaitingRows(context.keyed_state.table("left", "value").map(None))
        self.versions = keyed_rows(context, "right", state_ttl_ms)
        self.is_expiring = state_ttl_ms > 0
        self.watermark = MIN_TIMESTAMP

    def open(self) -> None:
        """Note the rows that wait, and open the user functions."""
        self.waiting.open()
        self.condition.open()

    def close(self) -> None:
        """Close the user functions."""
        self.condition.close()

    def process_side(self, side: int, batch: pa.RecordBatch) -> None:
        """Process a batch of one side."""
        kinds = kinds_of(batch) or [0] * batch.num_rows
        texts = key_texts(batch, self.keys[side])
        times = milliseconds(batch.column(self.times[side])).to_pylist()
        rows = rows_of(batch, self.widths[side])
        for text, time, kind, row in zip(texts, times, kinds, rows, strict=True):
            if side == 0:
                self.waiting.add(text, (time, kind, row))
            elif kind != UPDATE_BEFORE:
                versions = self.versions.get(text) or []
                version = (time, None if kind == DELETE else row)
                at = bisect_right(_times_of(versions), time)
                versions.insert(at, version)
                # Trim here as well: a key without left rows would collect all its versions.
                self.versions.put(text, _needed(versions, self.watermark))

    def process_watermark(self, timestamp: int) -> None:
        """Join the left rows whose time has passed."""
        self.watermark = timestamp
        found: list[_Joined] = []
        for text, due in self.waiting.passed(timestamp):
            found += self._joined(text, due, timestamp)
        pairs = [(row, version) for _, row, version in found if version is not None]
        kept = iter(self.condition.of_rows(pairs))
        for kind, row, version in found:
            if version is not None and next(kept):
                self.changes.add(kind, row + version)
            elif self.is_left:
                self.changes.add(kind, row + nulls(self.widths[1]))
        self.flush()
        self.output.emit_watermark(timestamp)

    def _joined(self, text: str, due: list[Any], timestamp: int) -> list[_Joined]:
        """Return due rows of a key in the order of their times, with their versions."""
        versions = self.versions.get(text) or []
        times = _times_of(versions)
        found: list[_Joined] = []
        for time, kind, row in sorted(due, key=lambda entry: entry[0]):
            at = bisect_right(times, time) - 1
            found.append((kind, row, versions[at][1] if at >= 0 else None))
        needed = _needed(versions, timestamp)
        if len(needed) < len(versions) or (versions and self.is_expiring):
            self.versions.put(text, needed)
        return found


def _times_of(versions: list[Any]) -> list[int]:
    return [time for time, _ in versions]


def _needed(versions: list[Any], timestamp: int) -> list[object]:
    """Return the versions that later left rows may join: the last past one and those after it."""
    last = bisect_right(_times_of(versions), timestamp) - 1
    return versions[max(last, 0) :]
