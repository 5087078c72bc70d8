"""IntervalJoin: pairs of one key whose timestamps lie within an interval (beyond PyFlink)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.time import Duration, Time
from penstock.datastream.data_stream.connected import add_two_input, common_key_type
from penstock.datastream.data_stream.stream import DataStream, TypeArgument, type_argument
from penstock.datastream.functions import ProcessJoinFunction
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.graph.transformations import TwoInputTransformation

if TYPE_CHECKING:
    from penstock.datastream.data_stream.keyed import KeyedStream
    from penstock.datastream.output_tag import OutputTag


class IntervalJoin(MissingMethods):
    """Two keyed streams without an interval; set it with `between`."""

    def __init__(self, left: KeyedStream[Any], right: KeyedStream[Any]) -> None:
        """Use `KeyedStream.interval_join`."""
        self._left = left
        self._right = right

    def between(self, lower_bound: Duration | Time, upper_bound: Duration | Time) -> IntervalJoined:
        """Join right records from left.ts + lower to left.ts + upper, both included.

        Raises:
            InvalidProgramError: The lower bound is above the upper one, or a bound is not a Time.
        """
        bounds: list[Any] = [lower_bound, upper_bound]
        for bound in bounds:
            if not isinstance(bound, Time | Duration):
                raise InvalidProgramError(f"between takes two Times or Durations, got {bound!r}")
        return IntervalJoined(
            self._left, self._right, lower_bound.to_milliseconds(), upper_bound.to_milliseconds()
        )


class IntervalJoined(MissingMethods):
    """Two keyed streams with an interval of event time."""

    def __init__(
        self, left: KeyedStream[Any], right: KeyedStream[Any], lower_ms: int, upper_ms: int
    ) -> None:
        """Use `IntervalJoin.between`."""
        self._left = left
        self._right = right
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._left_late_tag: OutputTag | None = None
        self._right_late_tag: OutputTag | None = None

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Exclude the lower bound itself; timestamps are whole ms."""
        self._lower_ms += 1
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Exclude the upper bound itself; timestamps are whole ms."""
        self._upper_ms -= 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Send left records behind the watermark to a side output."""
        self._left_late_tag = output_tag
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Send right records behind the watermark to a side output."""
        self._right_late_tag = output_tag
        return self

    def process(
        self, function: ProcessJoinFunction, output_type: TypeArgument = None
    ) -> DataStream[Any]:
        """Call a function with each pair; results have the larger timestamp of the two.

        Raises:
            InvalidProgramError: The lower bound is above the upper one.
        """
        check_function(function, ProcessJoinFunction, "interval join", or_callable=False)
        if self._lower_ms > self._upper_ms:
            raise InvalidProgramError(
                f"the lower bound ({self._lower_ms} ms) of an interval join is above the upper "
                f"one ({self._upper_ms} ms)"
            )
        left_selector, left_type = self._left._keys()
        right_selector, right_type = self._right._keys()
        left_tag, right_tag = self._left_late_tag, self._right_late_tag
        descriptor = operators.IntervalJoin(
            shipped(function, "interval join"),
            lower_bound_ms=self._lower_ms,
            upper_bound_ms=self._upper_ms,
            left_late_tag=None if left_tag is None else left_tag.tag_id,
            right_late_tag=None if right_tag is None else right_tag.tag_id,
        )
        return add_two_input(
            TwoInputTransformation,
            self._left,
            self._right,
            "Interval Join",
            descriptor,
            type_argument(output_type, "interval join"),
            left_selector,
            right_selector,
            common_key_type(left_type, right_type),
        )
