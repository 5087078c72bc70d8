"""IterativeStream: a part of a program whose results flow back (beyond PyFlink)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock.datastream.data_stream.connected import ConnectedStreams
from penstock.datastream.data_stream.stream import DataStream, TypeArgument, type_argument
from penstock.errors import InvalidProgramError
from penstock.graph.transformations import (
    CoFeedbackTransformation,
    FeedbackTransformation,
    Transformation,
)

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

T = TypeVar("T")


class IterativeStream(DataStream[T]):
    """The head of an iteration: the records of the input and those fed back.

    The iteration ends when its input has ended and no record is left in the loop, or when no
    feedback arrives within the wait time of `DataStream.iterate`.  Registered processing-time
    timers do not keep it alive.
    """

    def __init__(
        self, environment: StreamExecutionEnvironment, feedback: FeedbackTransformation
    ) -> None:
        """Use `DataStream.iterate`."""
        super().__init__(environment, feedback)
        self._feedback = feedback

    def close_with(self, feedback_stream: DataStream[T]) -> DataStream[T]:
        """Feed the records of a stream back to the head.

        Args:
            feedback_stream: A stream that is derived from this one.

        Raises:
            InvalidProgramError: The argument is not derived from this stream, or has another type.
        """
        check_descends(feedback_stream.transformation, self._feedback)
        if feedback_stream.get_type() != self.get_type():
            raise InvalidProgramError(
                f"feedback of type {feedback_stream.get_type()} does not fit an iteration over "
                f"{self.get_type()}: use with_feedback_type"
            )
        self._feedback.add_feedback_edge(feedback_stream.transformation)
        return feedback_stream

    def with_feedback_type(self, feedback_type: TypeArgument = None) -> ConnectedIterativeStreams:
        """Return an iteration whose feedback has another type, as a second input."""
        return ConnectedIterativeStreams(
            self._environment,
            DataStream(self._environment, self._feedback.input),
            CoFeedbackTransformation(
                self._feedback.parallelism,
                type_argument(feedback_type, "with_feedback_type"),
                self._feedback.wait_time_ms,
            ),
        )


class ConnectedIterativeStreams(ConnectedStreams):
    """The head of an iteration with two inputs: the stream, and the feedback."""

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        input_stream: DataStream[Any],
        feedback: CoFeedbackTransformation,
    ) -> None:
        """Use `IterativeStream.with_feedback_type`."""
        super().__init__(input_stream, DataStream(environment, feedback))
        self._feedback = feedback

    def close_with(self, feedback_stream: DataStream[Any]) -> DataStream[Any]:
        """Feed the records of a stream back to the second input.

        Raises:
            InvalidProgramError: The argument is not derived from this iteration.
        """
        check_descends(feedback_stream.transformation, self._feedback)
        self._feedback.add_feedback_edge(feedback_stream.transformation)
        return feedback_stream


def check_descends(transformation: Transformation, head: Transformation) -> None:
    """Check that the feedback is derived from the iteration that it closes.

    Raises:
        InvalidProgramError: It is not.
    """
    waiting, seen = [transformation], set()
    while waiting:
        current = waiting.pop()
        if current is head:
            return
        if current.id not in seen:
            seen.add(current.id)
            waiting.extend(current.inputs)
    raise InvalidProgramError(
        f"close_with takes a stream derived from the iteration, which {transformation.name!r} is "
        "not"
    )
