"""The enumerators of a HybridSource's sources, combined into one beside the JobMaster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.connectors.split_parts import PartContext
from penstock.connectors.split_source import (
    PythonSource,
    ReaderInfo,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class HybridSplit(SourceSplit):
    """A split of one of the sources.

    Attributes:
        part: The number of the source.
        split: Its split.
    """

    part: int
    split: Any

    def split_id(self) -> str:
        """Return the id of the split, with the number of its source."""
        return f"{self.part}:{self.split.split_id()}"


class Signal(Enum):
    """Message between the reader of a source and its enumerator."""

    REGISTERED = 0
    SPLIT_WANTED = 1
    NO_MORE_SPLITS = 2


@dataclass(frozen=True)
class PartEvent:
    """An event between one of the sources and its enumerator.

    Attributes:
        part: The number of the source.
        event: A `Signal`, or a tuple with the source's own event.
    """

    part: int
    event: Signal | tuple[Any]


class PartsEnumerating:
    """Factory of the enumerator of a HybridSource."""

    def __init__(self, sources: Mapping[int, PythonSource[Any, Any]], *, is_bounded: bool) -> None:
        """Create a factory for the sources, by their numbers."""
        self.sources = sources
        self.is_bounded = is_bounded

    def create_enumerator(
        self, enum_context: SplitEnumeratorContext[HybridSplit]
    ) -> HybridEnumerator:
        """Create the enumerator."""
        return HybridEnumerator(self, enum_context, {})

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[HybridSplit], state: Any
    ) -> HybridEnumerator:
        """Restore the enumerator from its snapshot."""
        return HybridEnumerator(self, enum_context, state)


class HybridEnumerator(SplitEnumerator[HybridSplit]):
    """Runs the enumerators of all sources that were started.

    A source's enumerator is created when all subtasks have read the previous sources.  If the whole
    source is bounded, subtasks may run one after the other, so the first one suffices.
    """

    def __init__(
        self,
        source: PartsEnumerating,
        context: SplitEnumeratorContext[HybridSplit],
        state: Mapping[int, Any],
    ) -> None:
        """Create an enumerator, or restore it from the result of `snapshot_state`."""
        self._source, self._context = source, context
        self._parts = {number: _Part(context, number) for number in state}
        for number, part in self._parts.items():
            part.enumerator = source.sources[number].restore_enumerator(part, state[number])
        self._waiting: dict[int, set[int]] = {}

    def start(self) -> None:
        """Resume the splits of a checkpoint; the others wait for readers."""
        for part in self._parts.values():
            part.enumerator.start()

    def handle_split_request(self, subtask_id: int, requester_hostname: str) -> None:
        """Ignore requests: readers send events that name the source."""

    def add_splits_back(self, splits: list[HybridSplit], subtask_id: int) -> None:
        """Return the splits to their sources."""
        self._forget(subtask_id)
        for number, part in self._parts.items():
            own = [split.split for split in splits if split.part == number]
            if own:
                part.enumerator.add_splits_back(own, subtask_id)

    def add_reader(self, subtask_id: int) -> None:
        """Forget the former reader; the new one will name its source."""
        self._forget(subtask_id)

    def handle_source_event(self, subtask_id: int, source_event: PartEvent) -> None:
        """Handle a reader's event: it starts a source, requests a split, or sends its own event."""
        number, event = source_event.part, source_event.event
        if event is Signal.REGISTERED:
            self._registered(number, subtask_id)
            return
        part = self._parts[number]
        if event is Signal.SPLIT_WANTED:
            host = part.registered_readers()[subtask_id].location
            part.enumerator.handle_split_request(subtask_id, host)
        elif isinstance(event, tuple):
            part.enumerator.handle_source_event(subtask_id, event[0])

    def snapshot_state(self, checkpoint_id: int) -> dict[int, Any]:
        """Return the state of the enumerators, by the numbers of their sources."""
        return {
            number: part.enumerator.snapshot_state(checkpoint_id)
            for number, part in self._parts.items()
        }

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the enumerators."""
        for part in self._parts.values():
            part.enumerator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the enumerators."""
        for part in self._parts.values():
            part.enumerator.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Close the enumerators."""
        for part in self._parts.values():
            part.close()

    def _forget(self, subtask: int) -> None:
        for part in self._parts.values():
            part.readers.discard(subtask)
        for waiting in self._waiting.values():
            waiting.discard(subtask)

    def _registered(self, number: int, subtask: int) -> None:
        self._waiting.setdefault(number, set()).add(subtask)
        there = self._waiting[number].intersection(self._context.registered_readers())
        part = self._parts.get(number)
        if part is None:
            if not self._source.is_bounded and len(there) < self._context.current_parallelism():
                return
            part = _Part(self._context, number)
            part.enumerator = self._source.sources[number].create_enumerator(part)
            self._parts[number] = part
            part.enumerator.start()
        del self._waiting[number]
        for reader in sorted(there):
            part.readers.add(reader)
            part.enumerator.add_reader(reader)


class _Part(PartContext[Any]):
    """Context of one source's enumerator, for the subtasks that read it."""

    def __init__(self, context: SplitEnumeratorContext[HybridSplit], number: int) -> None:
        super().__init__(context)
        self._number = number
        self.readers: set[int] = set()

    def split_of_whole(self, split: Any) -> HybridSplit:
        """Add the number of the source."""
        return HybridSplit(self._number, split)

    def event_of_whole(self, event: Any) -> PartEvent:
        """Add the number of the source."""
        return PartEvent(self._number, (event,))

    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        """Return the readers of the source."""
        found = self._context.registered_readers()
        return {subtask: found[subtask] for subtask in found if subtask in self.readers}

    def signal_no_more_splits(self, subtask_id: int) -> None:
        """Notify the reader of the source."""
        self._context.send_event_to_source_reader(
            subtask_id, PartEvent(self._number, Signal.NO_MORE_SPLITS)
        )
