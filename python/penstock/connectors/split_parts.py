"""Context of an enumerator that is part of a combined source."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.connectors.split_source import (
    ReaderInfo,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

S = TypeVar("S", bound=SourceSplit)


class PartContext(SplitEnumeratorContext[S], Generic[S]):
    """Context of a part's enumerator, based on that of the combined source.

    Attributes:
        enumerator: The part's enumerator, which is created with this context.
    """

    enumerator: SplitEnumerator[S]

    def __init__(self, context: SplitEnumeratorContext[Any]) -> None:
        """Create a context based on the combined source's one."""
        self._context = context
        self._is_closed = False

    def close(self) -> None:
        """Close the enumerator; results of its asynchronous calls are dropped."""
        self._is_closed = True
        self.enumerator.close()

    @abstractmethod
    def split_of_whole(self, split: S) -> SourceSplit:
        """Return a split of the part as one of the combined source."""

    def event_of_whole(self, event: Any) -> Any:
        """Return an event of the part as one of the combined source."""
        return event

    def current_parallelism(self) -> int:
        """Return the parallelism of the source."""
        return self._context.current_parallelism()

    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        """Return the readers of the source."""
        return self._context.registered_readers()

    def assign_splits(self, assignment: Mapping[int, Sequence[S]]) -> None:
        """Assign splits of the part."""
        self._context.assign_splits(
            {
                subtask: [self.split_of_whole(split) for split in splits]
                for subtask, splits in assignment.items()
            }
        )

    def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
        """Send an event."""
        self._context.send_event_to_source_reader(subtask_id, self.event_of_whole(event))

    def call_async(
        self,
        call: Callable[[], Any],
        handler: Callable[[Any, BaseException | None], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        """Call a function in another thread; its result is dropped after `close`."""

        def handle(result: Any, error: BaseException | None) -> None:
            if not self._is_closed:
                handler(result, error)

        self._context.call_async(call, handle, initial_delay_ms, period_ms)

    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        """Run an action in the enumerator's thread."""
        self._context.run_in_coordinator_thread(action)
