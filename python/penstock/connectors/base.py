"""Source and Sink: the interface of connectors for programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.common.jvm import requires_jvm
from penstock.datastream.functions.source_sink import JavaFunctionWrapper

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation
    from penstock.graph.operators import OperatorDescriptor, SourceDescriptor

#: A DataStream; connectors know no streams.
StreamT = TypeVar("StreamT")


class Source(JavaFunctionWrapper):
    """Source of a stream; pass it to `StreamExecutionEnvironment.from_source`."""

    def __init__(self, source: Any) -> None:
        """Create a source; subclasses say which, and pass None.

        Raises:
            JvmOnlyError: A Java source, or the name of its class, was passed.
        """
        if source is not None:
            requires_jvm("Source(java_source)", "subclass Source in Python, or use a connector")

    def source_operator(self) -> SourceDescriptor:
        """The operator that reads the source."""
        raise NotImplementedError(f"{type(self).__name__}.source_operator")

    def is_bounded(self) -> bool:
        """Return whether the source comes to an end."""
        return True

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the elements, None when it is not declared."""
        return None


class Sink(JavaFunctionWrapper):
    """Sink of a stream; pass it to `DataStream.sink_to`."""

    def __init__(self, sink: Any) -> None:
        """Create a sink; subclasses say which, and pass None.

        Raises:
            JvmOnlyError: A Java sink, or the name of its class, was passed.
        """
        if sink is not None:
            requires_jvm("Sink(java_sink)", "subclass Sink in Python, or use a connector")

    def sink_operator(self) -> OperatorDescriptor:
        """The operator that writes the sink."""
        raise NotImplementedError(f"{type(self).__name__}.sink_operator")

    def committer_operator(self) -> OperatorDescriptor | None:
        """The operator that commits what the writers emit; None for a sink that does not."""
        return None

    def compactor_operator(self) -> OperatorDescriptor | None:
        """The operator between writers and committers that makes few files of many; or None."""
        return None

    def key_of_records(self) -> Callable[[Any], Any] | None:
        """Return the key whose records go to one writer in their order; None for any writer."""
        return None

    def has_global_committer(self) -> bool:
        """Return whether one committer serves all writers."""
        return False


class StreamTransformer(ABC, Generic[StreamT]):
    """Changes a stream before it reaches a sink."""

    @abstractmethod
    def apply(self, ds: StreamT) -> StreamT:
        """The changed stream."""


class SupportsPreprocessing(ABC):
    """A sink whose stream is transformed before it."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer[Any] | None:
        """Return the transformation of the stream, or None."""


class DeliveryGuarantee(Enum):
    """Guarantee of a sink when a job fails and recovers."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = (1,)
    NONE = 2
