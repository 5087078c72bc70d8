"""The splits of a source and its position in each: the source's state in a checkpoint."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.common.typeinfo import Types
from penstock.datastream.state import ListStateDescriptor
from penstock.taskexecutor.compiled import END_OF_DATA, MORE_AVAILABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_SPLITS: Final = ListStateDescriptor("SourceReaderState", Types.PICKLED_BYTE_ARRAY())
_TAKEN: Final = ListStateDescriptor("DiscoveredSplits", Types.PICKLED_BYTE_ARRAY())


class Share(NamedTuple):
    """The share of one of several equal subtasks, as long as it is not divided into splits.

    It keeps its numbers when restored into a subtask of another parallelism, so that the shares of
    all subtasks still cover the whole source.
    """

    number: int
    of: int


class SplitState:
    """Keeps a source's splits as operator list state; must precede the source class in the bases.

    Attributes:
        splits: The initial splits: the subtask's `Share`, or those of a snapshot.
        looks_for_splits: Whether the source discovers splits as it runs, and so never ends: the
            splits it discovered are stored for all subtasks, and incomplete if some subtasks had
            ended.
        taken: Splits that such a source has discovered already, in any subtask.
        next_split: Called before each split but the first begins.
    """

    looks_for_splits = False
    next_split: Callable[[], None] | None = None

    context: OperatorContext
    splits: list[Any]
    taken: set[Any]

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the splits of a snapshot."""
        environment, state = self.context.environment, self.context.operator_state
        self.splits = [Share(environment.subtask, environment.parallelism)]
        if context.is_restored():
            self.splits = state.list_state(_SPLITS).get()
        self.taken = set(state.union_list_state(_TAKEN).get()) if self.looks_for_splits else set()

    def snapshot_state(self, context: StateSnapshotContext) -> None:  # noqa: ARG002
        """Store the splits that are not read to their end."""
        state = self.context.operator_state
        state.list_state(_SPLITS).update(self.remaining_splits())
        if self.looks_for_splits:
            state.union_list_state(_TAKEN).update(self.taken_here())

    @abstractmethod
    def remaining_splits(self) -> Sequence[object]:
        """Return the unfinished splits, each from its current position; valid after ``open``."""

    def taken_here(self) -> Iterable[object]:
        """Return the splits that this subtask found; empty unless the source discovers splits."""
        return ()

    @abstractmethod
    def divide(self, share: Share) -> Iterable[object]:
        """Return the splits of a share."""

    def divided(self) -> deque[Any]:
        """Return the subtask's initial splits."""
        found: deque[Any] = deque()
        for split in self.splits:
            if isinstance(split, Share):
                found.extend(self.divide(split))
            else:
                found.append(split)
        # If the parallelism was reduced, splits of several subtasks are joined.
        return deque(sorted(found, key=self.place))

    def place(self, split: Any) -> int:  # noqa: ARG002
        """Return the place of a split in the order of the source; equal places keep their order.

        A subtask reads its splits in this order, so that time-ordered data stays in order.
        """
        return 0


class SplitBySplit(SplitState):
    """Reads one split after the other; the source class emits their records.

    A bounded source publishes gauges of the assigned and the remaining amount, in the unit of its
    splits; they cost nothing unless they are read.

    Attributes:
        measure: The unit of splits; empty if their size is unknown.
        waiting: Splits that have not begun.
        is_reading: Whether a split has begun and is not read to its end.
    """

    measure = ""
    waiting: deque[Any]
    is_reading = False
    _has_read = False

    @abstractmethod
    def begin(self, split: Any) -> None:
        """Begin this split: the source's ``emit_next`` returns END_OF_DATA at its end."""

    @abstractmethod
    def rest(self) -> object:
        """Return the current split, from its current position."""

    def size(self, split: Any) -> int | None:
        """Return the size of a split in units of `measure`; None if it is unknown."""
        raise NotImplementedError(type(self).__name__ + ".size")

    def open(self) -> None:
        """Divide the splits and begin the first."""
        self.waiting = self.divided()
        if self.measure and not self.looks_for_splits:
            sizes = [self.size(split) for split in self.waiting]
            if None not in sizes:
                assigned = sum(filter(None, sizes))
                group = self.context.runtime_context.get_metrics_group()
                group.gauge(f"assigned{self.measure}", lambda: assigned)
                group.gauge(f"pending{self.measure}", self._pending)
        self.begin_next()

    def begin_next(self) -> bool:
        """Begin the next split; return False if there is none."""
        if not self.waiting:
            self.is_reading = False
            return False
        if self._has_read and self.next_split is not None:
            self.next_split()
        self._has_read = True
        self.begin(self.waiting.popleft())
        self.is_reading = True
        return True

    def emit_next(self, limit: int) -> int:
        """Emit about ``limit`` records at most, without blocking."""
        status: int = super().emit_next(limit)  # type: ignore[misc]
        return MORE_AVAILABLE if status == END_OF_DATA and self.begin_next() else status

    def remaining_splits(self) -> Sequence[object]:
        """Return the unfinished splits, each from its current position."""
        return [*([self.rest()] if self.is_reading else ()), *self.waiting]

    def _pending(self) -> int:
        """Return the amount left to read; called by another thread, so it may lag one step."""
        return sum(filter(None, map(self.size, self.remaining_splits())))
