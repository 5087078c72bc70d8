"""An enumerator and a reader that are a part of another source: what they may do there."""

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
    """Context of a part's enumerator, on top of that of the whole.

    Attributes:
        enumerator: That of the part, which is made with this context.
    """

    enumerator: SplitEnumerator[S]

    def __init__(self, context: SplitEnumeratorContext[Any]) -> None:
        """Does it with ``context``, that of the whole."""
        self._context = context
        self._is_closed = False

    def close(self) -> None:
        """Has the enumerator give nothing more."""
        self._is_closed = True
        self.enumerator.close()

    @abstractmethod
    def split_of_whole(self, split: S) -> SourceSplit:
        """A split of the part as one of the whole."""

    def event_of_whole(self, event: Any) -> Any:
        """An event of the part as one of the whole."""
        return event

    def current_parallelism(self) -> int:
        """Return the parallelism of the source."""
        return self._context.current_parallelism()

    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        """Return the readers of the source."""
        return self._context.registered_readers()

    def assign_splits(self, assignment: Mapping[int, Sequence[S]]) -> None:
        """Gives splits as those of the part."""
        self._context.assign_splits(
            {
                subtask: [self.split_of_whole(split) for split in splits]
                for subtask, splits in assignment.items()
            }
        )

    def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
        """Sends an event."""
        self._context.send_event_to_source_reader(subtask_id, self.event_of_whole(event))

    def call_async(
        self,
        call: Callable[[], Any],
        handler: Callable[[Any, BaseException | None], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        """Calls in another thread; nobody hears of it who is closed meanwhile."""

        def handle(result: Any, error: BaseException | None) -> None:
            if not self._is_closed:
                handler(result, error)

        self._context.call_async(call, handle, initial_delay_ms, period_ms)

    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        """Runs an action in the enumerator's thread."""
        self._context.run_in_coordinator_thread(action)
