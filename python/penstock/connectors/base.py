"""Source and Sink: the base classes of connectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.common.basic_types import VALUE
from penstock.common.calls.jvm import requires_jvm
from penstock.datastream.functions.source_sink import JavaFunctionWrapper

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation
    from penstock.graph.operators import OperatorDescriptor, SourceDescriptor

#: A DataStream; connectors do not import streams.
StreamT = TypeVar("StreamT")


class Source(JavaFunctionWrapper, Generic[VALUE]):
    """Source of a stream; pass it to `StreamExecutionEnvironment.from_source`."""

    def __init__(self, source: Any) -> None:
        """Create a source; Python subclasses pass None.

        Raises:
            JvmOnlyError: A Java source, or the name of its class, was passed.
        """
        if source is not None:
            requires_jvm("Source(java_source)", "subclass Source in Python, or use a connector")

    def source_operator(self) -> SourceDescriptor:
        """Return the descriptor of the operator that reads the source."""
        raise NotImplementedError(f"{type(self).__name__}.source_operator")

    def is_bounded(self) -> bool:
        """Return whether the source is bounded."""
        return True

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records, or None if it is not declared."""
        return None


class Sink(JavaFunctionWrapper):
    """Sink of a stream; pass it to `DataStream.sink_to`."""

    def __init__(self, sink: Any) -> None:
        """Create a sink; Python subclasses pass None.

        Raises:
            JvmOnlyError: A Java sink, or the name of its class, was passed.
        """
        if sink is not None:
            requires_jvm("Sink(java_sink)", "subclass Sink in Python, or use a connector")

    def sink_operator(self) -> OperatorDescriptor:
        """Return the descriptor of the operator that writes into the sink."""
        raise NotImplementedError(f"{type(self).__name__}.sink_operator")

    def committer_operator(self) -> OperatorDescriptor | None:
        """Return the descriptor of the committer, or None if the sink does not commit."""
        return None

    def compactor_operator(self) -> OperatorDescriptor | None:
        """Return the descriptor of the compactor between writers and committers, or None."""
        return None

    def key_of_records(self) -> Callable[[Any], Any] | None:
        """Return the key selector whose records go to one writer, in order; None for any writer."""
        return None

    def has_global_committer(self) -> bool:
        """Return whether one committer serves all writers."""
        return False


class StreamTransformer(ABC, Generic[StreamT]):
    """Transforms a stream before it reaches a sink."""

    @abstractmethod
    def apply(self, ds: StreamT) -> StreamT:
        """Return the transformed stream."""


class SupportsPreprocessing(ABC):
    """A sink that transforms its input stream."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer[Any] | None:
        """Return the transformation of the stream, or None."""


class DeliveryGuarantee(Enum):
    """Guarantee of a sink when a job fails and recovers."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = (1,)
    NONE = 2
