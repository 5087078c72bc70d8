"""The sink of ``print()``: one line for each record on standard output or error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.taskexecutor.compiled import StreamOperator
from penstock.taskexecutor.logs.printed_text import printed_stream
from penstock.taskexecutor.sinks.element_text import printed_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.logs.printed_text import PrintedStream

#: Longest time that lines may stay in the stream's buffer, in ms.
_FLUSH_AFTER_MS = 100


def create_print_sink(context: OperatorContext, descriptor: operators.PrintSink) -> StreamOperator:
    """Create the sink with the prefix ``identifier:subtask> ``, as far as set; subtasks from 1."""
    parts = [descriptor.identifier] if descriptor.identifier else []
    if context.environment.parallelism > 1:
        parts.append(str(context.environment.subtask + 1))
    prefix = ":".join(parts) + "> " if parts else ""
    stream = printed_stream(is_error=descriptor.to_error)
    return PrintSink(prefix, stream, printed_text(context))


class PrintSink(StreamOperator):
    """Writes a line for each record, in the text that PyFlink prints."""

    def __init__(self, prefix: str, stream: PrintedStream, text: Callable[[object], str]) -> None:
        """Create the sink.

        Args:
            prefix: Precedes every line.
            stream: The output stream.
            text: Formats a record.
        """
        super().__init__()
        self.prefix = prefix
        self.stream = stream
        self.text = text
        self.unflushed = False

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        del timestamp
        self.stream.write(f"{self.prefix}{self.text(value)}\n")
        if not self.unflushed:
            self.unflushed = True
            timers = self.context.processing_time
            timers.register(timers.now() + _FLUSH_AFTER_MS, self._flush)

    def finish(self) -> None:
        """Flush the stream."""
        self._flush(0)

    def close(self) -> None:
        """Flush the stream."""
        self._flush(0)

    def _flush(self, timestamp: int) -> None:
        del timestamp
        self.unflushed = False
        self.stream.flush()
