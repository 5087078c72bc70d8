"""Event-time windows that fire once, at their end, as most programs use.

Session windows are in `sessions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.aggregates.named import NamedAggregates
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import (
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from penstock.datastream.window.assigners import event_timestamp
from penstock.datastream.window.stagger import WindowStagger
from penstock.expressions.functions import bound_function
from penstock.network import key_of
from penstock.taskexecutor.compiled import (
    KEEP_ACCUMULATOR,
    KEEP_FOLD,
    KEEP_LIST,
    MIN_TIMESTAMP,
    StreamOperator,
    TimerHeap,
    TimerlessWindowLoop,
    emit_results,
)
from penstock.taskexecutor.state.keyed_function import may_have_state
from penstock.taskexecutor.windowing.window_functions import (
    WindowContext,
    checking_first,
    close_functions,
    evaluation,
    open_functions,
    window_functions,
    window_key_reader,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.datastream.functions.checkpointed import StateInitializationContext
    from penstock.datastream.window.windows import Window
    from penstock.graph import operators
    from penstock.taskexecutor.compiled import Output
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.state.table import CopyOnWriteStateMap


#: Largest window size for C integers, in ms.
MAX_SIZE: Final = 1 << 60


def create_timerless_operator(
    context: OperatorContext, descriptor: operators.Window
) -> StreamOperator | None:
    """Return the fast operator if it does what the general one would, else None."""
    assigner = descriptor.assigner
    if (
        not fires_at_end(context, descriptor)
        # Windows are dropped when they have fired.
        or descriptor.lateness_ms
    ) or not (_tumbles(assigner) or (_slides(assigner) and not _keeps_rows(context, descriptor))):
        return None
    return TimerlessWindowOperator(context, descriptor)


def fires_at_end(context: OperatorContext, descriptor: operators.Window) -> bool:
    """Return whether windows fire at their end, and again with each late record."""
    trigger = descriptor.trigger
    if type(trigger) is PurgingTrigger and not descriptor.lateness_ms:
        # Without lateness a window is dropped when it fires, whether the trigger purges or not.
        trigger = trigger.nested_trigger
    return (
        not context.is_batch
        and type(trigger) is EventTimeTrigger
        and descriptor.evictor is None
        and not _fold_may_have_state(descriptor)
    )


def _fold_may_have_state(descriptor: operators.Window) -> bool:
    """Return whether the fold may use state, which needs the current key in all its methods."""
    fold = window_functions(descriptor)[0]
    return may_have_state(fold) and not isinstance(fold, NamedAggregates)


def _tumbles(assigner: object) -> bool:
    return type(assigner) is TumblingEventTimeWindows and assigner._stagger is WindowStagger.ALIGNED


def _slides(assigner: object) -> bool:
    """Return whether each time is in some window, and windows are small enough for C integers."""
    return (
        type(assigner) is SlidingEventTimeWindows and assigner._slide <= assigner._size <= MAX_SIZE
    )


def _keeps_rows(context: OperatorContext, descriptor: operators.Window) -> bool:
    """Return whether adding a record does not read the others of its window."""
    is_folded = descriptor.function_kind in ("reduce", "aggregate")
    return context.keyed_state.keeps_elements and not is_folded


def keeping(context: OperatorContext, descriptor: operators.Window) -> tuple[int, object, object]:
    """Return how records are stored, the function that adds one, and the accumulator's factory."""
    fold: Any = descriptor.function
    if descriptor.function_kind == "reduce":
        element_type = next(iter(context.config.input_types), None)
        types = (element_type, element_type)
        reduce = bound_function(fold, "reduce")
        return KEEP_FOLD, context.evaluation.without_call(reduce, 2, types), None
    if descriptor.function_kind == "aggregate":
        add = context.evaluation.without_call(fold.add, 2, context.config.input_types[:1])
        return KEEP_ACCUMULATOR, add, fold.create_accumulator
    return KEEP_LIST, None, None


class TimerlessWindows:
    """Common part of operators for windows without timers, apart from their loops."""

    context: OperatorContext
    output: Output
    keep: int
    functions: tuple[Any, Any]
    is_merging = False

    def _prepare(self, context: OperatorContext, descriptor: operators.Window) -> None:
        """Set the attributes needed at the end of a window."""
        self.functions = window_functions(descriptor)
        self.keyed_state = context.keyed_state
        self.table = context.keyed_state.table_of(descriptor.state_descriptor)
        self.timers = context.timer_service(self)
        self.window_context = WindowContext(self)
        evaluate = evaluation(self.functions[1], self.window_context)
        self.evaluate = checking_first(self, evaluate)
        self.late_tag = descriptor.late_tag
        self.late_records_dropped: Any = None
        #: ``emit(entries, window, timestamp)`` emits the results of an ended window's keys.
        self.emit: Any = None
        self.opened: list[Any] = []

    def open(self) -> None:
        """Open the functions."""
        group = self.context.runtime_context.get_metrics_group()
        self.late_records_dropped = group.counter("numLateRecordsDropped")
        open_functions(self)
        self.emit = self._emission()

    def close(self) -> None:
        """Close the functions."""
        close_functions(self)

    def _emission(self) -> Callable[..., None]:
        output, timers = self.output, self.timers
        fold, function = self.functions
        get_result = fold.get_result if self.keep == KEEP_ACCUMULATOR else None
        if function is None:

            def emit_folds(entries: Iterable[Any], window: Window, timestamp: int) -> None:
                del window
                for _, kept in entries:
                    timers.num_fired += 1
                    result = kept if kept is None or get_result is None else get_result(kept)
                    if result is not None:
                        output.collect(result, timestamp)

            return emit_folds

        is_list, select_key = self.keep == KEEP_LIST, self.keyed_state.select_key
        clear, context = getattr(function, "clear", None), self.window_context

        def emit(entries: Iterable[Any], window: Window, timestamp: int) -> None:
            evaluate = self.evaluate
            for key, kept in entries:
                timers.num_fired += 1
                select_key(key)
                result = kept if kept is None or get_result is None else get_result(kept)
                if result is not None:
                    elements = result if is_list else [result]
                    results = evaluate(key_of(key), window, elements)
                    emit_results(output, results, timestamp, OutputTag)
                if clear is not None:
                    context.current_window = window
                    clear(context)

        return emit

    def take_late(self, value: object, timestamp: int) -> None:
        """Emit the record to the late side output, or count it as dropped."""
        if self.late_tag is not None:
            self.output.collect_side(self.late_tag, value, timestamp)
        else:
            self.late_records_dropped.inc()

    def on_event_time(self, timestamp: int, key: object, namespace: object) -> None:
        """Never called: the operator registers no timers."""

    def on_processing_time(self, timestamp: int, key: object, namespace: object) -> None:
        """Never called: the operator registers no timers."""


class TimerlessWindowOperator(TimerlessWindows, TimerlessWindowLoop):
    """Tumbling or sliding event-time windows without lateness, evictor or custom trigger."""

    def __init__(self, context: OperatorContext, descriptor: operators.Window) -> None:
        """Create the operator."""
        assigner = descriptor.assigner
        super().__init__(
            assigner._size,
            getattr(assigner, "_slide", assigner._size),
            assigner._offset,
            window_key_reader(context),
            *keeping(context, descriptor),
        )
        self._prepare(context, descriptor)
        if self.slide != self.size:
            # Copy for every window that contains the record.
            self.copier = context.isolation.copier(
                "keeps in a window", next(iter(context.config.input_types), None)
            )
        self.order = TimerHeap(self.table) if self.table.store is None else None
        self.windows: dict[int, CopyOnWriteStateMap] = {}

    @property
    def has_open_windows(self) -> bool:
        """Return whether a window waits for event time."""
        return bool(self.windows)

    def initialize_state(self, context: StateInitializationContext) -> None:  # noqa: ARG002
        """Restore the windows."""
        self.timers.take_event_timers()  # timers of the general operator
        self.windows = {
            contents.namespace.start: contents
            for contents in self.table.namespaces()
            if contents.namespace is not None
        }
        if self.order is not None:
            for start, contents in self.windows.items():
                for key in contents.keys():  # noqa: SIM118
                    self.order.push(start, contents, key)

    def contents_of(self, start: int, timestamp: int) -> CopyOnWriteStateMap | None:
        """Return the contents of a window, opening it if it has not ended.

        Raises:
            MissingTimestampError: The record has no timestamp.
            OverflowError: The window begins or ends beyond 64 bits.
        """
        if timestamp == MIN_TIMESTAMP:
            event_timestamp(timestamp)
        if start > timestamp:
            start -= 1 << 64  # it precedes the range of C integers
        contents = self.windows.get(start)
        if contents is None and start + self.size - 1 > self.timers.current_watermark:
            contents = self.table.map(TimeWindow(start, start + self.size))
            self.windows[start] = contents
        return contents

    def windows_of(
        self, start: int, count: int, timestamp: int
    ) -> list[tuple[int, CopyOnWriteStateMap]]:
        """Return starts and contents of windows that have not ended, the latest first.

        Raises:
            MissingTimestampError: The record has no timestamp.
            OverflowError: A window begins or ends beyond 64 bits.
        """
        if start > timestamp:
            start -= 1 << 64  # it precedes the range of C integers
        windows = []
        for first in range(start, start - count * self.slide, -self.slide):
            contents = self.contents_of(first, timestamp)
            if contents is not None:
                windows.append((first, contents))
        return windows

    def process_watermark(self, timestamp: int) -> None:
        """Advance the event time of the input."""
        self.timers.current_watermark = timestamp
        for start in sorted(s for s in self.windows if s + self.size - 1 <= timestamp):
            self.last_contents = self.last_windows = None
            self._fire(start, self.windows.pop(start))
        self.output.emit_watermark(timestamp)

    def _fire(self, start: int, contents: CopyOnWriteStateMap) -> None:
        window = TimeWindow(start, start + self.size)
        entries = contents if self.order is None else self.order.entries_until(start)
        self.emit(entries, window, window.max_timestamp())
        contents.clear()
        self.table.drop_if_empty(window)
        self.keyed_state.release_namespace(window)
