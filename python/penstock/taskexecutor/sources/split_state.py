"""The splits of a source and how far each was read: what a checkpoint keeps of the source."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.common.typeinfo import Types
from penstock.datastream.state import ListStateDescriptor
from penstock.taskexecutor.compiled import END_OF_DATA, MORE_AVAILABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.taskexecutor.task.operator_context import OperatorContext

_SPLITS: Final = ListStateDescriptor("SourceReaderState", Types.PICKLED_BYTE_ARRAY())
_TAKEN: Final = ListStateDescriptor("DiscoveredSplits", Types.PICKLED_BYTE_ARRAY())


class Share(NamedTuple):
    """All that one of several equal subtasks reads, as long as it is not divided into splits.

    It keeps its numbers when it is restored into a subtask of another parallelism, so that the
    shares of all subtasks still are the whole source.
    """

    number: int
    of: int


class SplitState:
    """Keeps the splits of a source as operator list state; before the source class among the bases.

    Attributes:
        splits: What the subtask starts with: its `Share`, or what a snapshot held.
        looks_for_splits: Whether it finds new ones as it goes, and so never ends: what it has found
            is kept for all subtasks, which no checkpoint could have the whole of if some had ended.
        taken: What such a source has found already, in any subtask.
        next_split: Called before another split is begun than the first.
    """

    looks_for_splits = False
    next_split: Callable[[], None] | None = None

    context: OperatorContext
    splits: list[Any]
    taken: set[Any]

    def initialize_state(self, context: Any) -> None:
        """Takes over what a snapshot held."""
        environment, state = self.context.environment, self.context.operator_state
        self.splits = [Share(environment.subtask, environment.parallelism)]
        if context.is_restored():
            self.splits = state.list_state(_SPLITS).get()
        self.taken = set(state.union_list_state(_TAKEN).get()) if self.looks_for_splits else set()

    def snapshot_state(self, context: Any) -> None:  # noqa: ARG002
        """Writes the splits that are not read to their end."""
        state = self.context.operator_state
        state.list_state(_SPLITS).update(self.remaining_splits())
        if self.looks_for_splits:
            state.union_list_state(_TAKEN).update(self.taken_here())

    @abstractmethod
    def remaining_splits(self) -> list[Any]:
        """The splits that are not read to their end, each from where it goes on; after ``open``."""

    def taken_here(self) -> Iterable[Any]:
        """Return the splits that this subtask found; empty unless the source discovers splits."""
        return ()

    @abstractmethod
    def divide(self, share: Share) -> Iterable[Any]:
        """The splits of a share."""

    def divided(self) -> deque[Any]:
        """The splits that the subtask starts with."""
        found: deque[Any] = deque()
        for split in self.splits:
            if isinstance(split, Share):
                found.extend(self.divide(split))
            else:
                found.append(split)
        # Splits of several subtasks follow each other where the parallelism was reduced.
        return deque(sorted(found, key=self.place))

    def place(self, split: Any) -> int:  # noqa: ARG002
        """Return the place of a split in the order of the source; equal places keep their order.

        A subtask reads its splits in this order, so that what is in order of time stays so.
        """
        return 0


class SplitBySplit(SplitState):
    """Reads one split after the other; how to emit one is the affair of the source class.

    A bounded one tells how much it was assigned and how much of that is left, in whatever its
    splits are measured in: gauges, which nobody pays for who does not read them.

    Attributes:
        measure: What splits are measured in; empty for what cannot be told.
        waiting: The splits that are not begun.
        is_reading: Whether a split is begun and not read to its end.
    """

    measure = ""
    waiting: deque[Any]
    is_reading = False
    _has_read = False

    @abstractmethod
    def begin(self, split: Any) -> None:
        """Goes on with this split: the source's ``emit_next`` says END_OF_DATA at its end."""

    @abstractmethod
    def rest(self) -> Any:
        """The split that is being read, from where it goes on."""

    def size(self, split: Any) -> int | None:
        """Return the size of a split in units of `measure`; None if it is unknown."""
        raise NotImplementedError(type(self).__name__ + ".size")

    def open(self) -> None:
        """Prepares for elements."""
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
        """Goes on with the next split; False without any."""
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
        """Emits at most about ``limit`` elements without blocking."""
        status: int = super().emit_next(limit)  # type: ignore[misc]
        return MORE_AVAILABLE if status == END_OF_DATA and self.begin_next() else status

    def remaining_splits(self) -> list[Any]:
        """The splits that are not read to their end, each from where it goes on."""
        return [*([self.rest()] if self.is_reading else ()), *self.waiting]

    def _pending(self) -> int:
        """Return the amount left to read; called by another thread, so it may lag one step."""
        return sum(filter(None, map(self.size, self.remaining_splits())))
