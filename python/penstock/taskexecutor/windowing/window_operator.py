"""Windows: records are assigned to windows, and triggers decide when these are evaluated."""

from __future__ import annotations

import logging
from functools import reduce
from typing import TYPE_CHECKING, Any

from penstock.aggregates.named import NamedAggregates
from penstock.common.exception_deadline import repr_in_time
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import (
    EventTimeTrigger,
    MergingWindowAssigner,
    PurgingTrigger,
    TimeWindow,
    TriggerResult,
)
from penstock.datastream.window.sessions import joins_touching_windows
from penstock.errors import InvalidProgramError
from penstock.expressions.functions import bound_function
from penstock.network import key_of
from penstock.serialization.imports import IMPORT_LOCK
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, StreamOperator, emit_results
from penstock.taskexecutor.windowing.merging_windows import MERGING_STATE, MergingWindowSet
from penstock.taskexecutor.windowing.sessions import create_session_operator
from penstock.taskexecutor.windowing.timerless import create_timerless_operator
from penstock.taskexecutor.windowing.trigger_context import (
    AssignerContext,
    OperatorTriggerContext,
)
from penstock.taskexecutor.windowing.window_functions import (
    WindowContext,
    checking_first,
    close_functions,
    evaluation,
    open_functions,
    stamps_window_end,
    window_functions,
    window_key_reader,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.datastream.functions.checkpointed import StateInitializationContext
    from penstock.datastream.window.windows import Window
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

logger = logging.getLogger(__name__)

_CONTENTS = "window-contents"


def create_window(context: OperatorContext, descriptor: operators.Window) -> StreamOperator:
    """Create the operator of a windowed stream."""
    if isinstance(descriptor.function, NamedAggregates):
        descriptor.function.evaluate_by(context.evaluation, context.config.input_types[:1])
        # Imported only for these: it loads the evaluator of columns.
        with IMPORT_LOCK:
            from penstock.taskexecutor.windowing.column_windows import create_column_windows

        by_columns = create_column_windows(context, descriptor)
        if by_columns is not None:
            return by_columns
    for create in (create_timerless_operator, create_session_operator):
        fast = create(context, descriptor)
        if fast is not None:
            return fast
    if descriptor.evictor is not None:
        return EvictingWindowOperator(context, descriptor)
    return WindowOperator(context, descriptor)


class WindowOperator(StreamOperator):
    """The general window operator: any assigner and trigger, merging windows, lateness."""

    def __init__(self, context: OperatorContext, descriptor: operators.Window) -> None:
        """Create the operator."""
        super().__init__()
        self.context = context
        self.descriptor = descriptor
        self.keys = window_key_reader(context)
        self.keyed_state = context.keyed_state
        self.assigner = descriptor.assigner
        self.trigger = descriptor.trigger
        self.lateness_ms = descriptor.lateness_ms
        self.late_tag = descriptor.late_tag
        self.is_event_time: bool = self.assigner.is_event_time()
        self.is_merging = isinstance(self.assigner, MergingWindowAssigner)
        self.joins_touching = joins_touching_windows(self.assigner)
        if self.is_merging and not self.trigger.can_merge():
            # PyFlink starts such a program, and its windows fail at their first merge.
            self.unmergeable: str | None = (
                f"{type(self.trigger).__name__} cannot be used with windows that merge"
            )
        else:
            self.unmergeable = None
        # Whether the trigger registers the same timer that the clean-up needs.
        self.trigger_cleans_up = (
            self.is_event_time and not self.lateness_ms and _fires_at_end(self.trigger)
        )
        self.timers = context.timer_service(self)
        self.assigner_context = AssignerContext(self)
        self.trigger_context = OperatorTriggerContext(self)
        self.window_context = WindowContext(self)
        self.stamps_window_end = stamps_window_end(context)
        self.functions = window_functions(descriptor)
        evaluate = evaluation(self.functions[-1], self.window_context)
        self.evaluate = checking_first(self, evaluate)
        self.contents = self._create_contents()
        self.merging_table = self.keyed_state.table(MERGING_STATE, "map").map(None)
        self.late_records_dropped: Any = None
        self.opened: list[Any] = []

    # Life cycle -----------------------------------------------------------------------------

    def initialize_state(self, context: StateInitializationContext) -> None:  # noqa: ARG002
        """Register the timers of windows restored from an operator without timers."""
        if not self.is_event_time or self.timers.has_event_timers:
            return
        if self.is_merging:
            for key, mapping in list(self.merging_table.items()):
                self.keyed_state.select_key(key)
                merging = MergingWindowSet(
                    self.assigner, mapping, joins_touching=self.joins_touching
                )
                self._take_over(merging)
                self._persist(key, merging)
            return
        if self.descriptor.evictor is not None:
            return  # other operators cannot have written its contents
        contents = self.keyed_state.tables[self.descriptor.state_descriptor.get_name()]
        for window, key, _ in contents:
            if isinstance(window, TimeWindow):
                self.keyed_state.select_key(key)
                self.timers.register_event_time_timer(window, window.max_timestamp())

    def _take_over(self, merging: MergingWindowSet) -> None:
        """Register timers of a key's open windows; windows that have fired have tuples."""
        for window, state_window in list(merging.mapping.items()):
            if type(state_window) is not tuple:
                self.timers.register_event_time_timer(window, window.max_timestamp())
                continue
            merging.mapping[window] = state_window[0]
            if self.lateness_ms:
                self._register_cleanup(window)
            else:
                self._clear_window(window, state_window[0], merging)

    def open(self) -> None:
        """Open the functions."""
        group = self.context.runtime_context.get_metrics_group()
        self.late_records_dropped = group.counter("numLateRecordsDropped")
        open_functions(self)

    def finish(self) -> None:
        """Log the windows dropped because their time has not come when the input ends.

        In BATCH mode all timers of a key fire with its end.
        """
        timers = self.timers.num_processing_timers
        if timers:
            logger.warning(
                "the input has ended, and windows of processing time that are still open are "
                "dropped, as in Flink (%d timers): use event time or BATCH mode to have the "
                "results of the last windows",
                timers,
            )

    def close(self) -> None:
        """Close the functions."""
        close_functions(self)

    def _create_contents(self) -> Any:
        descriptor = self.descriptor.state_descriptor
        # Copy for every window that contains the record, and every time that one fires.
        return self.context.isolation.contents(self.keyed_state.state(descriptor), descriptor)

    # Records -------------------------------------------------------------------------------

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        key = self.keys.read(value)
        self.keyed_state.select_key(key)
        windows = self.assigner.assign_windows(value, timestamp, self.assigner_context)
        if self.is_merging:
            skipped = self._process_merging(key, windows, value, timestamp)
        else:
            skipped = self._process_plain(key, windows, value, timestamp)
        if skipped and self._is_element_late(timestamp):
            if self.late_tag is not None:
                self.output.collect_side(self.late_tag, value, timestamp)
            else:
                self.late_records_dropped.inc()

    def _process_plain(
        self, key: object, windows: Iterable[Any], value: object, timestamp: int
    ) -> bool:
        skipped = True
        for window in windows:
            if self._is_window_late(window):
                continue
            skipped = False
            self.contents.set_current_namespace(window)
            self._add(value, timestamp)
            self._trigger_element(key, window, value, timestamp)
        return skipped

    def _process_merging(
        self, key: object, windows: Iterable[object], value: object, timestamp: int
    ) -> bool:
        skipped = True
        merging = self._merging_set(key)
        for window in windows:
            actual = merging.add(window, self._merge)
            if self._is_window_late(actual):
                merging.retire(actual)
                continue
            skipped = False
            self.contents.set_current_namespace(merging.state_window(actual))
            self._add(value, timestamp)
            self._trigger_element(key, actual, value, timestamp)
        self._persist(key, merging)
        return skipped

    def _add(self, value: object, timestamp: int) -> None:
        """Add a record to the contents of the current window."""
        del timestamp
        self.contents.add(value)

    def _trigger_element(self, key: object, window: Window, value: object, timestamp: int) -> None:
        context = self.trigger_context
        context.window = window
        result = self.trigger.on_element(value, timestamp, window, context)
        if result is not TriggerResult.CONTINUE:
            self._act(key, window, result, timestamp)
        if not self.trigger_cleans_up:
            self._register_cleanup(window)

    def _act(self, key: object, window: Window, result: TriggerResult, timestamp: int) -> None:
        fires, purges = result.value
        if fires:
            self._fire(key, window, timestamp)
        if purges:
            self.contents.clear()

    def _fire(self, key: object, window: Window, timestamp: int) -> None:
        """Emit the results of a window.

        Args:
            key: The key in its form in state.
            window: The window.
            timestamp: Timestamp of the timer or the record that fired it.
        """
        elements = self._elements()
        if elements is not None:
            self._emit(key, window, elements, timestamp)

    def _emit(
        self, key: object, window: Window, elements: Iterable[object], timestamp: int
    ) -> None:
        """Evaluate a window.

        Its results have the timestamp of what fired it, as in PyFlink: usually the end of the
        window, but the timestamp of a record that fires it early or late.  With WINDOW_END they
        have the end of the window, as in Java; a window without an end uses the former.
        """
        if self.stamps_window_end:
            end = window.max_timestamp()
            timestamp = timestamp if end == MAX_TIMESTAMP else end
        results = self.evaluate(key_of(key), window, elements)
        emit_results(self.output, results, timestamp, OutputTag)

    def _elements(self) -> list[object] | None:
        """Return the contents of the current window for its function, or None."""
        contents = self.contents.get()
        if self.functions[0] is None:
            return contents or None
        return None if contents is None else [contents]

    # Merging --------------------------------------------------------------------------------

    def _merging_set(self, key: object) -> MergingWindowSet:
        return MergingWindowSet(
            self.assigner,
            self.merging_table.get(key) or {},
            joins_touching=self.joins_touching,
        )

    def _persist(self, key: object, merging: MergingWindowSet) -> None:
        if merging.mapping:
            self.merging_table.put(key, merging.mapping)
        else:
            self.merging_table.remove(key)

    def _merge(
        self,
        result: Window,
        merged: list[Window],
        state_window: Window,
        merged_state_windows: list[Window],
    ) -> None:
        if self.unmergeable is not None:
            raise InvalidProgramError(self.unmergeable)
        if self.is_event_time:
            now, end = self.timers.current_watermark, result.max_timestamp() + self.lateness_ms
        else:
            now, end = self.timers.current_processing_time(), result.max_timestamp()
        if end <= now:
            msg = f"the merged window {repr_in_time(result)} ended before the current time, {now}"
            raise InvalidProgramError(msg)
        context = self.trigger_context
        context.window, context.merged_windows = result, merged
        self.trigger.on_merge(result, context)
        for window in merged:
            context.window = window
            self.trigger.clear(window, context)
            if not self.trigger_cleans_up:
                self._delete_cleanup(window)
        if merged_state_windows:
            self.contents.merge_namespaces(state_window, merged_state_windows)
        for window in (*merged, *merged_state_windows):
            self.keyed_state.release_namespace(window)

    # Time -----------------------------------------------------------------------------------

    def process_watermark(self, timestamp: int) -> None:
        """Advance the event time of the input."""
        self.timers.advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)

    def on_event_time(self, timestamp: int, key: object, namespace: Window) -> None:
        """Handle an event-time timer of a window."""
        self._on_timer(timestamp, key, namespace, self.trigger.on_event_time, event_time=True)

    def on_processing_time(self, timestamp: int, key: object, namespace: Window) -> None:
        """Handle a processing-time timer of a window."""
        self._on_timer(timestamp, key, namespace, self.trigger.on_processing_time, event_time=False)

    def _on_timer(
        self,
        timestamp: int,
        key: object,
        window: Window,
        on_time: Callable[..., TriggerResult],
        *,
        event_time: bool,
    ) -> None:
        merging = None
        state_window = window
        if self.is_merging:
            merging = self._merging_set(key)
            state_window = merging.state_window(window)
            if state_window is None:
                return  # the window was merged into another, whose own timers count
        self.contents.set_current_namespace(state_window)
        self.trigger_context.window = window
        result = on_time(timestamp, window, self.trigger_context)
        self._act(key, window, result, timestamp)
        if event_time == self.is_event_time and timestamp == self._cleanup_time(window):
            self._clear_window(window, state_window, merging)
        elif event_time and self.is_event_time and timestamp == window.max_timestamp():
            # A restored window may have had another clean-up time.
            self._register_cleanup(window)
        if merging is not None:
            self._persist(key, merging)

    def _clear_window(
        self, window: Window, state_window: Window, merging: MergingWindowSet | None
    ) -> None:
        self.contents.set_current_namespace(state_window)
        self.contents.clear()
        self.trigger_context.window = window
        self.trigger.clear(window, self.trigger_context)
        clear = getattr(self.functions[-1], "clear", None)
        if clear is not None:
            self.window_context.current_window = window
            clear(self.window_context)
        if merging is not None:
            merging.retire(window)
        self.keyed_state.release_namespace(window)
        self.keyed_state.release_namespace(state_window)

    def _cleanup_time(self, window: Window) -> int:
        end: int = window.max_timestamp()
        if not self.is_event_time:
            return end
        return min(end + self.lateness_ms, MAX_TIMESTAMP)

    def _register_cleanup(self, window: Window) -> None:
        cleanup_time = self._cleanup_time(window)
        if cleanup_time == MAX_TIMESTAMP:
            return  # a window that never ends needs no clean-up
        if self.is_event_time:
            self.timers.register_event_time_timer(window, cleanup_time)
        else:
            self.timers.register_processing_time_timer(window, cleanup_time)

    def _delete_cleanup(self, window: Window) -> None:
        cleanup_time = self._cleanup_time(window)
        if self.is_event_time:
            self.timers.delete_event_time_timer(window, cleanup_time)
        else:
            self.timers.delete_processing_time_timer(window, cleanup_time)

    def _is_window_late(self, window: Window) -> bool:
        if not self.is_event_time:
            return False
        # As ``_cleanup_time``, inlined: this runs for each window of each record.
        cleanup_time = window.max_timestamp() + self.lateness_ms
        watermark: int = self.timers.current_watermark
        return cleanup_time <= watermark or watermark == MAX_TIMESTAMP

    def _is_element_late(self, timestamp: int) -> bool:
        return self.is_event_time and timestamp + self.lateness_ms <= self.timers.current_watermark


def _fires_at_end(trigger: object) -> bool:
    """Return whether a trigger waits for the end of event-time windows."""
    if type(trigger) is PurgingTrigger:
        trigger = trigger.nested_trigger
    return type(trigger) is EventTimeTrigger


class EvictingWindowOperator(WindowOperator):
    """Keeps all records of a window with their timestamps, for an evictor."""

    def __init__(self, context: OperatorContext, descriptor: operators.Window) -> None:
        """Create the operator."""
        super().__init__(context, descriptor)
        self.evictor = descriptor.evictor
        self.copier = context.isolation.copier(
            "keeps in a window", next(iter(context.config.input_types), None)
        )

    def _create_contents(self) -> Any:
        # Not by the descriptor: the declared type is that of the records without timestamps.
        return self.keyed_state.own_list_state(_CONTENTS)

    def _add(self, value: object, timestamp: int) -> None:
        # Copy for every window that contains the record.
        self.contents.add((value if self.copier is None else self.copier.copied(value), timestamp))

    def _fire(self, key: object, window: Window, timestamp: int) -> None:
        contents = self.contents.get()
        if not contents:
            return
        watermark = self.timers.current_watermark
        kept = self.evictor.evict_before(contents, window, watermark)
        values = [value for value, _ in kept]
        if self.copier is not None:
            values = self.copier.copied_all(values)
        self._emit(key, window, self._folded(values), timestamp)
        self.contents.update(self.evictor.evict_after(kept, window, watermark))

    def _folded(self, elements: list[object]) -> list[Any]:
        """Fold the records left by the evictor; without records, only an aggregate has a result."""
        function: Any = self.functions[0]
        if function is None:
            return elements
        if self.descriptor.function_kind == "reduce":
            return [reduce(bound_function(function, "reduce"), elements)] if elements else []
        accumulator = function.create_accumulator()
        for element in elements:
            accumulator = function.add(element, accumulator)
        return [function.get_result(accumulator)]
