"""Sinks in Python, as Flink's Sink V2 interfaces (beyond PyFlink).

A sink makes one writer for each of its subtasks.  All methods of a writer are called in the thread
of its task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.datastream.connectors.base import Sink
from penstock.graph.operators import OperatorDescriptor

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration

__all__ = ["PythonSink", "SinkWriter", "WriterInitContext"]

T = TypeVar("T")


class SinkWriter(ABC, Generic[T]):
    """Writes the elements of one subtask."""

    class Context(ABC):
        """What is known about the current element."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The event time reached, in ms."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The element's timestamp in ms, None when it has none."""

    @abstractmethod
    def write(self, element: T, context: SinkWriter.Context) -> None:
        """Takes an element; it may be kept until `flush`."""

    def write_watermark(self, watermark: int) -> None:
        """Event time reached ``watermark``, in ms."""

    @abstractmethod
    def flush(self, end_of_input: bool) -> None:
        """Writes whatever is kept; afterwards nothing taken so far can be lost.

        Args:
            end_of_input: Whether no element follows.
        """

    def close(self) -> None:
        """Called once, however the task ends."""


class WriterInitContext(ABC):
    """What a writer may ask when it is made."""

    @abstractmethod
    def get_index_of_subtask(self) -> int:
        """The writer's subtask, from 0."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """The number of writers."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """How often the subtask was started before, from 0."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The time of the machine's clock in ms."""

    @abstractmethod
    def metric_group(self) -> Any:
        """Where the writer registers its metrics."""

    @abstractmethod
    def get_configuration(self) -> Configuration:
        """The job's configuration."""


class PythonSink(Sink, ABC, Generic[T]):
    """A sink written in Python, for `DataStream.sink_to`."""

    def __init__(self) -> None:
        """Makes a sink."""
        super().__init__(None)

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> SinkWriter[T]:
        """Makes the writer of a subtask."""

    def sink_operator(self) -> OperatorDescriptor:
        """Writes with the sink's writer."""
        return OperatorDescriptor("sink_writer", self)
