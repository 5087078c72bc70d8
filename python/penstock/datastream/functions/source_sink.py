"""Sources and sinks as functions: the older interface, here open to Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

from penstock.common.jvm import requires_jvm
from penstock.common.missing_methods import NoJavaMembers
from penstock.datastream.functions.function import Function


class JavaFunctionWrapper(NoJavaMembers):
    """PyFlink's wrapper of Java functions; kept as the base of what it wraps there."""

    def get_java_function(self) -> NoReturn:
        """Reject the call: there is no Java function behind it."""
        requires_jvm(f"{type(self).__name__}.get_java_function", "use the object itself")


class SourceFunction(JavaFunctionWrapper, Function):
    """A source that owns its loop."""

    def __init__(self, source_func: None = None) -> None:
        """Creates the source.

        Args:
            source_func: Exists only for PyFlink's signature; must be None.

        Raises:
            JvmOnlyError: A Java class was named.
        """
        if source_func is not None:
            requires_jvm(
                f"SourceFunction({source_func!r})",
                "write run() and cancel() in Python, or give a source to from_source",
            )

    class SourceContext(ABC):
        """Output of a source; call it in the task's thread."""

        @abstractmethod
        def collect(self, element: Any) -> None:
            """Emits a record without timestamp."""

        @abstractmethod
        def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
            """Emits a record with its timestamp in ms."""

        @abstractmethod
        def emit_watermark(self, timestamp: int) -> None:
            """Emits a watermark in ms."""

        @abstractmethod
        def mark_as_temporarily_idle(self) -> None:
            """Says that downstream need not wait for this source until it emits again."""

        @abstractmethod
        def get_checkpoint_lock(self) -> Any:
            """Return a context manager: no checkpoint is taken inside it."""

        @abstractmethod
        def is_running(self) -> bool:
            """Return whether the source should go on; False once it was cancelled."""

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        """Emits records until the source is at its end or was cancelled."""
        raise NotImplementedError(f"{type(self).__name__}.run")

    def cancel(self) -> None:
        """Asks `run` to return; called from another thread."""

    def _as_source(self) -> Any:
        """The Source that this is in another form; None for a function that is called."""
        return None


class ParallelSourceFunction(SourceFunction):
    """A source function that may run in several subtasks."""


class SinkFunction(JavaFunctionWrapper, Function):
    """A sink called once per record."""

    def __init__(self, sink_func: None = None) -> None:
        """Creates the sink.

        Args:
            sink_func: Exists only for PyFlink's signature; must be None.

        Raises:
            JvmOnlyError: A Java class was named.
        """
        if sink_func is not None:
            requires_jvm(
                f"SinkFunction({sink_func!r})",
                "write invoke() in Python, or give a sink to sink_to",
            )

    class Context(ABC):
        """Context of the current record."""

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
        """Takes a record."""
        raise NotImplementedError(f"{type(self).__name__}.invoke")

    def _as_sink(self) -> Any:
        """The Sink that this is in another form; None for a function that is called."""
        return None
