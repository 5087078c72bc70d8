"""The outputs of a split: each record goes to the outputs that selected one of its names."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from penstock.taskexecutor.compiled import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class SplitOutput(Output):
    """Sends each record to the outputs that selected one of the record's names.

    An output without selected names receives every record.  Watermarks go everywhere.
    """

    def __init__(
        self,
        outputs: Sequence[tuple[Output, tuple[str, ...]]],
        selectors: Sequence[Callable[[object], Iterable[str]]],
    ) -> None:
        """Join outputs.

        Args:
            outputs: Receivers and the names that they selected.
            selectors: Return the names of a record; the names of all selectors count.
        """
        self._outputs = [(output, frozenset(names)) for output, names in outputs]
        self._selectors = list(selectors)

    def collect(self, value: object, timestamp: int) -> None:
        """Send one record to the selecting outputs."""
        names: set[str] = set()
        for select in self._selectors:
            names.update(select(value))
        for output, selected in self._outputs:
            if not selected or not names.isdisjoint(selected):
                output.collect(value, timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        """Forward a watermark."""
        for output, _ in self._outputs:
            output.emit_watermark(timestamp)

    def emit_status(self, idle: bool) -> None:
        """Forward a change of idleness."""
        for output, _ in self._outputs:
            output.emit_status(idle)

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Forward a latency marker to one random output."""
        output, _ = random.choice(self._outputs)
        output.emit_latency_marker(marked_time, operator_id_lower, operator_id_upper, subtask)
