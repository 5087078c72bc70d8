# cython: annotation_typing=False, boundscheck=True
# The C types come from window_operators.pxd; the annotations below are for readers and mypy.
"""The tumbling, sliding and session windows that need no timers.

One source, two uses, as ``operator_loop``, which says how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Relative: compiled, these are the classes that the .pxd cimports.
from .operator_loop import MAX_TIMESTAMP, MIN_TIMESTAMP, StreamOperator  # noqa: TID252
from .session_heap import Session, SessionHeap  # noqa: TC001, TID252
from .timer_queue import TimerHeap  # noqa: TC001, TID252

if TYPE_CHECKING:
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.table import StateMap


#: How a window without timers keeps its records.
KEEP_LIST = 0
KEEP_FOLD = 1
KEEP_ACCUMULATOR = 2


class WindowLoop(StreamOperator):
    """Keeps records in windows of event time that take no late ones.

    The contents of a window are one namespace of a state: key to list, fold or accumulator.
    """

    def __init__(self, keys: KeyReader, keep: int, function: Any, create_accumulator: Any) -> None:
        """Keeps the parameters.

        Args:
            keys: Gives the keys of records.
            keep: ``KEEP_LIST``, ``KEEP_FOLD`` or ``KEEP_ACCUMULATOR``.
            function: ``function(fold, element)`` or ``function(element, accumulator)``.
            create_accumulator: Gives the accumulator of a new key.
        """
        StreamOperator.__init__(self)
        self.keys = keys
        self.keep = keep
        self.function = function
        self.create_accumulator = create_accumulator

    def take_late(self, value: Any, timestamp: int) -> None:
        """Takes a record whose window has ended."""
        raise NotImplementedError(type(self).__name__ + ".take_late")

    def keep_element(self, contents: StateMap, key: Any, value: Any) -> bool:
        """Adds a record to the contents of a window; True when it is the first of its key."""
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
    """Puts records into tumbling or sliding windows.

    No timers are needed: when event time passes the end of a window, all its keys are evaluated,
    in the order in which their timers would fire.

    Attributes:
        order: The keys of all windows by their starts; None where a store has the contents, and
            they are evaluated in its order.
        copier: Copies a record for each of the windows that it is in; None if none is needed.
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
            keys: As of ``WindowLoop``, as the next.
            keep: How records are kept.
            function: Adds a record.
            create_accumulator: Gives the accumulator of a new key.
        """
        WindowLoop.__init__(self, keys, keep, function, create_accumulator)
        self.size = size
        self.slide = slide
        self.offset = offset % slide
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

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
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
            key = self.keys.read(value)
            if self.keep_element(contents, key, value) and self.order is not None:
                self.order.push(start, contents, key)
            done = True
        finally:
            if not done:
                self.note_failure()

    def slide_into(self, value: Any, start: int, remainder: int, timestamp: int) -> None:
        """Puts a record into all windows that hold its time, of which ``start`` is the last."""
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
            if self.keep_element(contents, key, kept) and self.order is not None:
                self.order.push(first, contents, key)


class SessionWindowLoop(WindowLoop):
    """Puts records into session windows.

    No timers are needed: the sessions wait for their ends in a heap, and for the time when they
    take no more late records, in the order in which their timers would fire.

    Attributes:
        lateness: For how long beyond its end a session takes late records, in ms, each of which
            fires it; set by the subclass.
        timers: Knows how far event time is; set by the subclass.
    """

    def __init__(
        self,
        gap: int,
        gap_of: Any,
        sessions: StateMap,
        heap: SessionHeap,
        keys: KeyReader,
        keep: int,
        function: Any,
        create_accumulator: Any,
    ) -> None:
        """Keeps the parameters.

        Args:
            gap: How long a session lasts beyond a record, in ms; the shortest time for it if
                records have gaps of their own.
            gap_of: ``gap_of(element)`` gives the record's own gap; None if all have one.
            sessions: Of each key those that are open, a list in the order of their starts.
            heap: All of them.
            keys: As of ``WindowLoop``, as the next.
            keep: How records are kept.
            function: Adds a record.
            create_accumulator: Gives the accumulator of a new key.
        """
        WindowLoop.__init__(self, keys, keep, function, create_accumulator)
        self.gap = gap
        self.gap_of = gap_of
        self.sessions = sessions
        self.heap = heap
        self.timers: Any = None
        self.lateness = 0
        #: When the first session may begin, behind what stands for no time, and the last one end.
        self.first_start = MIN_TIMESTAMP + 1
        self.last_end = MAX_TIMESTAMP
        self.last_contents: StateMap | None = None
        self.contents_start = 0
        self.contents_end = 0

    def contents_of(self, start: int) -> StateMap:
        """The contents of sessions that begin with a record of a time.

        It is kept as ``last_contents``, as are the times for which it is the same.
        """
        raise NotImplementedError(type(self).__name__ + ".contents_of")

    def merge(self, opened: list[Session], last: int, start: int, end: int) -> Session:
        """Merges sessions of a key and a window that touches them; gives what they become.

        Args:
            opened: All that are open, in which the merged ones are replaced.
            last: The index of the last one that is touched.
            start: Of the window, in ms.
            end: Of the window, in ms.
        """
        raise NotImplementedError(type(self).__name__ + ".merge")

    def fire_late(self, session: Session, timestamp: int) -> None:
        """Evaluates a session that has fired before, for a record of a time."""
        raise NotImplementedError(type(self).__name__ + ".fire_late")

    def refuse(self, timestamp: int, gap: int) -> None:
        """Raises what is wrong with a time that has no window."""
        raise NotImplementedError(type(self).__name__ + ".refuse")

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
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

    def session_of(self, key: Any, start: int, end: int) -> Session | None:
        """The session of a key that a window is a part of now; None if it has ended."""
        if self.lateness > 0 and self.timers.current_watermark == MAX_TIMESTAMP:
            return None  # also what would be taken for longer than there is time
        position = self.sessions.find(key)
        if position < 0:
            session: Session | None = self.begun(key, start, end)
            if session is not None:
                self.sessions.put(key, [session])
            return session
        opened = self.sessions.at(position)
        last = len(opened) - 1
        touched: Session = opened[last]
        # Mostly it is the latest one that grows.
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
        # As timers are: that of the window that it becomes is registered first.
        session = self.opened_session(
            key, min(start, touched.start), max(end, touched.end), touched.contents
        )
        self.heap.close(touched)
        opened[last] = session
        return session

    def begun(self, key: Any, start: int, end: int) -> Session | None:
        """A new session, unless it has ended, and takes no late records, before it begins."""
        watermark = self.timers.current_watermark
        if watermark >= MIN_TIMESTAMP + self.lateness and end - 1 <= watermark - self.lateness:
            return None
        contents: StateMap | None = self.last_contents
        if contents is None or start < self.contents_start or start >= self.contents_end:
            contents = self.contents_of(start)
        return self.opened_session(key, start, end, contents)

    def opened_session(self, key: Any, start: int, end: int, contents: StateMap) -> Session:
        """A session that fires at its end, or has done so if that has passed."""
        if end - 1 > self.timers.current_watermark:
            return self.heap.open(key, start, end, contents)
        return self.heap.open_late(key, start, end, contents)

    def expire(self, session: Session) -> None:
        """Has a session taken away when it takes no late records any more, if that time comes."""
        if session.end - 1 < MAX_TIMESTAMP - self.lateness:
            self.heap.expire(session, session.end - 1 + self.lateness)

    def ended(self, limit: int) -> Session | None:
        """Takes the first session that fires or expires at a time up to ``limit``.

        One that stays open for late records has fired from now on; any other is not among those
        that are open any more, and its contents are left.
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
