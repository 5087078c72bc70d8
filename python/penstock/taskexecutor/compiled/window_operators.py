# cython: annotation_typing=False, boundscheck=True
# The C types come from window_operators.pxd; the annotations below are for readers and mypy.
"""Tumbling, sliding and session windows that need no timers.

One source with two uses; see ``operator_loop``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Relative: when compiled, these are the classes that the .pxd cimports.
from .operator_loop import MAX_TIMESTAMP, MIN_TIMESTAMP, StreamOperator  # noqa: TID252
from .session_heap import Session, SessionHeap  # noqa: TC001, TID252
from .timer_queue import TimerHeap  # noqa: TC001, TID252

if TYPE_CHECKING:
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.table import CopyOnWriteStateMap


#: Ways in which a window without timers stores its records.
KEEP_LIST = 0
KEEP_FOLD = 1
KEEP_ACCUMULATOR = 2


class WindowLoop(StreamOperator):
    """Stores records in windows of event time.

    The contents of a window are one namespace of a state: key to list, fold or accumulator.
    """

    def __init__(self, keys: KeyReader, keep: int, function: Any, create_accumulator: Any) -> None:
        """Create the loop.

        Args:
            keys: Reads the keys of records.
            keep: ``KEEP_LIST``, ``KEEP_FOLD`` or ``KEEP_ACCUMULATOR``.
            function: ``function(fold, element)`` or ``function(element, accumulator)``.
            create_accumulator: Returns the accumulator of a new key.
        """
        StreamOperator.__init__(self)
        self.keys = keys
        self.keep = keep
        self.function = function
        self.create_accumulator = create_accumulator

    def take_late(self, value: object, timestamp: int) -> None:
        """Process a record whose window has ended."""
        raise NotImplementedError(type(self).__name__ + ".take_late")

    def keep_element(self, contents: CopyOnWriteStateMap, key: object, value: object) -> bool:
        """Add a record to the contents of a window; return True if it is the first of its key."""
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
        return position < 0


class TimerlessWindowLoop(WindowLoop):
    """Assigns records to tumbling or sliding windows.

    No timers are needed: when event time passes the end of a window, all its keys are evaluated, in
    the order in which their timers would fire.

    Attributes:
        order: The keys of all windows by their starts; None if a store holds the contents, and they
            are evaluated in its order.
        copier: Copies a record for each of its windows; None if no copy is needed.
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
        """Create the loop.

        Args:
            size: Size of the windows in ms.
            slide: Distance between the starts of windows in ms, at most ``size``, which it equals
                if they tumble.
            offset: Shift of the windows in ms.
            keys: Reads the keys of records.
            keep: How records are stored; see ``WindowLoop``.
            function: Adds a record.
            create_accumulator: Returns the accumulator of a new key.
        """
        WindowLoop.__init__(self, keys, keep, function, create_accumulator)
        self.size = size
        self.slide = slide
        self.offset = offset % slide
        self.last_start = 0
        self.last_contents: CopyOnWriteStateMap | None = None
        self.last_count = 0
        #: Starts and contents of the sliding windows used last.
        self.last_windows: list[tuple[int, CopyOnWriteStateMap]] | None = None
        self.copier: Any = None
        self.order: TimerHeap | None = None

    def contents_of(self, start: int, timestamp: int) -> CopyOnWriteStateMap | None:
        """Return the contents of the window that starts at ``start``; None if it has ended."""
        raise NotImplementedError(type(self).__name__ + ".contents_of")

    def windows_of(
        self, start: int, count: int, timestamp: int
    ) -> list[tuple[int, CopyOnWriteStateMap]]:
        """Return starts and contents of windows that have not ended, the latest first."""
        raise NotImplementedError(type(self).__name__ + ".windows_of")

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
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
            contents: CopyOnWriteStateMap | None = self.last_contents
            if contents is None or start != self.last_start:
                contents = self.contents_of(start, timestamp)
                if contents is None:
                    self.take_late(value, timestamp)
                    done = True
                    return
                self.last_start = start
                self.last_contents = contents
            key = self.keys.read(value)
            if self.keep_element(contents, key, value) and self.order is not None:
                self.order.push(start, contents, key)
            done = True
        finally:
            if not done:
                self.note_failure()

    def slide_into(self, value: object, start: int, remainder: int, timestamp: int) -> None:
        """Add a record to all windows with its time, the last of which starts at ``start``."""
        count = (self.size - remainder + self.slide - 1) // self.slide
        windows: list[tuple[int, CopyOnWriteStateMap]] | None = self.last_windows
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
            if self.keep_element(contents, key, kept) and self.order is not None:
                self.order.push(first, contents, key)


class SessionWindowLoop(WindowLoop):
    """Assigns records to session windows.

    No timers are needed: a heap holds the ends of sessions, and the times at which they stop
    accepting late records, in the order in which their timers would fire.

    Attributes:
        lateness: Time beyond its end in which a session accepts late records, in ms, each of which
            fires it; set by the subclass.
        timers: Provides the current event time; set by the subclass.
    """

    def __init__(
        self,
        gap: int,
        gap_of: Any,
        sessions: CopyOnWriteStateMap,
        heap: SessionHeap,
        keys: KeyReader,
        keep: int,
        function: Any,
        create_accumulator: Any,
    ) -> None:
        """Create the loop.

        Args:
            gap: Time for which a session lasts beyond a record, in ms; the shortest one if records
                have their own gaps.
            gap_of: ``gap_of(element)`` returns the record's own gap; None if all are equal.
            sessions: The open sessions of each key, a list in the order of their starts.
            heap: All open sessions.
            keys: Reads the keys of records.
            keep: How records are stored; see ``WindowLoop``.
            function: Adds a record.
            create_accumulator: Returns the accumulator of a new key.
        """
        WindowLoop.__init__(self, keys, keep, function, create_accumulator)
        self.gap = gap
        self.gap_of = gap_of
        self.sessions = sessions
        self.heap = heap
        self.timers: Any = None
        self.lateness = 0
        #: The first possible start of a session, after the value for no time, and the last end.
        self.first_start = MIN_TIMESTAMP + 1
        self.last_end = MAX_TIMESTAMP
        self.last_contents: CopyOnWriteStateMap | None = None
        self.contents_start = 0
        self.contents_end = 0

    def contents_of(self, start: int) -> CopyOnWriteStateMap:
        """Return the contents of sessions that begin with a record of a time.

        They are cached in ``last_contents``, with the range of times for which they are the same.
        """
        raise NotImplementedError(type(self).__name__ + ".contents_of")

    def merge(self, opened: list[Session], last: int, start: int, end: int) -> Session:
        """Merge sessions of a key and a window that touches them; return the result.

        Args:
            opened: All open sessions, in which the merged ones are replaced.
            last: Index of the last touched session.
            start: Start of the window, in ms.
            end: End of the window, in ms.
        """
        raise NotImplementedError(type(self).__name__ + ".merge")

    def fire_late(self, session: Session, timestamp: int) -> None:
        """Evaluate a session that has fired before, for a record of a time."""
        raise NotImplementedError(type(self).__name__ + ".fire_late")

    def refuse(self, timestamp: int, gap: int) -> None:
        """Raise the error of a time that has no window."""
        raise NotImplementedError(type(self).__name__ + ".refuse")

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        done = False
        try:
            gap = self.gap if self.gap_of is None else self.gap_of(value)
            if timestamp < self.first_start or timestamp > self.last_end - gap:
                self.refuse(timestamp, gap)
            key = self.keys.read(value)
            session: Session | None = self.session_of(key, timestamp, timestamp + gap)
            if session is not None:
                self.keep_element(session.contents, key, value)
                if session.has_fired:
                    self.fire_late(session, timestamp)
                if self.lateness > 0 and session.expiry is None:
                    self.expire(session)
            elif timestamp <= MAX_TIMESTAMP - self.lateness:
                self.take_late(value, timestamp)
            done = True
        finally:
            if not done:
                self.note_failure()

    def session_of(self, key: object, start: int, end: int) -> Session | None:
        """Return the session of a key that a window now belongs to; None if it has ended."""
        if self.lateness > 0 and self.timers.current_watermark == MAX_TIMESTAMP:
            return None  # lateness would otherwise exceed the range of time
        position = self.sessions.find(key)
        if position < 0:
            session: Session | None = self.begun(key, start, end)
            if session is not None:
                self.sessions.put(key, [session])
            return session
        opened = self.sessions.at(position)
        last = len(opened) - 1
        touched: Session = opened[last]
        # Usually the latest session grows.
        while touched.start > end:
            last -= 1
            if last < 0:
                break
            touched = opened[last]
        if last < 0 or touched.end < start:
            session = self.begun(key, start, end)
            if session is not None:
                opened.insert(last + 1, session)
            return session
        if last > 0:
            before: Session = opened[last - 1]
            if before.end >= start:
                return self.merge(opened, last, start, end)
        if touched.start <= start and end <= touched.end:
            return touched
        # Like timers: the timer of the resulting window is registered first.
        session = self.opened_session(
            key, min(start, touched.start), max(end, touched.end), touched.contents
        )
        self.heap.close(touched)
        opened[last] = session
        return session

    def begun(self, key: object, start: int, end: int) -> Session | None:
        """Return a new session; None if it would be past its end and lateness already."""
        watermark = self.timers.current_watermark
        if watermark >= MIN_TIMESTAMP + self.lateness and end - 1 <= watermark - self.lateness:
            return None
        contents: CopyOnWriteStateMap | None = self.last_contents
        if contents is None or start < self.contents_start or start >= self.contents_end:
            contents = self.contents_of(start)
        return self.opened_session(key, start, end, contents)

    def opened_session(
        self, key: object, start: int, end: int, contents: CopyOnWriteStateMap
    ) -> Session:
        """Return a session that fires at its end, or has fired if that has passed."""
        if end - 1 > self.timers.current_watermark:
            return self.heap.open(key, start, end, contents)
        return self.heap.open_late(key, start, end, contents)

    def expire(self, session: Session) -> None:
        """Schedule the removal of a session when it accepts no more late records."""
        if session.end - 1 < MAX_TIMESTAMP - self.lateness:
            self.heap.expire(session, session.end - 1 + self.lateness)

    def ended(self, limit: int) -> Session | None:
        """Remove the first session that fires or expires at a time up to ``limit``.

        A session that stays open for late records is marked as fired; any other is removed from the
        open sessions, but keeps its contents.
        """
        session: Session | None = self.heap.take(limit)
        if session is None:
            return None
        opened = self.sessions.get(session.key)
        last = len(opened) - 1
        other: Session = opened[last]
        while other is not session and other.expiry is not session:
            last -= 1
            other = opened[last]
        if self.lateness > 0 and other is session:
            session.has_fired = True
            return session
        if len(opened) == 1:
            self.sessions.remove(session.key)
        else:
            del opened[last]
        return session
