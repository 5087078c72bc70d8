"""Settings of joins within intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.calls.missing_methods import MissingMethods
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from typing import Self

    from penstock.datastream.data_stream.settings import StreamSettings
    from penstock.datastream.output_tag import OutputTag


class IntervalBounds(MissingMethods):
    """Bounds and late records of two keyed streams that are joined in an interval of event time."""

    def __init__(
        self, left: StreamSettings, right: StreamSettings, lower_ms: int, upper_ms: int
    ) -> None:
        """Use `IntervalJoin.between`."""
        self._left = left
        self._right = right
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._left_late_tag: OutputTag | None = None
        self._right_late_tag: OutputTag | None = None

    def lower_bound_exclusive(self) -> Self:
        """Exclude the lower bound itself; timestamps are whole ms."""
        self._lower_ms += 1
        return self

    def upper_bound_exclusive(self) -> Self:
        """Exclude the upper bound itself; timestamps are whole ms."""
        self._upper_ms -= 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Send left records behind the watermark to a side output."""
        self._left_late_tag = output_tag
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Send right records behind the watermark to a side output."""
        self._right_late_tag = output_tag
        return self

    def _check_bounds(self) -> None:
        if self._lower_ms > self._upper_ms:
            raise InvalidProgramError(
                f"the lower bound ({self._lower_ms} ms) of an interval join is above the upper "
                f"one ({self._upper_ms} ms)"
            )
