"""SourceFunction: a source that owns its loop, in a thread of its own.

Its records, and everything else that runs in the task, take turns under one lock, the "checkpoint
lock" of the older interface.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from penstock.common.timestamps import timestamp_of
from penstock.datastream.functions.source_sink import SourceFunction
from penstock.errors import CancelTaskError
from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    MIN_TIMESTAMP,
    NOTHING_AVAILABLE,
    SourceOperator,
    StreamOperator,
    close_function,
    open_function,
)
from penstock.taskexecutor.logs.speaker import Speaker, current_speaker, speaks_for
from penstock.taskexecutor.sources.source_wait import SourceWait
from penstock.taskexecutor.sources.source_watermarks import with_watermarks

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_source_function(
    context: OperatorContext, descriptor: operators.FunctionSource
) -> StreamOperator:
    """Create the source; only ParallelSourceFunctions run in more than one subtask."""
    return with_watermarks(context, descriptor, SourceFunctionSource(descriptor.function))


class FunctionSourceContext(SourceFunction.SourceContext):
    """Output of the function; every call acquires the lock."""

    def __init__(self, source: SourceFunctionSource) -> None:
        """Create the context of a source."""
        self._source = source
        self._idle = False

    def collect(self, element: object) -> None:
        """Emit a record without timestamp."""
        self._collect(element, MIN_TIMESTAMP)

    def collect_with_timestamp(self, element: object, timestamp: int) -> None:
        """Emit a record with its timestamp in ms."""
        self._collect(element, timestamp_of(timestamp, "collect_with_timestamp"))

    def _collect(self, element: object, timestamp: int) -> None:
        source = self._source
        with source.lock:
            source.check_running()
            self._mark_active()
            source.output.collect(element, timestamp)

    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark in ms."""
        source = self._source
        with source.lock:
            source.check_running()
            self._mark_active()
            source.output.emit_watermark(timestamp_of(timestamp, "emit_watermark"))

    def mark_as_temporarily_idle(self) -> None:
        """Declare the source idle until it emits again, so that downstream does not wait for it."""
        source = self._source
        with source.lock:
            if not self._idle:
                self._idle = True
                source.output.emit_status(True)

    def get_checkpoint_lock(self) -> object:
        """Return the lock; emitting while holding it is allowed."""
        return self._source.lock

    def is_running(self) -> bool:
        """Return whether the source should continue."""
        return not (self._source.wait.cancelled or self._source.is_stopping)

    def _mark_active(self) -> None:
        if self._idle:
            self._idle = False
            self._source.output.emit_status(False)


class SourceFunctionSource(SourceOperator):
    """Starts the function's thread and waits for its end.

    Attributes:
        lock: Guards the operators of the task.
    """

    def __init__(self, function: Any) -> None:
        """Create the source; the first step starts the thread."""
        super().__init__()
        self.function = function
        self.lock = threading.RLock()
        self.wait = SourceWait()
        self.thread: threading.Thread | None = None
        self.ended = False
        self.is_stopping = False
        self.error: BaseException | None = None

    def open(self) -> None:
        """Open the function."""
        open_function(self.function, self.context)

    def emit_next(self, limit: int) -> int:
        """Start the thread if necessary; records are emitted there."""
        del limit
        if self.thread is None and not self.ended:
            self.thread = threading.Thread(
                target=self._run,
                args=(current_speaker(),),
                name=f"{self.context.name} source of {threading.current_thread().name}",
                daemon=True,
            )
            self.thread.start()
        if not self.ended:
            return NOTHING_AVAILABLE
        if self.error is not None:
            raise self.error
        return END_OF_DATA

    def check_running(self) -> None:
        """Unwind the function's thread once the task has ended.

        Raises:
            CancelTaskError: The task has ended.
        """
        if self.wait.cancelled:
            msg = f"{self.context.name} was cancelled"
            raise CancelTaskError(msg)

    def wait_available(self, timeout_ms: int) -> None:
        """Block until the function has ended, or the time is over."""
        if not self.ended:
            self.wait.wait(timeout_ms)

    def wakeup(self) -> None:
        """End a wait; any thread."""
        self.wait.wakeup()

    def stop(self) -> None:
        """Ask the function to end; records that it still emits count."""
        self.is_stopping = True
        self.function.cancel()
        if self.thread is None:
            self.ended = True

    def cancel(self) -> None:
        """End the source early; any thread."""
        self.wait.cancel()
        self.function.cancel()

    def close(self) -> None:
        """End the thread and close the function."""
        if self.thread is not None and not self.ended:
            self.cancel()
            self.thread.join(timeout=1)
        close_function(self.function, self.context)
        self.wait.close()

    def _run(self, speaker: Speaker | None) -> None:
        speaks_for(speaker)
        try:
            self.function.run(FunctionSourceContext(self))
        except BaseException as error:
            self.error = error
        self.ended = True
        self.wait.wakeup()
