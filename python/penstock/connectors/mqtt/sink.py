"""MqttSink: publishes records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.argument_kinds import checks_arguments
from penstock.common.serialization import SerializationSchema, SimpleStringSchema
from penstock.connectors.messages import wait_until
from penstock.connectors.mqtt.connection import MqttConnection, MqttServer, mqtt_library
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.errors import SinkError, WrongArgumentError
from penstock.formats.misfit import meant_for

if TYPE_CHECKING:
    from collections.abc import Callable

#: Messages that are under way at most, beyond which writing waits.
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
            ca_file: The certificates of PEM that vouch for the broker's; the system's if None.
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
        """Create the writer of a subtask, with a connection of its own."""
        del context
        return _MqttWriter(self)


class _Publisher(MqttConnection):
    """Counts what is published and acknowledged.

    Attributes:
        is_ready: Whether what is published now comes behind all that was published before.  It
            would not while there is no connection, nor before the library sends again what an
            earlier connection lost, with which it begins when we are let in.
    """

    def __init__(self, sink: MqttSink) -> None:
        server = sink.server
        client = server.client("", acknowledges_itself=True)
        super().__init__(
            server, client, lambda what: SinkError(f"{sink.shown}: {server.shown} {what}")
        )
        self.is_ready = False
        #: By the numbers that the library gives messages; the writer's thread alone looks.
        self._topics: dict[int, str] = {}
        self._refusals: list[tuple[int, Any]] = []
        self._under_way = 0
        self._was_connected = False
        client.on_publish = self._on_publish
        server.connect(client, mqtt_library("MqttSink").MQTT_CLEAN_START_FIRST_ONLY)

    def publish(self, topic: str, payload: bytes, *, retain: bool) -> None:
        """Has a message published."""
        with self.condition:
            self._under_way += 1
        published = self.client.publish(topic, payload, qos=1, retain=retain)
        self._topics[published.mid] = topic

    def check(self) -> None:
        """Raises why the connection is of no use, of a refusal with its topic."""
        for mid, reason in self._refusals:
            self.fail(f"refuses a message to the topic {self._topics.get(mid)!r}: {reason}")
        super().check()

    def under_way(self) -> int:
        """Number of messages that the broker has not acknowledged."""
        return self._under_way

    def was_connected(self) -> bool:
        """Return whether there was a connection already."""
        return self._was_connected

    def on_connected(self, *, has_session: bool) -> None:
        """Lets the writer go on, if there is nothing to be sent again."""
        del has_session
        with self.condition:
            self.is_ready = self._under_way == 0
            self._was_connected = True
            self.condition.notify_all()

    def on_disconnected(self) -> None:
        """Has the writer wait."""
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
        """Publishes a record; waits while it must not, or too many are under way."""
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
        """Waits until the broker has acknowledged everything."""
        del end_of_input
        publisher = self._publisher
        self._wait_until(lambda: publisher.under_way() == 0)

    def close(self) -> None:
        """Ends the connection."""
        self._publisher.close()

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        sink = self._sink
        wait_until(self._publisher, holds, sink.timeout_s, f"{sink.shown}: {sink.server.shown}")


def _check_topic(topic: Any) -> str:
    """A topic that can be published to.

    Raises:
        InvalidProgramError: It is none.
    """
    if (
        not isinstance(topic, str)
        or not 0 < len(topic.encode()) < 1 << 16
        or set(topic) & {"+", "#", "\0"}
    ):
        raise WrongArgumentError(
            f"MqttSink: a topic is a text without '+', '#' and NUL, got {topic!r:.200}"
        )
    return topic
