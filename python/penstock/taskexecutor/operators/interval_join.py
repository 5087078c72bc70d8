"""Joins two keyed streams whose records are close in event time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.join import ProcessJoinFunction
from penstock.errors import InvalidProgramError
from penstock.taskexecutor.compiled import MIN_TIMESTAMP, StreamOperator
from penstock.taskexecutor.operators.function_timers import ResultEmitter
from penstock.taskexecutor.operators.two_input import TwoInputOperator

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_LEFT, _RIGHT = 0, 1


def create_interval_join(
    context: OperatorContext, descriptor: operators.IntervalJoin
) -> StreamOperator:
    """Create the operator that joins left and right records of a key."""
    return IntervalJoinOperator(context, descriptor)


class JoinContext(ProcessJoinFunction.Context):
    """The timestamps of the current pair; one object for all pairs."""

    def __init__(self) -> None:
        """Create the context without a pair."""
        self.left = MIN_TIMESTAMP
        self.right = MIN_TIMESTAMP

    def get_left_timestamp(self) -> int:
        """Return the timestamp of the left record."""
        return self.left

    def get_right_timestamp(self) -> int:
        """Return the timestamp of the right record."""
        return self.right

    def get_timestamp(self) -> int:
        """Return the larger of both timestamps."""
        return max(self.left, self.right)


class IntervalJoinOperator(TwoInputOperator):
    """Keeps the records of both sides while partners may arrive, and joins each with them.

    The records of a side and key are stored by timestamp.  A timer of event time removes those of a
    timestamp when no partner can arrive any more.
    """

    def __init__(self, context: OperatorContext, descriptor: operators.IntervalJoin) -> None:
        """Create the operator."""
        function = descriptor.function
        super().__init__(function)
        lower, upper = descriptor.lower_bound_ms, descriptor.upper_bound_ms
        #: By side, the bounds of the other side's timestamps relative to its own.
        self.bounds = ((lower, upper), (-upper, -lower))
        self.late_tags = (descriptor.left_late_tag, descriptor.right_late_tag)
        self.keys: tuple[Any, Any] = (context.key_reader(0), context.key_reader(1))
        self.join = function.process_element
        self.state = context.keyed_state
        self.buffers = (
            context.keyed_state.table("left-buffer", "map").map(None),
            context.keyed_state.table("right-buffer", "map").map(None),
        )
        self.timers = context.timer_service(self)
        self.join_context = JoinContext()
        types = (*context.config.input_types, None, None)
        self.copiers = tuple(context.isolation.copier("joins", types[side]) for side in (0, 1))

    def process1(self, value: object, timestamp: int) -> None:
        """Process a left record."""
        self._process(_LEFT, value, timestamp)

    def process2(self, value: object, timestamp: int) -> None:
        """Process a right record."""
        self._process(_RIGHT, value, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Remove records for which no partner can arrive any more."""
        self.timers.advance_watermark(timestamp)
        self.output.emit_watermark(timestamp)

    def on_event_time(self, timestamp: int, key: object, namespace: Any) -> None:
        """Remove the records of one timestamp from a side."""
        del timestamp
        side, element_timestamp = namespace
        buffer = self.buffers[side].get(key)
        if buffer is not None:
            buffer.pop(element_timestamp, None)
            if not buffer:
                self.buffers[side].remove(key)

    def on_processing_time(self, timestamp: int, key: object, namespace: object) -> None:
        """Do nothing: the operator has timers of event time only."""

    def _process(self, side: int, value: object, timestamp: int) -> None:
        if timestamp == MIN_TIMESTAMP:
            msg = (
                "an interval join received a record without a timestamp: call "
                "assign_timestamps_and_watermarks(…) with a timestamp assigner before it"
            )
            raise InvalidProgramError(msg)
        if timestamp < self.timers.current_watermark:
            tag = self.late_tags[side]
            if tag is not None:
                self.output.collect_side(tag, value, timestamp)
            return
        key = self.keys[side].read(value)
        self.state.current_key = key
        buffer = self.buffers[side].get(key)
        if buffer is None:
            self.buffers[side].put(key, {timestamp: [value]})
        else:
            buffer.setdefault(timestamp, []).append(value)
        lower, upper = self.bounds[side]
        partners = self.buffers[1 - side].get(key)
        if partners:
            for other in sorted(t for t in partners if timestamp + lower <= t <= timestamp + upper):
                for partner in partners[other]:
                    if side == _LEFT:
                        self._emit(value, partner, timestamp, other)
                    else:
                        self._emit(partner, value, other, timestamp)
        cleanup_time = timestamp + upper if upper > 0 else timestamp
        self.timers.register_event_time_timer((side, timestamp), cleanup_time)

    def _emit(self, left: object, right: object, left_timestamp: int, right_timestamp: int) -> None:
        context = self.join_context
        context.left, context.right = left_timestamp, right_timestamp
        left_copier, right_copier = self.copiers
        # Both stay in the buffers for later pairs.
        if left_copier is not None:
            left = left_copier.copied(left)
        if right_copier is not None:
            right = right_copier.copied(right)
        ResultEmitter.emit(self.output, self.join(left, right, context), context.get_timestamp())
