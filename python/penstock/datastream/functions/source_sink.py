"""Sources and sinks as functions: Flink's older interface, open to Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, NoReturn

from penstock.common.basic_types import VALUE
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.datastream.functions.function import Function


class JavaFunctionWrapper(NoJavaMembers):
    """PyFlink's wrapper of Java functions, kept as the base class of its subclasses there."""

    def get_java_function(self) -> NoReturn:
        """Reject the call: there is no Java function."""
        requires_jvm(f"{type(self).__name__}.get_java_function", "use the object itself")


class SourceFunction(JavaFunctionWrapper, Function, Generic[VALUE]):
    """A source that runs its own loop."""

    def __init__(self, source_func: None = None) -> None:
        """Create the source.

        Args:
            source_func: Exists only for PyFlink's signature; must be None.

        Raises:
            JvmOnlyError: A Java class was named.
        """
        if source_func is not None:
            requires_jvm(
                f"SourceFunction({source_func!r})",
                "write run() and cancel() in Python, or pass a source to from_source",
            )

    class SourceContext(ABC):
        """The output of a source; call it in the task's thread."""

        @abstractmethod
        def collect(self, element: Any) -> None:
            """Emit a record without a timestamp."""

        @abstractmethod
        def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
            """Emit a record with its timestamp in ms."""

        @abstractmethod
        def emit_watermark(self, timestamp: int) -> None:
            """Emit a watermark in ms."""

        @abstractmethod
        def mark_as_temporarily_idle(self) -> None:
            """Mark the source idle: event time does not wait for it until it emits again."""

        @abstractmethod
        def get_checkpoint_lock(self) -> Any:
            """Return a context manager that delays checkpoints while it is held."""

        @abstractmethod
        def is_running(self) -> bool:
            """Return whether the source should continue; False after it was cancelled."""

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        """Emit records until the source ends or is cancelled."""
        raise NotImplementedError(f"{type(self).__name__}.run")

    def cancel(self) -> None:
        """Ask `run` to return; called from another thread."""

    def _as_source(self) -> Any:
        """Return the Source that replaces this function; None if the function is called."""
        return None


class ParallelSourceFunction(SourceFunction[VALUE]):
    """A source function that may run in several subtasks."""


class SinkFunction(JavaFunctionWrapper, Function):
    """A sink that is called once per record."""

    def __init__(self, sink_func: None = None) -> None:
        """Create the sink.

        Args:
            sink_func: Exists only for PyFlink's signature; must be None.

        Raises:
            JvmOnlyError: A Java class was named.
        """
        if sink_func is not None:
            requires_jvm(
                f"SinkFunction({sink_func!r})",
                "write invoke() in Python, or pass a sink to sink_to",
            )

    class Context(ABC):
        """The context of the current record."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time of the machine's clock, in ms."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the current watermark, in ms."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the record's timestamp in ms, or None."""

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Write a record."""
        raise NotImplementedError(f"{type(self).__name__}.invoke")

    def _as_sink(self) -> Any:
        """Return the Sink that replaces this function; None if the function is called."""
        return None
