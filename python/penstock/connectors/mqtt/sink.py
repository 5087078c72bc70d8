"""MqttSink: publishes records as messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.serialization import SerializationSchema, SimpleStringSchema
from penstock.connectors.messages import wait_until
from penstock.connectors.mqtt.connection import (
    MAX_TOPIC_BYTES,
    MqttConnection,
    MqttServer,
    mqtt_library,
)
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.errors import SinkError, WrongArgumentError
from penstock.formats.misfit import meant_for

if TYPE_CHECKING:
    from collections.abc import Callable

#: The largest number of messages in flight; if there are more, writing waits.
_MOST_UNDER_WAY: Final = 1000


@checks_arguments
class MqttSink(PythonSink[Any]):
    """Sink that publishes records with QoS 1, at least once.

    Before each checkpoint the broker has acknowledged all earlier messages.  After a failure
    messages are published again.
    """

    def __init__(
        self,
        url: str,
        topic: str | Callable[[Any], str],
        *,
        schema: SerializationSchema | None = None,
        retain: bool = False,
        ca_file: str | None = None,
        connect_timeout_ms: int = 60_000,
        timeout_ms: int = 120_000,
    ) -> None:
        """Create a sink.

        Args:
            url: ``mqtt://user:password@host:port`` or, with TLS, ``mqtts://…``.
            topic: The topic, or a function of a record that returns it.
            schema: The schema that converts records to payloads; by default records are strings.
            retain: Whether the broker keeps the last message of a topic for later subscribers.
            ca_file: A PEM file with the trusted certificates; the system's if None.
            connect_timeout_ms: Time to wait for the broker at the start.
            timeout_ms: Time to wait for the broker's next acknowledgement later.

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: The package paho-mqtt is not installed.
        """
        super().__init__()
        given: Any = SimpleStringSchema() if schema is None else schema
        if not isinstance(given, SerializationSchema):
            raise WrongArgumentError(f"MqttSink: a schema is a SerializationSchema, got {schema!r}")
        if isinstance(topic, str):
            _check_topic(topic)
        elif not callable(topic):
            raise WrongArgumentError(f"MqttSink: topic is a text or a function, got {topic!r}")
        if timeout_ms < 1:
            raise WrongArgumentError(f"MqttSink: timeout_ms is at least 1, got {timeout_ms}")
        self.server = MqttServer("MqttSink", url, ca_file, connect_timeout_ms)
        self.topic = topic
        self.schema = given
        self.retain = retain
        self.timeout_s = timeout_ms / 1000
        self.shown = f"MqttSink of {topic!r:.200}" if isinstance(topic, str) else "MqttSink"

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Create the writer of a subtask, with its own connection."""
        del context
        return _MqttWriter(self)


class _Publisher(MqttConnection):
    """Counts published and acknowledged messages.

    Attributes:
        is_ready: Whether a message published now follows all earlier ones.  False without a
            connection, and after a reconnect until the library sends again the messages in
            flight.
    """

    def __init__(self, sink: MqttSink) -> None:
        server = sink.server
        client = server.client("", acknowledges_itself=True)
        super().__init__(
            server, client, lambda what: SinkError(f"{sink.shown}: {server.shown} {what}")
        )
        self.is_ready = False
        #: By the library's message id; used by the writer's thread alone.
        self._topics: dict[int, str] = {}
        self._refusals: list[tuple[int, Any]] = []
        self._under_way = 0
        self._was_connected = False
        client.on_publish = self._on_publish
        server.connect(client, mqtt_library("MqttSink").MQTT_CLEAN_START_FIRST_ONLY)

    def publish(self, topic: str, payload: bytes, *, retain: bool) -> None:
        """Publish a message without waiting."""
        with self.condition:
            self._under_way += 1
        published = self.client.publish(topic, payload, qos=1, retain=retain)
        self._topics[published.mid] = topic

    def check(self) -> None:
        """Raise the connection's failure; a refusal names its topic."""
        for mid, reason in self._refusals:
            self.fail(f"refuses a message to the topic {self._topics.get(mid)!r}: {reason}")
        super().check()

    def under_way(self) -> int:
        """Return the number of messages that the broker has not acknowledged."""
        return self._under_way

    def was_connected(self) -> bool:
        """Return whether a connection was ever established."""
        return self._was_connected

    def on_connected(self, *, has_session: bool) -> None:
        """Let the writer continue if no message is to be sent again."""
        del has_session
        with self.condition:
            self.is_ready = self._under_way == 0
            self._was_connected = True
            self.condition.notify_all()

    def on_disconnected(self) -> None:
        """Let the writer wait."""
        self.is_ready = False

    def _on_publish(
        self, client: Any, userdata: Any, mid: int, reason: Any, properties: Any
    ) -> None:
        del client, userdata, properties
        if reason.is_failure:
            self._refusals.append((mid, reason))
        with self.condition:
            self._under_way -= 1
            self.is_ready = True
            self.condition.notify_all()


class _MqttWriter(SinkWriter[Any]):
    def __init__(self, sink: MqttSink) -> None:
        self._sink = sink
        self._publisher = _Publisher(sink)

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Publish a record; wait until the connection is ready and few messages are in flight."""
        del context
        sink, topic = self._sink, self._sink.topic
        if not isinstance(topic, str):
            topic = _check_topic(topic(element))
        with meant_for(f"the topic {topic!r} of {sink.server.shown}"):
            payload = sink.schema.serialize(element)
        publisher = self._publisher
        self._wait_until(lambda: publisher.is_ready and publisher.under_way() < _MOST_UNDER_WAY)
        publisher.publish(topic, payload, retain=sink.retain)

    def flush(self, end_of_input: bool) -> None:
        """Wait until the broker has acknowledged all messages."""
        del end_of_input
        publisher = self._publisher
        self._wait_until(lambda: publisher.under_way() == 0)

    def close(self) -> None:
        """Close the connection."""
        self._publisher.close()

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        sink = self._sink
        wait_until(self._publisher, holds, sink.timeout_s, f"{sink.shown}: {sink.server.shown}")


def _check_topic(topic: Any) -> str:
    """Return a topic that can be published to.

    Raises:
        InvalidProgramError: The topic is invalid.
    """
    if (
        not isinstance(topic, str)
        or not 0 < len(topic.encode()) <= MAX_TOPIC_BYTES
        or set(topic) & {"+", "#", "\0"}
    ):
        raise WrongArgumentError(
            f"MqttSink: a topic is a text without '+', '#' and NUL, got {topic!r:.200}"
        )
    return topic
