# ruff: noqa: ARG002 - a trigger rarely needs all that it is told
"""Triggers: when a window is evaluated.

A trigger is data that the window operator calls; what it remembers lives in partitioned state of
the current key and window, never in the trigger itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from penstock.common.typeinfo import Types
from penstock.datastream.functions.basic import ReduceFunction
from penstock.datastream.state import ReducingStateDescriptor, StateDescriptor
from penstock.datastream.window.windows import Window

#: The watermark after which no record follows, in ms.
_END_OF_TIME: Final = 2**63 - 1

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class TriggerResult(Enum):
    """Decision of a trigger; the value is (fires, drops its contents)."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Return whether the window is evaluated."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the window drops its contents."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window is evaluated."""

    class TriggerContext(ABC):
        """Context of a trigger, for the current key and window."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the time of the machine's clock, in ms."""

        @abstractmethod
        def get_metric_group(self) -> Any:
            """Return the group in which the trigger registers its metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the current watermark, in ms."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Call `on_processing_time` at that time, in ms."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Call `on_event_time` when the watermark reaches that time, in ms."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Delete the timer."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Delete the timer."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """State of the current key and window."""

    class OnMergeContext(TriggerContext):
        """Context of a trigger when windows merge."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merges the state of all merged windows into that of the result."""

    @abstractmethod
    def on_element(
        self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Called for each record of the window, after it was added."""

    @abstractmethod
    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Called when a processing-time timer fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when an event-time timer fires."""

    def can_merge(self) -> bool:
        """Return whether windows with this trigger may merge."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Called with the result when windows have merged."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Removes timers and state of a window that ends."""


class TimelessTrigger(Trigger[T, W]):
    """A trigger that registers no timers, or timers of one kind: the others do nothing."""

    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Does nothing."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Does nothing."""
        return TriggerResult.CONTINUE


class EventTimeTrigger(TimelessTrigger[Any, Window]):
    """Fires when the watermark passes the end of the window."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """Create a trigger."""
        return EventTimeTrigger()

    def on_element(
        self,
        element: Any,
        timestamp: int,
        window: Window,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Fires at once for late records, else waits for the end."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(
        self,
        time: int,
        window: Window,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Fires at the end of the window."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Waits for the end of the merged window, unless that has passed already."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Delete the timer."""
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(TimelessTrigger[Any, Window]):
    """Fires when the machine's clock passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Create a trigger."""
        return ProcessingTimeTrigger()

    def on_element(
        self,
        element: Any,
        timestamp: int,
        window: Window,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Waits for the end."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(
        self,
        time: int,
        window: Window,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Fires."""
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Waits for the end of the merged window, unless that has passed already."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Delete the timer."""
        ctx.delete_processing_time_timer(window.max_timestamp())


class Sum(ReduceFunction):
    """Adds, for counts that merge."""

    def reduce(self, value1: int, value2: int) -> int:
        """The sum."""
        return value1 + value2


class CountTrigger(TimelessTrigger[Any, Window]):
    """Fires at every so many records."""

    def __init__(self, window_size: int) -> None:
        """Create a trigger; `window_size` records fire."""
        self._window_size = window_size
        self._count = ReducingStateDescriptor("trigger_counter", Sum(), Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Create a trigger; `window_size` records fire."""
        return CountTrigger(window_size)

    def on_element(
        self,
        element: Any,
        timestamp: int,
        window: Window,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Counts, fires and starts anew."""
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Adds the counts."""
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Forgets the count."""
        ctx.get_partitioned_state(self._count).clear()


class NeverTrigger(TimelessTrigger[Any, Window]):
    """Never fires."""

    def on_element(
        self,
        element: Any,
        timestamp: int,
        window: Window,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Does nothing."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Does nothing."""

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Does nothing."""


class EndOfStreamTrigger(EventTimeTrigger):
    """Fires when event time ends, which is when the input does (beyond PyFlink)."""

    @staticmethod
    def create() -> EndOfStreamTrigger:
        """Create a trigger."""
        return EndOfStreamTrigger()

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Waits for the end."""
        ctx.register_event_time_timer(_END_OF_TIME)
        return TriggerResult.CONTINUE

    def on_event_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fires at the end."""
        return TriggerResult.FIRE if time == _END_OF_TIME else TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Waits for the end."""
        ctx.register_event_time_timer(_END_OF_TIME)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Delete the timer."""
        ctx.delete_event_time_timer(_END_OF_TIME)


class PurgingTrigger(Trigger[Any, Window]):
    """Drops the contents of the window whenever another trigger fires."""

    def __init__(self, nested_trigger: Trigger[Any, Any]) -> None:
        """Wraps a trigger."""
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger:
        """Wraps a trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """As the other trigger, purging."""
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """As the other trigger, purging."""
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """As the other trigger, purging."""
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        """As the other trigger."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """As the other trigger."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """As the other trigger."""
        self.nested_trigger.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
