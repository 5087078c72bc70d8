# ruff: noqa: ARG002 - a trigger rarely needs all of its arguments
"""A trigger that compares records (beyond PyFlink)."""

from __future__ import annotations

from typing import Any

from penstock.common.typeinfo import Types
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window.triggers import TimelessTrigger, Trigger, TriggerResult
from penstock.datastream.window.windows import Window
from penstock.errors import InvalidProgramError


class DeltaTrigger(TimelessTrigger[Any, Window]):
    """A trigger that fires when a record is too far from the last one that fired it."""

    def __init__(self, threshold: float, delta_function: Any) -> None:
        """Create a trigger; `delta_function(old, new)` measures the distance."""
        self._threshold = threshold
        self._delta_function = delta_function
        self._last = ValueStateDescriptor("delta-last-element", Types.PICKLED_BYTE_ARRAY())

    @staticmethod
    def of(threshold: float, delta_function: Any) -> DeltaTrigger:
        """Create a trigger.

        Raises:
            InvalidProgramError: The distance function is not callable.
        """
        if not callable(delta_function):
            raise InvalidProgramError(f"DeltaTrigger takes a callable, got {delta_function!r}")
        return DeltaTrigger(threshold, delta_function)

    def on_element(
        self,
        element: Any,
        timestamp: int,
        window: Window,
        ctx: Trigger.TriggerContext,
    ) -> TriggerResult:
        """Fire when the distance exceeds the threshold."""
        last = ctx.get_partitioned_state(self._last)
        if last.value() is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if self._delta_function(last.value(), element) <= self._threshold:
            return TriggerResult.CONTINUE
        last.update(element)
        return TriggerResult.FIRE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Do nothing: windows with this trigger do not merge."""

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Remove the stored record."""
        ctx.get_partitioned_state(self._last).clear()
