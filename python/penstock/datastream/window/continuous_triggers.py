# ruff: noqa: ARG002 - a trigger rarely needs all that it is told
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
    """Keeps the smaller, for times that merge."""

    def reduce(self, value1: int, value2: int) -> int:
        """The smaller."""
        return min(value1, value2)


class _ContinuousTrigger(TimelessTrigger[Any, TimeWindow]):
    """Remembers the next time to fire in state of the window."""

    def __init__(self, interval: int) -> None:
        """Create a trigger; the interval is in ms."""
        self.interval = interval
        self.state_desc = ReducingStateDescriptor("fire-timestamp", Min(), Types.LONG())

    @abstractmethod
    def _register(self, ctx: Trigger.TriggerContext, time: int) -> None:
        """Registers a timer of the trigger's clock."""

    @abstractmethod
    def _delete(self, ctx: Trigger.TriggerContext, time: int) -> None:
        """Delete the timer."""

    def can_merge(self) -> bool:
        """True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Waits for the earliest of the remembered times."""
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
        """Remembers the next time after `time` and waits for it."""
        next_fire = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(next_fire)
        self._register(ctx, next_fire)


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires at every multiple of an interval of event time, and at the end of the window."""

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
        """Fires at once for late records, else waits for the next multiple and for the end."""
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
        """Fires at the end of the window and at the remembered time."""
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        next_fire = ctx.get_partitioned_state(self.state_desc)
        if next_fire.get() != time:
            return TriggerResult.CONTINUE
        next_fire.clear()
        # When the end of the window is due as well, the multiples up to it would all show the
        # contents that it is going to show.
        if window.max_timestamp() > ctx.get_current_watermark():
            self.register_next_fire_timestamp(time, window, ctx, next_fire)
        return TriggerResult.FIRE

    def _register(self, ctx: Trigger.TriggerContext, time: int) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, ctx: Trigger.TriggerContext, time: int) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires at every multiple of an interval of the machine's clock."""

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
        """Waits for the next multiple."""
        next_fire = ctx.get_partitioned_state(self.state_desc)
        if next_fire.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, next_fire)
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fires at the end of the window and at the remembered time."""
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
