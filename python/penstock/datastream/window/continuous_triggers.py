# ruff: noqa: ARG002 - a trigger rarely needs all of its arguments
"""Triggers that fire at every multiple of an interval."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import Types
from penstock.datastream.functions.basic import ReduceFunction
from penstock.datastream.state import ReducingStateDescriptor
from penstock.datastream.window.assigners import millis
from penstock.datastream.window.triggers import TimelessTrigger, Trigger, TriggerResult
from penstock.datastream.window.windows import TimeWindow

if TYPE_CHECKING:
    from penstock.common.time import Duration, Time


class Min(ReduceFunction):
    """The minimum, for the fire times of windows that merge."""

    def reduce(self, value1: int, value2: int) -> int:
        """Return the smaller value."""
        return min(value1, value2)


class _ContinuousTrigger(TimelessTrigger[Any, TimeWindow]):
    """The base of triggers that store the next time to fire in the window's state."""

    def __init__(self, interval: int) -> None:
        """Create a trigger; the interval is in ms."""
        self.interval = interval
        self.state_desc = ReducingStateDescriptor("fire-timestamp", Min(), Types.LONG())

    @abstractmethod
    def _register(self, ctx: Trigger.TriggerContext, time: int) -> None:
        """Register a timer of the trigger's clock."""

    @abstractmethod
    def _delete(self, ctx: Trigger.TriggerContext, time: int) -> None:
        """Delete the timer."""

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Register a timer for the earliest of the stored times."""
        ctx.merge_partitioned_state(self.state_desc)
        next_fire = ctx.get_partitioned_state(self.state_desc).get()
        if next_fire is not None:
            self._register(ctx, next_fire)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Delete the timer and the stored time."""
        next_fire = ctx.get_partitioned_state(self.state_desc)
        timestamp = next_fire.get()
        if timestamp is not None:
            self._delete(ctx, timestamp)
            next_fire.clear()

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext, fire_timestamp_state: Any
    ) -> None:
        """Store the next time after `time` and register a timer for it."""
        next_fire = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(next_fire)
        self._register(ctx, next_fire)


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """A trigger that fires at multiples of an interval of event time, and at the window's end."""

    @staticmethod
    def of(interval: Duration | Time) -> ContinuousEventTimeTrigger:
        """Create a trigger."""
        return ContinuousEventTimeTrigger(millis(interval, "interval"))

    def on_element(
        self,
        element: Any,
        timestamp: int,
        window: TimeWindow,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Fire at once for late records, else wait for the next multiple and for the end."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        next_fire = ctx.get_partitioned_state(self.state_desc)
        if next_fire.get() is None:
            self.register_next_fire_timestamp(
                timestamp - timestamp % self.interval, window, ctx, next_fire
            )
        return TriggerResult.CONTINUE

    def on_event_time(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire at the end of the window and at the stored time."""
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        next_fire = ctx.get_partitioned_state(self.state_desc)
        if next_fire.get() != time:
            return TriggerResult.CONTINUE
        next_fire.clear()
        # If the end of the window is due as well, further multiples would repeat its result.
        if window.max_timestamp() > ctx.get_current_watermark():
            self.register_next_fire_timestamp(time, window, ctx, next_fire)
        return TriggerResult.FIRE

    def _register(self, ctx: Trigger.TriggerContext, time: int) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, ctx: Trigger.TriggerContext, time: int) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """A trigger that fires at every multiple of an interval of processing time."""

    @staticmethod
    def of(interval: Duration | Time) -> ContinuousProcessingTimeTrigger:
        """Create a trigger."""
        return ContinuousProcessingTimeTrigger(millis(interval, "interval"))

    def on_element(
        self,
        element: Any,
        timestamp: int,
        window: TimeWindow,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Wait for the next multiple."""
        next_fire = ctx.get_partitioned_state(self.state_desc)
        if next_fire.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, next_fire)
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire at the end of the window and at the stored time."""
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        next_fire = ctx.get_partitioned_state(self.state_desc)
        if next_fire.get() != time:
            return TriggerResult.CONTINUE
        next_fire.clear()
        self.register_next_fire_timestamp(time, window, ctx, next_fire)
        return TriggerResult.FIRE

    def _register(self, ctx: Trigger.TriggerContext, time: int) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, ctx: Trigger.TriggerContext, time: int) -> None:
        ctx.delete_processing_time_timer(time)
