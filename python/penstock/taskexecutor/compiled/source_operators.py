# cython: annotation_typing=False, boundscheck=True
# The C types come from source_operators.pxd; the annotations below are for readers and mypy.
"""Sources: the operators that a task without input calls.

One source with two uses; see ``operator_loop``.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from penstock.taskexecutor.sources.adaptive_emission import LONG_STEP_NS, SLICE_NS

# Relative: when compiled, these are the classes that the .pxd cimports.
from .operator_loop import MIN_TIMESTAMP, Output, StreamOperator  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Results of ``SourceOperator.emit_next``: call again at once, call again after ``wait_available``,
#: or never again.
MORE_AVAILABLE = 0
NOTHING_AVAILABLE = 1
END_OF_DATA = 2


#: Records of an iterator between two checks of the clock.
TURN = 8


class SourceOperator(StreamOperator):
    """The head of a source task: emits records whenever the task requests a step."""

    def emit_next(self, limit: int) -> int:
        """Emit about ``limit`` records at most, without blocking.

        Returns:
            ``MORE_AVAILABLE``, ``NOTHING_AVAILABLE`` or ``END_OF_DATA``.
        """
        raise NotImplementedError(type(self).__name__ + ".emit_next")

    def wait_available(self, timeout_ms: int) -> None:
        """Block until more may be available, ``wakeup`` was called, or the time is over."""

    def wakeup(self) -> None:
        """End ``wait_available``, or the next call of it; any thread."""

    def cancel(self) -> None:
        """End the source early; any thread."""


class NumberSequenceSource(SourceOperator):
    """Emits the integers from ``start`` to ``end``, both included."""

    def __init__(self, start: int, end: int) -> None:
        SourceOperator.__init__(self)
        self.next = start
        self.end = end
        self.turn = 1

    def emit_next(self, limit: int) -> int:
        """Emit about ``limit`` records at most, without blocking."""
        first = start = self.next
        last = min(first + limit, self.end + 1)
        began_ns = monotonic_ns()
        took_ns = 0
        try:
            while first < last and took_ns < LONG_STEP_NS:
                number = min(first + self.turn, last)
                self.output.collect_all(range(first, number), MIN_TIMESTAMP)
                first = number
                took_ns = monotonic_ns() - began_ns
        except BaseException:
            self.note_failure()
            raise
        self.next = first
        self.turn = max(1, (first - start) * SLICE_NS // max(1, took_ns))
        return MORE_AVAILABLE if first <= self.end else END_OF_DATA


class IteratorSource(SourceOperator):
    """Emits the items of an iterator."""

    def __init__(self, iterator: Iterator[object]) -> None:
        SourceOperator.__init__(self)
        self.iterator = iterator

    def emit_next(self, limit: int) -> int:
        """Emit about ``limit`` records at most, without blocking."""
        output: Output = self.output
        none = MIN_TIMESTAMP
        remaining = limit
        began_ns = monotonic_ns()
        try:
            for element in self.iterator:
                output.collect(element, none)
                remaining -= 1
                if remaining <= 0:
                    return MORE_AVAILABLE
                if remaining % TURN == 0 and monotonic_ns() - began_ns >= LONG_STEP_NS:
                    return MORE_AVAILABLE
        except BaseException:
            self.note_failure()
            raise
        return END_OF_DATA
