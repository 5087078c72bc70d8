"""MqttSink: publishes elements."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from penstock.common.serialization import SerializationSchema, SimpleStringSchema
from penstock.datastream.connectors.mqtt.connection import MqttConnection, MqttServer, mqtt_library
from penstock.datastream.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.errors import SinkError, WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Messages that are under way at most, beyond which writing waits.
_MOST_UNDER_WAY: Final = 1000

#: How long a wait for the broker is before it looks at failures again, in seconds.
_WAIT_S: Final = 0.1


class MqttSink(PythonSink[Any]):
    """Publishes elements with QoS 1, at least once.

    Before each checkpoint the broker has acknowledged all that came before it.  After a failure
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
        """Makes a sink.

        Args:
            url: ``mqtt://user:password@host:port`` or, with TLS, ``mqtts://…``.
            topic: The topic, or a function of an element that gives it.
            schema: Makes the payload; the element is text without one.
            retain: Whether the broker keeps the last message of a topic for later subscribers.
            ca_file: The certificates of PEM that vouch for the broker's; the system's if None.
            connect_timeout_ms: How long to wait for the broker at the start.
            timeout_ms: How long to wait for the broker's next acknowledgement later.

        Raises:
            InvalidProgramError: An argument cannot be meant so.
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

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Makes the writer of a subtask, with a connection of its own."""
        del context
        return _MqttWriter(self)


class _MqttWriter(SinkWriter[Any]):
    def __init__(self, sink: MqttSink) -> None:
        self._sink = sink
        self._published = 0
        self._acknowledged = 0
        client = sink.server.client("", acknowledges_itself=True)
        client.on_publish = self._on_publish
        self._connection = MqttConnection(
            sink.server, client, lambda what: SinkError(f"MqttSink: {sink.server.shown} {what}")
        )
        sink.server.connect(client, mqtt_library("MqttSink").MQTT_CLEAN_START_FIRST_ONLY)

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Publishes an element; waits while too many are under way."""
        del context
        sink, topic = self._sink, self._sink.topic
        if not isinstance(topic, str):
            topic = _check_topic(topic(element))
        payload = sink.schema.serialize(element)
        self._wait_for_less_than(_MOST_UNDER_WAY)
        self._published += 1
        self._connection.client.publish(topic, payload, qos=1, retain=sink.retain)

    def flush(self, end_of_input: bool) -> None:
        """Waits until the broker has acknowledged everything."""
        del end_of_input
        self._wait_for_less_than(1)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _wait_for_less_than(self, limit: int) -> None:
        """Waits until fewer messages than that are under way."""
        connection = self._connection
        connection.check()
        seen, deadline_s = self._acknowledged, time.monotonic() + self._sink.timeout_s
        while self._published - self._acknowledged >= limit:
            with connection.condition:
                if self._published - self._acknowledged >= limit and connection.failure is None:
                    connection.condition.wait(_WAIT_S)
            connection.check()
            if seen != self._acknowledged:
                seen, deadline_s = self._acknowledged, time.monotonic() + self._sink.timeout_s
            elif time.monotonic() >= deadline_s:
                raise SinkError(
                    f"MqttSink: {self._sink.server.shown} has acknowledged nothing for "
                    f"{self._sink.timeout_s:g} s (timeout_ms), {self._published - seen} messages "
                    "are under way"
                )

    def _on_publish(
        self, client: Any, userdata: Any, mid: int, reason: Any, properties: Any
    ) -> None:
        del client, userdata, mid, properties
        if reason.is_failure:
            self._connection.fail(f"refuses a message: {reason}")
        with self._connection.condition:
            self._acknowledged += 1
            self._connection.condition.notify_all()


def _check_topic(topic: Any) -> str:
    """A topic that can be published to.

    Raises:
        InvalidProgramError: It is none.
    """
    if not isinstance(topic, str) or not topic or set(topic) & {"+", "#", "\0"}:
        raise WrongArgumentError(
            f"MqttSink: a topic is a text without '+', '#' and NUL, got {topic!r}"
        )
    return topic
