"""RMQSink: publishes records to a queue."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.serialization import SerializationSchema
from penstock.connectors.messages import wait_until
from penstock.connectors.rabbitmq.connection import BrokerThread
from penstock.connectors.rabbitmq.source import check_arguments
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.datastream.functions.source_sink import SinkFunction
from penstock.errors import SinkError, WrongArgumentError
from penstock.formats.misfit import meant_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.rabbitmq.connection_config import RMQConnectionConfig

#: The largest number of messages in flight; if there are more, writing waits.
_MOST_UNDER_WAY: Final = 2000

#: The largest number of messages in a transaction.
_BATCH: Final = 1000

#: The delivery mode of messages that survive a restart of the broker.
_PERSISTENT: Final = 2


@checks_arguments
class RMQSink(SinkFunction):
    """Publishes records to a queue, at least once; for `DataStream.add_sink`.

    Before each checkpoint the broker has accepted all earlier messages.  After a failure
    messages are published again.
    """

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        serialization_schema: SerializationSchema,
        *,
        correlation_id: Callable[[Any], str] | None = None,
        timeout_ms: int = 120_000,
    ) -> None:
        """Create a sink.

        Args:
            connection_config: The address of the broker.
            queue_name: The queue; declared as durable if it is missing.
            serialization_schema: Serialises a record to the body of a message.
            correlation_id: Function that returns the id of a record's message, by which an
                `RMQSource` recognises repeated messages (beyond PyFlink).
            timeout_ms: How long to wait for the broker to accept the next messages, after the first
                connection (beyond PyFlink).

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: The package pika is not installed.
        """
        check_arguments("RMQSink", connection_config, queue_name)
        schema: Any = serialization_schema
        if not isinstance(schema, SerializationSchema):
            raise WrongArgumentError(f"RMQSink takes a SerializationSchema, got {schema!r}")
        function: Any = correlation_id
        if function is not None and not callable(function):
            raise WrongArgumentError(
                f"RMQSink: correlation_id is a function of a record, got {correlation_id!r}"
            )
        if timeout_ms < 1:
            raise WrongArgumentError(f"RMQSink: timeout_ms is at least 1, got {timeout_ms}")
        self._sink = _QueueSink(
            connection_config, queue_name, schema, correlation_id, timeout_ms / 1000
        )

    def _as_sink(self) -> PythonSink[Any]:
        return self._sink


class _QueueSink(PythonSink[Any]):
    def __init__(
        self,
        config: RMQConnectionConfig,
        queue: str,
        schema: SerializationSchema,
        correlation_id: Callable[[Any], str] | None,
        timeout_s: float,
    ) -> None:
        super().__init__()
        self.config, self.queue, self.schema = config, queue, schema
        self.correlation_id, self.timeout_s = correlation_id, timeout_s

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        del context
        return _QueueWriter(self)


class _Publisher(BrokerThread):
    """Publishes pending messages in transactions; repeats a transaction after a reconnect."""

    def __init__(self, sink: _QueueSink) -> None:
        super().__init__("RMQSink", sink.config, sink.queue, SinkError)
        self._waiting: deque[tuple[bytes, str | None]] = deque()

    def put(self, body: bytes, correlation_id: str | None) -> None:
        """Queue a message to be published."""
        with self.condition:
            self._waiting.append((body, correlation_id))
            is_first = len(self._waiting) == 1
        if is_first:
            self.wake()

    def under_way(self) -> int:
        """Return the number of messages that the broker has not accepted."""
        with self.condition:
            return len(self._waiting)

    def on_connected(self, channel: Any) -> None:
        """Register for unroutable messages."""
        channel.add_on_return_callback(self._on_return)

    def work(self, channel: Any) -> None:
        """Publish all pending messages."""
        while self.failure is None:
            with self.condition:
                batch = [self._waiting[n] for n in range(min(_BATCH, len(self._waiting)))]
            if not batch:
                return
            properties = self._library.BasicProperties
            for body, correlation_id in batch:
                named = properties(correlation_id=correlation_id, delivery_mode=_PERSISTENT)
                channel.basic_publish("", self.queue, body, named, mandatory=True)
            self.commit(channel)
            # Returned messages arrive before the response to the commit.
            channel.connection.process_data_events(time_limit=0)
            with self.condition:
                if self.failure is None:
                    for _ in batch:
                        self._waiting.popleft()
                self.condition.notify_all()

    def _on_return(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        del channel, properties, body
        self.fail(f"has no queue {self.queue!r} any more: {method.reply_text}")


class _QueueWriter(SinkWriter[Any]):
    def __init__(self, sink: _QueueSink) -> None:
        self._sink = sink
        self._publisher = _Publisher(sink)
        self._publisher.start()

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Queue a record to be published; wait while too many are in flight."""
        del context
        sink = self._sink
        with meant_for(f"the queue {sink.queue!r}"):
            body = sink.schema.serialize(element)
        correlation_id = None if sink.correlation_id is None else sink.correlation_id(element)
        if correlation_id is not None and not isinstance(correlation_id, str):
            raise SinkError(
                f"RMQSink of queue {sink.queue!r}: a correlation id is a text, got "
                f"{correlation_id!r}"
            )
        self._wait_for_less_than(_MOST_UNDER_WAY)
        self._publisher.put(body, correlation_id)

    def flush(self, end_of_input: bool) -> None:
        """Wait until the broker has accepted all messages."""
        del end_of_input
        self._wait_for_less_than(1)

    def close(self) -> None:
        """Close the connection."""
        self._publisher.close()

    def _wait_for_less_than(self, limit: int) -> None:
        """Wait until fewer messages than the limit are in flight."""
        publisher = self._publisher
        wait_until(
            publisher,
            lambda: publisher.under_way() < limit,
            self._sink.timeout_s,
            publisher.shown,
        )
