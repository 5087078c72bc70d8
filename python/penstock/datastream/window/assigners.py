# ruff: noqa: ARG002 - an assigner rarely needs all of its arguments
"""Window assigners, which determine the windows of a record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.common.constants import MIN_LONG_VALUE
from penstock.common.time import Duration, Time
from penstock.common.timestamps import timestamp_of
from penstock.common.typeinfo import Types
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window.stagger import WindowStagger
from penstock.datastream.window.triggers import (
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from penstock.datastream.window.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
)
from penstock.errors import InvalidProgramError, PenstockError, WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.common.serializer import TypeSerializer
    from penstock.datastream.functions.runtime_context import RuntimeContext

T = TypeVar("T")
W = TypeVar("W", bound=Window)
MW = TypeVar("MW", bound=Window)


class MissingTimestampError(PenstockError, RuntimeError):
    """Raised when an event-time window receives a record without a timestamp."""


class WindowAssigner(ABC, Generic[T, W]):
    """The base of assigners, which assign records to windows."""

    class WindowAssignerContext(ABC):
        """The context of an assigner."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the time of the machine's clock, in ms."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Return the context of the subtask; its state is that of the current key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """Return the windows of a record."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """Return the trigger of windows that set none."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Return the serializer of the windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether the windows follow event time."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may merge."""

    class MergeCallback(ABC, Generic[MW]):
        """A callback for groups of windows that merge."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[MW], merge_result: MW) -> None:
            """Handle windows that merge into `merge_result`."""

    @abstractmethod
    def merge_windows(
        self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]
    ) -> None:
        """Call the callback with each group of windows that merge."""


class _TimeWindowAssigner(WindowAssigner[Any, TimeWindow]):
    """The base of the assigners of fixed time windows; subclasses set `_event_time`."""

    _event_time: bool

    def _time(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int:
        if self._event_time:
            return event_timestamp(timestamp)
        return context.get_current_processing_time()

    def get_default_trigger(self, env: Any) -> Trigger[Any, Any]:
        """Return a trigger that fires at the end of the window."""
        return EventTimeTrigger() if self._event_time else ProcessingTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        """Return the serializer of start and end."""
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        """Return whether the windows follow event time."""
        return self._event_time


class _TumblingWindows(_TimeWindowAssigner):
    def __init__(
        self, size: int, offset: int, stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> None:
        if size <= 0 or abs(offset) >= size:
            raise InvalidProgramError(
                f"{type(self).__name__} needs size > 0 and |offset| < size, "
                f"got size {size} ms and offset {offset} ms"
            )
        self._size = size
        self._offset = offset
        self._stagger = stagger
        self._stagger_ms: int | None = None

    def assign_windows(
        self,
        element: Any,
        timestamp: int,
        context: WindowAssigner.WindowAssignerContext,
    ) -> Collection[TimeWindow]:
        """Return the window that contains the time."""
        time = self._time(timestamp, context)
        if self._stagger_ms is None:
            now_ms = context.get_current_processing_time()
            self._stagger_ms = self._stagger.offset_ms(now_ms, self._size)
        offset = (self._offset + self._stagger_ms) % self._size
        start = TimeWindow.get_window_start_with_offset(time, offset, self._size)
        return [TimeWindow(start, start + self._size)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._offset})"


class TumblingEventTimeWindows(_TumblingWindows):
    """Consecutive windows of one size in event time."""

    _event_time = True

    def __init__(
        self, size: int, offset: int, stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> None:
        """Create an assigner; size and offset in ms."""
        super().__init__(size, offset, stagger)

    @staticmethod
    def of(
        size: Duration | Time, offset: Duration | Time | None = None
    ) -> TumblingEventTimeWindows:
        """Create an assigner."""
        return TumblingEventTimeWindows(millis(size, "size"), millis_or_zero(offset))

    @staticmethod
    def staggered(
        size: Duration | Time, stagger: WindowStagger, offset: Duration | Time | None = None
    ) -> TumblingEventTimeWindows:
        """Create an assigner whose windows end at different times per subtask (beyond PyFlink)."""
        return TumblingEventTimeWindows(millis(size, "size"), millis_or_zero(offset), stagger)


class TumblingProcessingTimeWindows(_TumblingWindows):
    """Consecutive windows of one size in processing time."""

    _event_time = False

    def __init__(
        self, size: int, offset: int, stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> None:
        """Create an assigner; size and offset in ms."""
        super().__init__(size, offset, stagger)

    @staticmethod
    def of(
        size: Duration | Time, offset: Duration | Time | None = None
    ) -> TumblingProcessingTimeWindows:
        """Create an assigner."""
        return TumblingProcessingTimeWindows(millis(size, "size"), millis_or_zero(offset))

    @staticmethod
    def staggered(
        size: Duration | Time, stagger: WindowStagger, offset: Duration | Time | None = None
    ) -> TumblingProcessingTimeWindows:
        """Create an assigner whose windows end at different times per subtask (beyond PyFlink)."""
        return TumblingProcessingTimeWindows(millis(size, "size"), millis_or_zero(offset), stagger)


class _SlidingWindows(_TimeWindowAssigner):
    def __init__(self, size: int, slide: int, offset: int) -> None:
        if size <= 0 or abs(offset) >= slide:
            raise InvalidProgramError(
                f"{type(self).__name__} needs size > 0 and |offset| < slide, got size {size} ms, "
                f"slide {slide} ms and offset {offset} ms"
            )
        self._size = size
        self._slide = slide
        self._offset = offset
        #: The windows of all times from the first up to the second.  Records mostly have nearly the
        #: same time, and a lookup of a window's state is faster if the window is the same object.
        self._assigned: tuple[int, int, tuple[TimeWindow, ...]] = (0, 0, ())

    def assign_windows(
        self,
        element: Any,
        timestamp: int,
        context: WindowAssigner.WindowAssignerContext,
    ) -> Collection[TimeWindow]:
        """Return all windows that contain the time, the latest first."""
        time = self._time(timestamp, context)
        first, end, windows = self._assigned
        if not first <= time < end:
            start = TimeWindow.get_window_start_with_offset(time, self._offset, self._slide)
            starts = range(start, time - self._size, -self._slide)
            windows = tuple(TimeWindow(start, start + self._size) for start in starts)
            # The end of the latest window that ends before these times.
            edge = start + self._size - len(windows) * self._slide
            self._assigned = (max(start, edge), min(start, edge) + self._slide, windows)
        return list(windows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._slide}, {self._offset})"


class SlidingEventTimeWindows(_SlidingWindows):
    """Windows in event time that start at a fixed distance and may overlap."""

    _event_time = True

    def __init__(self, size: int, slide: int, offset: int) -> None:
        """Create an assigner; all in ms."""
        super().__init__(size, slide, offset)

    @staticmethod
    def of(
        size: Duration | Time, slide: Duration | Time, offset: Duration | Time | None = None
    ) -> SlidingEventTimeWindows:
        """Create an assigner."""
        return SlidingEventTimeWindows(
            millis(size, "size"), millis(slide, "slide"), millis_or_zero(offset)
        )


class SlidingProcessingTimeWindows(_SlidingWindows):
    """Windows in processing time that start at a fixed distance and may overlap."""

    _event_time = False

    def __init__(self, size: int, slide: int, offset: int) -> None:
        """Create an assigner; all in ms."""
        super().__init__(size, slide, offset)

    @staticmethod
    def of(
        size: Duration | Time, slide: Duration | Time, offset: Duration | Time | None = None
    ) -> SlidingProcessingTimeWindows:
        """Create an assigner."""
        return SlidingProcessingTimeWindows(
            millis(size, "size"), millis(slide, "slide"), millis_or_zero(offset)
        )


class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """One window of all records, which never fires without a trigger."""

    def __init__(self, trigger: Trigger[Any, Any] | None = None) -> None:
        """Create an assigner; the trigger is the default of windows that set none."""
        self._trigger = NeverTrigger() if trigger is None else trigger

    @staticmethod
    def create() -> GlobalWindows:
        """Create an assigner."""
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows:
        """Create an assigner whose window is evaluated when the input ends (beyond PyFlink)."""
        return GlobalWindows(EndOfStreamTrigger())

    def assign_windows(
        self,
        element: Any,
        timestamp: int,
        context: WindowAssigner.WindowAssignerContext,
    ) -> Collection[GlobalWindow]:
        """Return the only window."""
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any) -> Trigger[Any, Any]:
        """Return the default trigger, which never fires or fires at the end of the input."""
        return self._trigger

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        """Return the serializer, which writes one byte."""
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False."""
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


#: The number of earlier records of the key.
_NUMBER: Final = ValueStateDescriptor("count-assigner", Types.LONG())


class _CountWindowAssigner(WindowAssigner[Any, CountWindow]):
    """The base of count windows, which number the records of each key in keyed state."""

    _window_size: int

    def _next_number(self, context: WindowAssigner.WindowAssignerContext) -> int:
        state = context.get_runtime_context().get_state(_NUMBER)
        number: int = state.value() or 0
        state.update(number + 1)
        return number

    def get_default_trigger(self, env: Any) -> Trigger[Any, Any]:
        """Return a trigger that fires when the window is full, and purges it: no record follows."""
        return PurgingTrigger(CountTrigger(self._window_size))

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        """Return the serializer of the id."""
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


class CountTumblingWindowAssigner(_CountWindowAssigner):
    """Consecutive windows of a number of records."""

    def __init__(self, window_size: int) -> None:
        """Create an assigner.

        Raises:
            InvalidProgramError: The size is not positive.
        """
        self._window_size = positive(window_size, "window_size")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Create an assigner."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self,
        element: Any,
        timestamp: int,
        context: WindowAssigner.WindowAssignerContext,
    ) -> Collection[CountWindow]:
        """Return the current window."""
        return [CountWindow(self._next_number(context) // self._window_size)]

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(_CountWindowAssigner):
    """Windows of a number of records that start at a fixed distance."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        """Create an assigner; a new window starts every `window_slide` records.

        Raises:
            InvalidProgramError: Size or slide is not positive.
        """
        self._window_size = positive(window_size, "window_size")
        self._window_slide = positive(window_slide, "window_slide")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Create an assigner."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self,
        element: Any,
        timestamp: int,
        context: WindowAssigner.WindowAssignerContext,
    ) -> Collection[CountWindow]:
        """Return all open windows, the latest first."""
        number = self._next_number(context)
        last = number // self._window_slide
        first = max(0, (number - self._window_size) // self._window_slide + 1)
        return [CountWindow(i) for i in range(last, first - 1, -1)]

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"


def event_timestamp(timestamp: int) -> int:
    """Check that a record has a timestamp, and return it.

    Raises:
        MissingTimestampError: It has none.
    """
    if timestamp == MIN_LONG_VALUE:
        raise MissingTimestampError(
            "an event-time window got a record without a timestamp: call "
            "assign_timestamps_and_watermarks(…) with a timestamp assigner before the window, "
            "or use processing-time windows"
        )
    return timestamp


def millis(time: Duration | Time, what: str) -> int:
    """Return the milliseconds of an argument that must be a Time or a Duration.

    Raises:
        InvalidProgramError: It is neither, or has more than 64 bits.
    """
    given: Any = time
    if not isinstance(given, Time | Duration):
        raise WrongArgumentError(
            f"{what} must be a Time or a Duration of penstock.common, got {given!r}"
        )
    return whole_millis(time.to_milliseconds(), what)


def whole_millis(time_ms: int, what: str) -> int:
    """Return the whole milliseconds of an argument; a fraction is cut off.

    Raises:
        InvalidProgramError: It is not a number, or has more than 64 bits.
    """
    try:
        return timestamp_of(time_ms, what)
    except (TypeError, OverflowError) as error:
        raise WrongArgumentError(str(error)) from None


def millis_or_zero(offset: Duration | Time | None) -> int:
    """Return the milliseconds of an offset, or 0 for None."""
    return 0 if offset is None else millis(offset, "offset")


def positive(number: int, what: str) -> int:
    """Check that an argument is positive, and return it.

    Raises:
        InvalidProgramError: It is not, or it is not a whole number.
    """
    if type(number) is not int:
        raise WrongArgumentError(f"{what} must be a whole number, got {number!r}")
    if number <= 0:
        raise InvalidProgramError(f"{what} must be positive, got {number}")
    return number
