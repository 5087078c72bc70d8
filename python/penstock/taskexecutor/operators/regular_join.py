"""The join of all records of a key: of batches of columns, or record by record."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.columns.aggregate_results import ResultBatches
from penstock.columns.column_batch import NO_TIMESTAMP, ColumnBatch, concat
from penstock.columns.join_columns import JoinColumns, join_columns
from penstock.common.row_kind import RowKind
from penstock.common.values.change_rows import kind_of_change
from penstock.errors import InvalidProgramError
from penstock.taskexecutor.operators.batch_wait import BatchWait
from penstock.taskexecutor.operators.two_input import CoProcessOperator, OperatorInput
from penstock.taskexecutor.state.heap import StateTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.graph import operators
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.compiled import StreamOperator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.joined_columns import JoinedColumns

#: The number of waiting records for which no more are awaited.
_ENOUGH_ROWS: Final = 16_384

#: By side, the states of the function: the records of a key.
_LISTS: Final = ("left", "right")

#: By side, the states of columns: blocks of records of a key group.  The type of the records, which
#: the bytes of a block lack, follows in the name of the state.
_BLOCKS: Final = ("_left columns of ", "_right columns of ")


def create_regular_join(
    context: OperatorContext, descriptor: operators.RegularJoin
) -> StreamOperator:
    """Create the operator of a join without a window.

    Raises:
        InvalidProgramError: An input is not keyed.
    """
    if context.key_selector(0) is None or context.key_selector(1) is None:
        raise InvalidProgramError(f"{context.name!r} joins by key, but an input is not keyed")
    return RegularJoinOperator(context, descriptor)


class _JoinInput(OperatorInput):
    """An input that takes batches of columns."""

    operator: RegularJoinOperator

    def process_batch(self, batch: ColumnBatch) -> None:
        """Process the records of a batch."""
        if not self.operator.take_batch(self.number, batch):
            super().process_batch(batch)


class RegularJoinOperator(CoProcessOperator):
    """Joins records by the function's keyed state, and from the first batch on by columns.

    Columns join what a stream of insertions in memory needs.  At the first record that they cannot
    store (a change, or a key that is not computed by columns) all records move into the function's
    state, and stay there.  So they do when a snapshot is restored without columns.

    Batches and the records between them wait a short time for others, never beyond a watermark or a
    barrier.
    """

    def __init__(self, context: OperatorContext, descriptor: operators.RegularJoin) -> None:
        """Create the operator."""
        function = descriptor.function
        super().__init__(context, (function.process_element1, function.process_element2))
        self.inputs = [
            _JoinInput(self, number, partial(self._process, number)) for number in (0, 1)
        ]
        self.context = context
        self.join: Any = function
        self.columns = self._join_columns(descriptor)
        self.joined: JoinedColumns | None = None
        #: By side, batches, and lists of single records with their timestamps.
        self.waiting: list[list[ColumnBatch | list[tuple[Any, int]]]] = [[], []]
        self.num_waiting = 0
        self.wait = BatchWait(context.processing_time, self.flush)

    def _join_columns(self, descriptor: operators.RegularJoin) -> JoinColumns | None:
        evaluation, config = self.context.evaluation, self.context.config
        if self.context.is_batch or not evaluation.has_columns:
            return None
        key_type: Any = config.key_type
        found = join_columns(
            descriptor, config.key_selectors, key_type, config.input_types, evaluation
        )
        if isinstance(found, str):
            return None
        evaluation.column_programs.append(found)
        self.row_batches = [ResultBatches(declared) for declared in found.types]
        return found

    def open(self) -> None:
        """Open the function; restore columns, or move them into its state.

        Raises:
            InvalidProgramError: The restored records were of another type.
        """
        super().open()
        restored = [name for name in self.context.keyed_state.tables if name.startswith(_BLOCKS)]
        for name in restored:
            if name not in self._block_names():
                before, _, declared = name.removeprefix("_").partition(" columns of ")
                now = self.context.config.input_types[before == "right"]
                raise InvalidProgramError(
                    f"{self.context.name!r}: the restored records of its {before} side are of the "
                    f"type {declared}, and now {now!r} is declared: restore with the former type"
                )
        if restored and not self._start_columns():
            self._blocks_to_lists()

    def take_batch(self, side: int, batch: ColumnBatch) -> bool:
        """Process a batch of one side, which may wait; return False if its records must be."""
        if self.joined is None and not self._start_columns():
            return False
        joined = cast("JoinedColumns", self.joined)
        if batch.kinds is not None or not joined.can_store(side, batch):
            self._stop_columns()
            return False
        self.waiting[side].append(batch)
        self._wait_for_more(len(batch))
        return True

    def _process(self, number: int, value: object, timestamp: int) -> None:
        if self.joined is None:
            super()._process(number, value, timestamp)
        elif kind_of_change(value) is RowKind.INSERT:
            waiting = self.waiting[number]
            if not waiting or isinstance(waiting[-1], ColumnBatch):
                waiting.append([])
            cast("list[Any]", waiting[-1]).append((value, timestamp))
            self._wait_for_more(1)
        else:
            self._stop_columns()
            super()._process(number, value, timestamp)

    def _wait_for_more(self, added: int) -> None:
        self.num_waiting += added
        if self.num_waiting >= _ENOUGH_ROWS:
            self.flush()
        else:
            self.wait.begin()

    def flush(self) -> None:
        """Join the waiting records."""
        waiting, self.waiting, self.num_waiting = self.waiting, [[], []], 0
        for side, parts in enumerate(waiting):
            batches: list[ColumnBatch] = []
            for part in parts:
                batch = part if isinstance(part, ColumnBatch) else self._batch(side, part)
                if batch is not None:
                    batches.append(batch)
                    continue
                self._join_all(side, batches)
                batches = []
                self._stop_columns()
                for value, timestamp in cast("list[Any]", part):
                    self._process(side, value, timestamp)
            self._join_all(side, batches)

    def _batch(self, side: int, records: list[tuple[Any, int]]) -> ColumnBatch | None:
        """Return the batch of some records with their timestamps; None if they do not fit."""
        import pyarrow as pa

        columns = list(zip(*[value for value, _ in records], strict=True))
        stamps = pa.array([timestamp for _, timestamp in records], pa.int64())
        return self.row_batches[side].of(columns, stamps)

    def _join_all(self, side: int, batches: list[ColumnBatch]) -> None:
        if batches:
            self._join(side, concat(batches))

    def _join(self, side: int, batch: ColumnBatch) -> None:
        """Join a batch by columns, or record by record."""
        if self.joined is not None and not self.joined.has_keys(side, batch.data):
            self._stop_columns()
        if self.joined is None:
            for value, timestamp in batch.records():
                self._process(side, value, timestamp)
            return
        columns = cast("JoinColumns", self.columns)
        columns.batches += 1
        columns.rows += len(batch)
        for found in self.joined.joined(side, batch):
            if isinstance(found, ColumnBatch):
                self.output.collect_batch(found)
                continue
            for left, right, timestamp in found:
                for result in self.join.joining.results(left, right, None):
                    self.output.collect(result, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Join the waiting records, and emit the watermark behind their results."""
        self.flush()
        super().process_watermark(timestamp)

    def process_status(self, idle: bool) -> None:
        """Join the waiting records, and emit a change of idleness behind their results."""
        self.flush()
        super().process_status(idle)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Join the waiting records, and add the records that keyed state lacks to it."""
        self.flush()
        if self.joined is not None:
            self.joined.save()

    def finish(self) -> None:
        """Join the waiting records."""
        self.flush()

    def _start_columns(self) -> bool:
        """Move the stored records into columns, and return whether columns join them."""
        if self.columns is None:
            return False
        from penstock.taskexecutor.operators.joined_columns import JoinedColumns
        from penstock.taskexecutor.operators.key_blocks import portions

        lists: list[StateTable] = []
        for name in _LISTS:
            table: Any = self.context.keyed_state.table(name, "list")
            # A database may have more records than fit into memory.
            if not isinstance(table, StateTable) or table.store is not None:
                self.columns = None
                return False
            lists.append(table)
        keys = cast("KeyReader", self.keys[0])
        joined = JoinedColumns(self.context, self.columns, keys, self._blocks())
        for side, table in enumerate(lists):
            for records in portions(table.map(None).values()):
                batch = self._batch(side, [(record, NO_TIMESTAMP) for record in records])
                if batch is None or not joined.add(side, batch.data):
                    self._give_up()
                    return False
        for table in lists:
            table.map(None).clear()
        joined.restore()
        self.joined = joined
        return True

    def _stop_columns(self) -> None:
        """Move the stored records into the function's state, where they stay."""
        self.flush()
        joined, self.joined = self.joined, None
        if joined is None:
            return
        self._give_up()
        for side in (0, 1):
            self._add_to_lists(side, joined.records(side))
        joined.clear()

    def _give_up(self) -> None:
        if self.columns is not None:
            self.columns.given_up += 1
            self.columns = None

    def _block_names(self) -> tuple[str, str]:
        left, right = self.context.config.input_types[:2]
        return f"{_BLOCKS[0]}{left!r}", f"{_BLOCKS[1]}{right!r}"

    def _blocks(self) -> tuple[StateTable, StateTable]:
        left, right = self._block_names()
        table = self.context.keyed_state.table
        return table(left, "value"), table(right, "value")

    def _blocks_to_lists(self) -> None:
        """Move restored blocks into the function's state."""
        from penstock.taskexecutor.operators.key_blocks import records_of_blocks

        for side, table in enumerate(self._blocks()):
            declared: Any = self.context.config.input_types[side]
            self._add_to_lists(side, records_of_blocks(table, declared))

    def _add_to_lists(self, side: int, records: Iterable[Any]) -> None:
        keys, keyed_state = cast("Any", self.keys[side]), self.context.keyed_state
        for record in records:
            keyed_state.select_key(keys.read(record))
            self.join.sides[side].add(record)
