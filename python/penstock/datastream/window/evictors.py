"""Evictors, which remove records before or after a window is evaluated (beyond PyFlink)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.common.constants import MIN_LONG_VALUE
from penstock.datastream.window.assigners import millis

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.time import Duration, Time
    from penstock.datastream.window.windows import Window

TimestampedElement = tuple[Any, int]
"""A record with its timestamp in ms, or -2**63 without a timestamp."""


class Evictor(ABC):
    """The base of evictors, which remove records from a window."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedElement], window: Window, watermark: int
    ) -> list[TimestampedElement]:
        """Return the records that the window function receives."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedElement], window: Window, watermark: int
    ) -> list[TimestampedElement]:
        """Return the records that stay in the window after the call of the function."""


class _OnceEvictor(Evictor):
    """The base of evictors with one rule, applied either before or after the function."""

    def __init__(self, do_evict_after: bool) -> None:
        self._do_evict_after = do_evict_after

    def _remaining(
        self, elements: list[TimestampedElement], window: Window
    ) -> list[TimestampedElement]:
        raise NotImplementedError

    def evict_before(
        self,
        elements: list[TimestampedElement],
        window: Window,
        watermark: int,  # noqa: ARG002
    ) -> list[TimestampedElement]:
        """Return the remaining records unless the rule applies after the function."""
        return elements if self._do_evict_after else self._remaining(elements, window)

    def evict_after(
        self,
        elements: list[TimestampedElement],
        window: Window,
        watermark: int,  # noqa: ARG002
    ) -> list[TimestampedElement]:
        """Return the remaining records if the rule applies after the function."""
        return self._remaining(elements, window) if self._do_evict_after else elements


class CountEvictor(_OnceEvictor):
    """An evictor that keeps the last `max_count` records."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        """Create an evictor."""
        super().__init__(do_evict_after)
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Create an evictor."""
        return CountEvictor(max_count, do_evict_after)

    def _remaining(
        self,
        elements: list[TimestampedElement],
        window: Window,  # noqa: ARG002
    ) -> list[TimestampedElement]:
        return elements[max(0, len(elements) - self._max_count) :]


class TimeEvictor(_OnceEvictor):
    """An evictor that keeps records less than `window_size` ms older than the latest one."""

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        """Create an evictor; the size is in ms."""
        super().__init__(do_evict_after)
        self._window_size = window_size

    @staticmethod
    def of(window_size: Duration | Time, do_evict_after: bool = False) -> TimeEvictor:
        """Create an evictor."""
        return TimeEvictor(millis(window_size, "window_size"), do_evict_after)

    def _remaining(
        self,
        elements: list[TimestampedElement],
        window: Window,  # noqa: ARG002
    ) -> list[TimestampedElement]:
        if not elements or elements[0][1] == MIN_LONG_VALUE:
            return elements
        cutoff = max(timestamp for _, timestamp in elements) - self._window_size
        return [element for element in elements if element[1] > cutoff]


class DeltaEvictor(_OnceEvictor):
    """An evictor that keeps records less than a threshold away from the last one."""

    def __init__(
        self,
        threshold: float,
        delta_function: Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> None:
        """Create an evictor; `delta_function(element, last)` measures the distance."""
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta_function = delta_function

    @staticmethod
    def of(
        threshold: float,
        delta_function: Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> DeltaEvictor:
        """Create an evictor."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _remaining(
        self,
        elements: list[TimestampedElement],
        window: Window,  # noqa: ARG002
    ) -> list[TimestampedElement]:
        if not elements:
            return elements
        last = elements[-1][0]
        return [e for e in elements if self._delta_function(e[0], last) < self._threshold]
