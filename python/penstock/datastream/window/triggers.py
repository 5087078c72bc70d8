# ruff: noqa: ARG002 - a trigger rarely needs all of its arguments
"""Triggers, which decide when a window is evaluated.

The window operator calls a trigger, which is immutable: it stores values in partitioned state of
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
    """The decision of a trigger; the value is (fire, purge)."""

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
    """The base of triggers, which decide when a window is evaluated."""

    class TriggerContext(ABC):
        """The context of a trigger, for the current key and window."""

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
            """Return the state of the current key and window."""

    class OnMergeContext(TriggerContext):
        """The context of a trigger when windows merge."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the state of all merged windows into that of the result."""

    @abstractmethod
    def on_element(
        self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Decide after a record was added to the window."""

    @abstractmethod
    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Decide when a processing-time timer fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Decide when an event-time timer fires."""

    def can_merge(self) -> bool:
        """Return whether windows with this trigger may merge."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Handle the merge of windows into `window`."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Delete the timers and state of a window that ends."""


class TimelessTrigger(Trigger[T, W]):
    """A trigger without timers, or with timers of one kind; the other kinds do nothing."""

    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE


class EventTimeTrigger(TimelessTrigger[Any, Window]):
    """A trigger that fires when the watermark passes the end of the window."""

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
        """Fire at once for late records, else wait for the end."""
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
        """Fire at the end of the window."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the end of the merged window, unless it has passed already."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Delete the timer."""
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(TimelessTrigger[Any, Window]):
    """A trigger that fires when the machine's clock passes the end of the window."""

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
        """Wait for the end."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(
        self,
        time: int,
        window: Window,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Fire."""
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the end of the merged window, unless it has passed already."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Delete the timer."""
        ctx.delete_processing_time_timer(window.max_timestamp())


class Sum(ReduceFunction):
    """The sum, for the counts of windows that merge."""

    def reduce(self, value1: int, value2: int) -> int:
        """Return the sum."""
        return value1 + value2


class CountTrigger(TimelessTrigger[Any, Window]):
    """A trigger that fires after every `window_size` records."""

    def __init__(self, window_size: int) -> None:
        """Create a trigger; it fires after every `window_size` records."""
        self._window_size = window_size
        self._count = ReducingStateDescriptor("trigger_counter", Sum(), Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Create a trigger; it fires after every `window_size` records."""
        return CountTrigger(window_size)

    def on_element(
        self,
        element: Any,
        timestamp: int,
        window: Window,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Count the record; fire and reset the count if it is reached."""
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Add the counts."""
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Remove the count."""
        ctx.get_partitioned_state(self._count).clear()


class NeverTrigger(TimelessTrigger[Any, Window]):
    """A trigger that never fires."""

    def on_element(
        self,
        element: Any,
        timestamp: int,
        window: Window,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Do nothing."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Do nothing."""

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Do nothing."""


class EndOfStreamTrigger(EventTimeTrigger):
    """A trigger that fires when event time ends, with the input (beyond PyFlink)."""

    @staticmethod
    def create() -> EndOfStreamTrigger:
        """Create a trigger."""
        return EndOfStreamTrigger()

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Wait for the end."""
        ctx.register_event_time_timer(_END_OF_TIME)
        return TriggerResult.CONTINUE

    def on_event_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Fire at the end."""
        return TriggerResult.FIRE if time == _END_OF_TIME else TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the end."""
        ctx.register_event_time_timer(_END_OF_TIME)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Delete the timer."""
        ctx.delete_event_time_timer(_END_OF_TIME)


class PurgingTrigger(Trigger[Any, Window]):
    """A trigger that purges the window whenever the nested trigger fires."""

    def __init__(self, nested_trigger: Trigger[Any, Any]) -> None:
        """Wrap a trigger."""
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger:
        """Wrap a trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Return the nested trigger's decision, purging if it fires."""
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Return the nested trigger's decision, purging if it fires."""
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Return the nested trigger's decision, purging if it fires."""
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        """Return whether the nested trigger can merge."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Call the nested trigger."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Clear the nested trigger."""
        self.nested_trigger.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
