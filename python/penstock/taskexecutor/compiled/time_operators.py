# cython: annotation_typing=False, boundscheck=True
# The C types come from time_operators.pxd; the annotations below are for readers and mypy.
"""Timestamps, and the tumbling and sliding windows that need no timers.

One source, two uses, as ``operator_loop``, which says how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.timestamps import timestamp_of

# Relative: compiled, these are the classes that the .pxd cimports.
from .operator_loop import MIN_TIMESTAMP, StreamOperator  # noqa: TID252
from .timer_queue import TimerHeap  # noqa: TC001, TID252

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._native.stamped_records import StampedRecords
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.table import StateMap


class TimestampsOperator(StreamOperator):
    """Timestamps elements; what to do with watermarks is the subclass's affair.

    Attributes:
        extract: ``extract(element, timestamp)`` gives the new timestamp; None keeps it.
        expression: What computes the new timestamp, instead of ``extract``; None if it is called.
        stamped: Writes elements that are computed, timestamped, into the exchange behind; None if
            they are made.
        on_event: Told of each element, unless ``tracks_maximum``: then only ``max_timestamp`` is
            kept, which is all that the built-in generators need.
        had_events: Set by every element.
    """

    def __init__(self) -> None:
        StreamOperator.__init__(self)
        self.extract: Any = None
        self.expression: Any = None
        self.stamped: StampedRecords | None = None
        self.on_event: Any = None
        self.emitter: Any = None
        self.tracks_maximum = False
        self.max_timestamp = MIN_TIMESTAMP
        self.had_events = False
        self.idle = False

    def mark_active(self) -> None:
        """An element came after the operator had declared itself idle."""
        raise NotImplementedError(type(self).__name__ + ".mark_active")

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        done = False
        try:
            if self.expression is not None:
                timestamp = self.expression.number_of(value, timestamp)
            elif self.extract is not None:
                timestamp = timestamp_of(self.extract(value, timestamp), self.extract)
            # The generator comes after the element: a watermark it emits at once covers it.
            self.output.collect(value, timestamp)
            self.had_events = True
            if self.idle:
                self.mark_active()
            if not self.tracks_maximum:
                self.on_event(value, timestamp, self.emitter)
            elif timestamp > self.max_timestamp:
                self.max_timestamp = timestamp
            done = True
        finally:
            if not done:
                self.note_failure()

    def process_all(self, values: Iterable[Any], timestamp: int) -> None:
        """Takes elements of one timestamp, each of them before it asks for the next."""
        stamped = self.stamped
        if stamped is None or self.idle:
            StreamOperator.process_all(self, values, timestamp)
            return
        for value in stamped.rest_of(values, timestamp):
            self.process(value, timestamp)
        if stamped.count > 0:
            self.had_events = True
            self.max_timestamp = max(self.max_timestamp, stamped.latest)


#: How a window without timers keeps its elements.
KEEP_LIST = 0
KEEP_FOLD = 1
KEEP_ACCUMULATOR = 2


class TimerlessWindowLoop(StreamOperator):
    """Puts elements into tumbling or sliding windows of event time that take no late elements.

    The contents of a window are one namespace of a state: key to list, fold or accumulator.
    No timers are needed: when event time passes the end of a window, all its keys are evaluated,
    in the order in which their timers would fire.

    Attributes:
        order: The keys of all windows by their starts; None where a store has the contents, and
            they are evaluated in its order.
        copier: Copies an element for each of the windows that it is in; None if none is needed.
    """

    def __init__(
        self,
        size: int,
        slide: int,
        offset: int,
        keys: KeyReader,
        keep: int,
        function: Any,
        create_accumulator: Any,
    ) -> None:
        """Keeps the parameters.

        Args:
            size: Size of the windows in ms.
            slide: From the start of one to that of the next in ms, at most ``size``; that if they
                tumble.
            offset: How far they are shifted in ms.
            keys: Gives the keys of elements.
            keep: ``KEEP_LIST``, ``KEEP_FOLD`` or ``KEEP_ACCUMULATOR``.
            function: ``function(fold, element)`` or ``function(element, accumulator)``.
            create_accumulator: Gives the accumulator of a new key.
        """
        StreamOperator.__init__(self)
        self.size = size
        self.slide = slide
        self.offset = offset % slide
        self.keys = keys
        self.keep = keep
        self.function = function
        self.create_accumulator = create_accumulator
        self.last_start = 0
        self.last_contents: StateMap | None = None
        self.last_count = 0
        #: Of sliding windows, the starts and contents of those that were filled last.
        self.last_windows: list[tuple[int, StateMap]] | None = None
        self.copier: Any = None
        self.order: TimerHeap | None = None

    def contents_of(self, start: int, timestamp: int) -> StateMap | None:
        """The contents of the window that starts at ``start``; None when it has ended."""
        raise NotImplementedError(type(self).__name__ + ".contents_of")

    def windows_of(self, start: int, count: int, timestamp: int) -> list[tuple[int, StateMap]]:
        """Starts and contents of windows that have not ended, the latest first."""
        raise NotImplementedError(type(self).__name__ + ".windows_of")

    def take_late(self, value: Any, timestamp: int) -> None:
        """Takes an element whose window has ended."""
        raise NotImplementedError(type(self).__name__ + ".take_late")

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        done = False
        try:
            # The offset is subtracted last, where nothing overflows.  C's remainder has the sign of
            # the dividend, Python's is never negative.
            remainder = timestamp % self.slide - self.offset
            if remainder < 0:
                remainder += self.slide
                if remainder < 0:
                    remainder += self.slide
            start = timestamp - remainder
            if self.slide != self.size:
                self.slide_into(value, start, remainder, timestamp)
                done = True
                return
            contents: StateMap | None = self.last_contents
            if contents is None or start != self.last_start:
                contents = self.contents_of(start, timestamp)
                if contents is None:
                    self.take_late(value, timestamp)
                    done = True
                    return
                self.last_start = start
                self.last_contents = contents
            self.keep_element(contents, start, self.keys.read(value), value)
            done = True
        finally:
            if not done:
                self.note_failure()

    def slide_into(self, value: Any, start: int, remainder: int, timestamp: int) -> None:
        """Puts an element into all windows that hold its time, of which ``start`` is the last."""
        count = (self.size - remainder + self.slide - 1) // self.slide
        windows: list[tuple[int, StateMap]] | None = self.last_windows
        if windows is None or start != self.last_start or count != self.last_count:
            windows = self.windows_of(start, count, timestamp)
            self.last_start = start
            self.last_count = count
            self.last_windows = windows
        if not windows:
            self.take_late(value, timestamp)
            return
        key = self.keys.read(value)
        for first, contents in windows:
            kept = value if self.copier is None else self.copier.copied(value)
            self.keep_element(contents, first, key, kept)

    def keep_element(self, contents: StateMap, start: int, key: Any, value: Any) -> None:
        """Adds an element to the contents of a window."""
        position = contents.find(key)
        kept = contents.at(position) if position >= 0 else None
        if self.keep == 0:
            if kept is None:
                contents.put(key, [value])
            else:
                kept.append(value)
        elif self.keep == 1:
            if kept is not None:
                value = self.function(kept, value)
            contents.put_at(position, key, value)
        else:
            if kept is None:
                kept = self.create_accumulator()
            contents.put_at(position, key, self.function(value, kept))
        if position < 0 and self.order is not None:
            self.order.push(start, contents, key)
