"""The window operator's interface for assigners and triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.timestamps import timestamp_of
from penstock.datastream.window import Trigger, WindowAssigner
from penstock.errors import InvalidProgramError
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.taskexecutor.copies.isolation import lending

if TYPE_CHECKING:
    from penstock.datastream.functions import RuntimeContext
    from penstock.datastream.state import StateDescriptor
    from penstock.metrics.metricbase import MetricGroup
    from penstock.taskexecutor.windowing.window_operator import WindowOperator


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """Time and keyed state for assigners."""

    def __init__(self, operator: WindowOperator) -> None:
        """Create the context of an operator."""
        self._operator = operator

    def get_current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""
        return self._operator.timers.current_processing_time()

    def get_runtime_context(self) -> RuntimeContext:
        """Return the context of the subtask; its state is that of the current key."""
        context: RuntimeContext = self._operator.context.runtime_context
        return context


class OperatorTriggerContext(Trigger.OnMergeContext):
    """Time, timers and state for triggers; one object for all windows.

    Attributes:
        window: The window for which the trigger is called.
        merged_windows: During a merge, the windows that became ``window``.
    """

    def __init__(self, operator: WindowOperator) -> None:
        """Create the context of an operator."""
        self._operator = operator
        self._timers = operator.timers
        self._states: dict[str, Any] = {}
        self.window: Any = None
        self.merged_windows: list[Any] = []

    def get_current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""
        return self._timers.current_processing_time()

    def get_metric_group(self) -> MetricGroup:
        """Return the group in which the trigger registers its metrics."""
        group: MetricGroup = self._operator.context.runtime_context.get_metrics_group()
        return group

    def get_current_watermark(self) -> int:
        """Return the current watermark, in ms."""
        return self._timers.current_watermark

    def register_processing_time_timer(self, time: int) -> None:
        """Register a timer that calls ``on_processing_time`` at a time in ms."""
        if type(time) is not int or not MIN_TIMESTAMP <= time <= MAX_TIMESTAMP:
            time = timestamp_of(time, "register_processing_time_timer")
        self._timers.register_processing_time_timer(self.window, time)

    def register_event_time_timer(self, time: int) -> None:
        """Register a timer that calls ``on_event_time`` when the watermark reaches a time in ms."""
        if type(time) is not int or not MIN_TIMESTAMP <= time <= MAX_TIMESTAMP:
            time = timestamp_of(time, "register_event_time_timer")
        self._timers.register_event_time_timer(self.window, time)

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete the timer."""
        self._timers.delete_processing_time_timer(
            self.window, timestamp_of(time, "delete_processing_time_timer")
        )

    def delete_event_time_timer(self, time: int) -> None:
        """Delete the timer."""
        self._timers.delete_event_time_timer(
            self.window, timestamp_of(time, "delete_event_time_timer")
        )

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return state of the current key and window."""
        state = self._state(state_descriptor)
        state.set_current_namespace(self.window)
        return state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of all merged windows into that of the result.

        Raises:
            InvalidProgramError: States of that kind cannot merge.
        """
        state = self._state(state_descriptor)
        merge = getattr(state, "merge_namespaces", None)
        if merge is None:
            msg = f"state {state_descriptor.get_name()!r} of a trigger cannot merge"
            raise InvalidProgramError(msg)
        merge(self.window, self.merged_windows)

    def _state(self, descriptor: StateDescriptor) -> Any:
        name = "trigger:" + descriptor.get_name()
        state = self._states.get(name)
        if state is None:
            state = lending(self._operator.context.keyed_state.state(descriptor), descriptor)
            self._states[name] = state
        return state
