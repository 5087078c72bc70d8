"""The outputs of a split: a record goes where one of its names was selected."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.compiled import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class SplitOutput(Output):
    """Sends each record to the outputs that selected one of the names it is given.

    An output without selected names takes every record.  Watermarks go everywhere.
    """

    def __init__(
        self,
        outputs: Sequence[tuple[Output, tuple[str, ...]]],
        selectors: Sequence[Callable[[Any], Iterable[str]]],
    ) -> None:
        """Joins outputs.

        Args:
            outputs: Receivers and the names they selected.
            selectors: Give the names of a record; those of all of them count.
        """
        self._outputs = [(output, frozenset(names)) for output, names in outputs]
        self._selectors = list(selectors)

    def collect(self, value: Any, timestamp: int) -> None:
        """Process a record."""
        names: set[str] = set()
        for select in self._selectors:
            names.update(select(value))
        for output, selected in self._outputs:
            if not selected or not names.isdisjoint(selected):
                output.collect(value, timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        """Passes a watermark on."""
        for output, _ in self._outputs:
            output.emit_watermark(timestamp)

    def emit_status(self, idle: bool) -> None:
        """Passes a change of idleness on."""
        for output, _ in self._outputs:
            output.emit_status(idle)

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Passes a latency marker on."""
        output, _ = random.choice(self._outputs)
        output.emit_latency_marker(marked_time, operator_id_lower, operator_id_upper, subtask)
