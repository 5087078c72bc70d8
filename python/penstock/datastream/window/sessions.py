"""Session windows: they grow while records arrive within a gap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import index
from typing import TYPE_CHECKING, Any, Final

from penstock.common.exception_deadline import repr_in_time
from penstock.common.timestamps import timestamp_of
from penstock.datastream.window.assigners import (
    MergingWindowAssigner,
    WindowAssigner,
    event_timestamp,
    millis,
)
from penstock.datastream.window.triggers import EventTimeTrigger, ProcessingTimeTrigger, Trigger
from penstock.datastream.window.windows import TimeWindow, TimeWindowSerializer
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.common.serializer import TypeSerializer
    from penstock.common.time import Duration, Time


#: Gaps below this cannot exceed 64 bits, so that most records skip the slower check.
_MAX_GAP: Final = 1 << 60


class SessionWindowTimeGapExtractor(ABC):
    """The base of functions that return the gap after a record."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap after a record in ms; must be positive."""


class _SessionWindows(MergingWindowAssigner[Any, TimeWindow]):
    """The base of all session assigners; subclasses set `_event_time` and return the gap."""

    _event_time: bool

    def _gap_ms(self, element: Any) -> int:
        raise NotImplementedError

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Return a window from the record until the gap is over; overlapping ones merge later."""
        start = (
            event_timestamp(timestamp)
            if self._event_time
            else context.get_current_processing_time()
        )
        return [TimeWindow(start, start + self._gap_ms(element))]

    def merge_windows(
        self,
        windows: Iterable[TimeWindow],
        callback: MergingWindowAssigner.MergeCallback[TimeWindow],
    ) -> None:
        """Merge the windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)

    def get_default_trigger(self, env: Any) -> Trigger[Any, Any]:  # noqa: ARG002
        """Return a trigger that fires at the end of the session."""
        return EventTimeTrigger() if self._event_time else ProcessingTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        """Return the serializer of start and end."""
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        """Return whether the sessions follow event time."""
        return self._event_time


def joins_touching_windows(assigner: object) -> bool:
    """Return whether an assigner merges windows that overlap or touch."""
    return getattr(type(assigner), "merge_windows", None) is _SessionWindows.merge_windows


class _FixedGap(_SessionWindows):
    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise InvalidProgramError(
                f"{type(self).__name__} needs a positive gap, got {session_gap} ms"
            )
        self._session_gap = session_gap

    def _gap_ms(self, element: Any) -> int:  # noqa: ARG002
        return self._session_gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session_gap})"


class _DynamicGap(_SessionWindows):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        given: Any = session_window_time_gap_extractor
        if not isinstance(given, SessionWindowTimeGapExtractor):
            raise InvalidProgramError(
                f"{type(self).__name__} takes a SessionWindowTimeGapExtractor, got {given!r}"
            )
        self._extractor = session_window_time_gap_extractor

    def _gap_ms(self, element: Any) -> int:
        gap = self._extractor.extract(element)
        return gap if type(gap) is int and 0 < gap < _MAX_GAP else self._whole(gap, element)

    def _whole(self, gap: Any, element: Any) -> int:
        name = f"{type(self._extractor).__qualname__}.extract"
        try:
            whole = timestamp_of(index(gap), name)
        except TypeError as error:
            msg = f"{name}: a gap must be a whole number of milliseconds, got {repr_in_time(gap)}"
            raise TypeError(msg) from error
        if whole <= 0:
            raise ValueError(
                f"a dynamic session gap must be positive, got {gap} for {repr_in_time(element)}"
            )
        return whole

    def __repr__(self) -> str:
        return f"{type(self).__name__}(0)"  # as in PyFlink, which writes 0 for a dynamic gap


class DynamicEventTimeSessionWindows(_DynamicGap):
    """Sessions in event time with a gap that depends on the record."""

    _event_time = True

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        """Create an assigner."""
        super().__init__(session_window_time_gap_extractor)

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicEventTimeSessionWindows:
        """Create an assigner."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicGap):
    """Sessions in processing time with a gap that depends on the record."""

    _event_time = False

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        """Create an assigner."""
        super().__init__(session_window_time_gap_extractor)

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicProcessingTimeSessionWindows:
        """Create an assigner."""
        return DynamicProcessingTimeSessionWindows(extractor)


class EventTimeSessionWindows(_FixedGap):
    """Sessions in event time with a fixed gap."""

    _event_time = True

    def __init__(self, session_gap: int) -> None:
        """Create an assigner; the gap is in ms."""
        super().__init__(session_gap)

    @staticmethod
    def with_gap(size: Duration | Time) -> EventTimeSessionWindows:
        """Create an assigner."""
        return EventTimeSessionWindows(millis(size, "gap"))

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicEventTimeSessionWindows:
        """Create an assigner whose gap depends on the record."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedGap):
    """Sessions in processing time with a fixed gap."""

    _event_time = False

    def __init__(self, session_gap: int) -> None:
        """Create an assigner; the gap is in ms."""
        super().__init__(session_gap)

    @staticmethod
    def with_gap(size: Duration | Time) -> ProcessingTimeSessionWindows:
        """Create an assigner."""
        return ProcessingTimeSessionWindows(millis(size, "gap"))

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicProcessingTimeSessionWindows:
        """Create an assigner whose gap depends on the record."""
        return DynamicProcessingTimeSessionWindows(extractor)
