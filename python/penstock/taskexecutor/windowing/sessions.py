"""Event-time sessions that fire at their end, and for each late record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    TimeWindow,
)
from penstock.datastream.window.assigners import event_timestamp
from penstock.network import key_of
from penstock.taskexecutor.compiled import (
    KEEP_LIST,
    MIN_TIMESTAMP,
    SessionHeap,
    SessionWindowLoop,
    emit_results,
)
from penstock.taskexecutor.windowing.merging_windows import MERGING_STATE, MergingWindowSet
from penstock.taskexecutor.windowing.timerless import (
    MAX_SIZE,
    TimerlessWindows,
    fires_at_end,
    keeping,
)
from penstock.taskexecutor.windowing.window_functions import stamps_window_end, window_key_reader

if TYPE_CHECKING:
    from penstock.datastream.functions.checkpointed import StateInitializationContext
    from penstock.datastream.window.windows import Window
    from penstock.graph import operators
    from penstock.taskexecutor.compiled import Session, StreamOperator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.state.table import CopyOnWriteStateMap


def create_session_operator(
    context: OperatorContext, descriptor: operators.Window
) -> StreamOperator | None:
    """Return the fast operator if it does what the general one would, else None."""
    assigner = descriptor.assigner
    if (
        not (_has_fixed_gap(assigner) or type(assigner) is DynamicEventTimeSessionWindows)
        or not fires_at_end(context, descriptor)
        or descriptor.lateness_ms > MAX_SIZE
        # Sessions are objects, which can only be kept in memory.
        or context.keyed_state.keeps_elements
    ):
        return None
    return SessionWindowOperator(context, descriptor)


def _has_fixed_gap(assigner: object) -> bool:
    """Return whether all records have the same gap, small enough for C integers."""
    return type(assigner) is EventTimeSessionWindows and assigner._session_gap <= MAX_SIZE


class SessionWindowOperator(TimerlessWindows, SessionWindowLoop):
    """Event-time sessions without evictor or custom trigger.

    In memory each key has a list of sessions; snapshots use the general operator's form: the open
    windows of each key, and their state windows, in a tuple if the window has fired.
    """

    is_merging = True

    def __init__(self, context: OperatorContext, descriptor: operators.Window) -> None:
        """Create the operator."""
        sessions = context.keyed_state.table(MERGING_STATE, "map")
        sessions.snapshot_filter = _merging_state
        is_fixed = _has_fixed_gap(descriptor.assigner)
        super().__init__(
            descriptor.assigner._session_gap if is_fixed else 1,
            None if is_fixed else descriptor.assigner._gap_ms,
            sessions.map(None),
            SessionHeap(sessions),
            window_key_reader(context),
            *keeping(context, descriptor),
        )
        self._prepare(context, descriptor)
        self.assigner = descriptor.assigner
        self.lateness = descriptor.lateness_ms
        self.stamps_window_end = stamps_window_end(context)
        contents: Any = context.keyed_state.state(descriptor.state_descriptor)
        if self.lateness:
            # Copy each time a session fires: it may do so more than once.
            contents = context.isolation.contents(contents, descriptor.state_descriptor)
        self.contents = contents
        self.clear: Any = getattr(self.functions[-1], "clear", None)

    @property
    def has_open_windows(self) -> bool:
        """Return whether a session waits for event time."""
        return len(self.heap) > 0

    def initialize_state(self, context: StateInitializationContext) -> None:  # noqa: ARG002
        """Restore the sessions."""
        # The general operator's timers: a window that has fired has none.
        timers = self.timers.take_event_timers()
        waiting = {(key, window) for time, key, window in timers if time == window.max_timestamp()}
        restored = [
            (window.end, window.start, state_window, key)
            for key, windows in self.sessions.items()
            for window, state_window in windows.items()
        ]
        for *_, key in restored:
            self.sessions.put(key, [])
        # By their times, like timers: for one key that is the order of the starts, too.
        for end, start, state_window, key in sorted(restored, key=lambda session: session[0]):
            has_fired = type(state_window) is tuple
            contents = self.table.map(state_window[0] if has_fired else state_window)
            if self.lateness and timers:
                has_fired = (key, TimeWindow(start, end)) not in waiting
            opened = self.sessions.get(key)
            if not has_fired:
                opened.append(self.heap.open(key, start, end, contents))
            elif self.lateness:
                opened.append(self.heap.open_late(key, start, end, contents))
            else:
                contents.remove(key)
                self._release(contents)
                continue
            if self.lateness:
                self.expire(opened[-1])
        for key in {key for *_, key in restored}:
            if not self.sessions.get(key):
                self.sessions.remove(key)

    def contents_of(self, start: int) -> CopyOnWriteStateMap:
        """Return the contents of sessions that begin with a record of a time.

        One namespace serves for the length of the shortest gap: two sessions of a key begin further
        apart.
        """
        first = start - start % self.gap
        self.contents_start, self.contents_end = max(first, MIN_TIMESTAMP), first + self.gap
        contents = self.table.map(TimeWindow(self.contents_start, self.contents_end))
        self.last_contents = contents
        return contents

    def refuse(self, timestamp: int, gap: int) -> None:
        """Raise the error of a time that has no window.

        Raises:
            MissingTimestampError: The record has no timestamp.
            OverflowError: The window ends beyond 64 bits.
        """
        TimeWindow(event_timestamp(timestamp), timestamp + gap)

    def merge(self, opened: list[Session], last: int, start: int, end: int) -> Session:
        """Merge sessions of a key and a window that touches them; return the result."""
        first = last
        while first > 0 and opened[first - 1].end >= start:
            first -= 1
        touched = {TimeWindow(s.start, s.end): s for s in opened[first : last + 1]}
        key = opened[last].key

        def merge(
            result: Any,
            merged: list[Any],
            state_window: Window,
            merged_state_windows: list[Any],
        ) -> None:
            # Like timers: the timer of the merged window is registered first.
            contents = self.table.map(state_window)
            session = self.opened_session(key, result.start, result.end, contents)
            for window in merged:
                self.heap.close(touched[window])
            opened[first : last + 1] = [session]
            self.keyed_state.select_key(key)
            self.contents.merge_namespaces(state_window, merged_state_windows)
            for window in merged_state_windows:
                self._release(self.table.map(window))

        state_windows = {w: session.contents.namespace for w, session in touched.items()}
        merging = MergingWindowSet(self.assigner, state_windows, joins_touching=False)
        merging.add(TimeWindow(start, end), merge)
        return opened[first]

    def process_watermark(self, timestamp: int) -> None:
        """Advance the event time of the input."""
        self.timers.current_watermark = timestamp
        emit, has_function = self.emit, self.functions[1] is not None
        session = self.ended(timestamp)
        while session is not None:
            key, contents, end = session.key, session.contents, session.end
            if session.has_fired:
                self.timers.num_fired += 1
                self.fire_late(session, end - 1)
            elif self.lateness:
                self.timers.num_fired += 1
                self._expired(session)
            else:
                window = TimeWindow(session.start, end) if has_function else None
                emit(((key, contents.remove(key)),), window, end - 1)
                self._release(contents)
            session = self.ended(timestamp)
        self.output.emit_watermark(timestamp)

    def fire_late(self, session: Session, timestamp: int) -> None:
        """Evaluate a session that stays open; its results get the timestamp."""
        self.keyed_state.select_key(session.key)
        self.contents.set_current_namespace(session.contents.namespace)
        contents = self.contents.get()
        if contents is None or (self.keep == KEEP_LIST and not contents):
            return
        elements = contents if self.keep == KEEP_LIST else [contents]
        window = TimeWindow(session.start, session.end)
        if self.stamps_window_end:
            timestamp = window.max_timestamp()
        results = self.evaluate(key_of(session.key), window, elements)
        emit_results(self.output, results, timestamp, OutputTag)

    def _expired(self, session: Session) -> None:
        """Drop a session that accepts no more late records."""
        session.contents.remove(session.key)
        if self.clear is not None:
            self.keyed_state.select_key(session.key)
            self.window_context.current_window = TimeWindow(session.start, session.end)
            self.clear(self.window_context)
        self._release(session.contents)

    def _release(self, contents: CopyOnWriteStateMap) -> None:
        """Forget contents that are empty."""
        if not contents:
            self.table.drop_if_empty(contents.namespace)
            if contents is self.last_contents:
                self.last_contents = None


def _merging_state(sessions: list[Session]) -> dict[TimeWindow, Any]:
    """Return the general operator's form of a key's open sessions: window to state window."""
    return {
        TimeWindow(s.start, s.end): (s.contents.namespace,) if s.has_fired else s.contents.namespace
        for s in sessions
    }
