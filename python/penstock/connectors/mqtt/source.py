"""MqttSource: reads the messages of subscribed topics."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, overload

from penstock.common.basic_types import VALUE
from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.composite_types import as_type_information
from penstock.common.serialization import DeserializationSchema, SimpleStringSchema, message_type
from penstock.connectors.messages import DeadLetters, EmittedMessages, Inbox
from penstock.connectors.mqtt.connection import (
    MAX_TOPIC_BYTES,
    MqttConnection,
    MqttServer,
    mqtt_library,
)
from penstock.connectors.single_split import SingleSplitReader, SingleSplitSource
from penstock.connectors.split_source import (
    Boundedness,
    InputStatus,
    ReaderOutput,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
)
from penstock.errors import SourceError, WrongArgumentError
from penstock.formats.dead_letters import Policy, required_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.output_tag import OutputTag

#: Messages that one call emits; the task does nothing else meanwhile.
_STEP: Final = 100

#: Messages that a broker may send before an acknowledgement: the largest number in MQTT.
_MOST_UNACKNOWLEDGED: Final = 65_535

#: How long the library's thread waits for space before it checks whether the source is closed.
_WAIT_S: Final = 0.1


def _is_filter(topic: Any) -> bool:
    """Return whether a broker accepts the topic as a subscription."""
    if (
        not isinstance(topic, str)
        or not 0 < len(topic.encode()) <= MAX_TOPIC_BYTES
        or "\0" in topic
    ):
        return False
    *levels, last = topic.split("/")
    return (last == "#" or "#" not in last) and all(
        level == "+" or not set(level) & {"+", "#"} for level in (*levels, last.removesuffix("#"))
    )


@dataclass
class MqttSplit(SourceSplit):
    """The subscription; the broker stores the read position."""

    def split_id(self) -> str:
        """Constant: there is only one split."""
        return "subscription"


@checks_arguments
class MqttSource(SingleSplitSource[VALUE, MqttSplit]):
    """Source of the messages of topics, at least once with QoS 1 and checkpoints.

    A message is acknowledged when a checkpoint that contains it is complete, so after a failure the
    broker sends lost messages again.  This needs the same ``client_id`` throughout the life
    of the job.  A broker sends at most 65,535 messages between two checkpoints, or fewer if
    configured.  One subtask reads; the others end at once.
    """

    @overload
    def __init__(
        self: MqttSource[str],
        url: str,
        topics: str | Sequence[str],
        client_id: str,
        *,
        schema: None = None,
        deserialize: None = None,
        type_info: None = None,
        dead_letters: OutputTag | None = None,
        session_expiry_s: int = 86_400,
        ca_file: str | None = None,
        connect_timeout_ms: int = 60_000,
    ) -> None: ...

    @overload
    def __init__(
        self,
        url: str,
        topics: str | Sequence[str],
        client_id: str,
        *,
        schema: DeserializationSchema[VALUE] | None = None,
        deserialize: Callable[[Any], VALUE | None] | None = None,
        type_info: TypeInformation | None = None,
        dead_letters: OutputTag | None = None,
        session_expiry_s: int = 86_400,
        ca_file: str | None = None,
        connect_timeout_ms: int = 60_000,
    ) -> None: ...

    def __init__(
        self,
        url: str,
        topics: str | Sequence[str],
        client_id: str,
        *,
        schema: DeserializationSchema[Any] | None = None,
        deserialize: Callable[[Any], Any] | None = None,
        type_info: TypeInformation | None = None,
        dead_letters: OutputTag | None = None,
        session_expiry_s: int = 86_400,
        ca_file: str | None = None,
        connect_timeout_ms: int = 60_000,
    ) -> None:
        """Create a source.

        Args:
            url: ``mqtt://user:password@host:port`` or, with TLS, ``mqtts://…``.
            topics: One topic or several; ``+`` matches one level, ``#`` any number of levels.
            client_id: The name of the session at the broker; no other client may use it.
            schema: The schema that converts payloads to records; by default records are strings.
            deserialize: A function that converts messages instead, objects with ``topic``,
                ``payload``, ``qos``, ``retain`` and ``properties``; None drops the message.
            type_info: The type of the results of ``deserialize``.
            dead_letters: The side output of malformed messages; without one they fail the job.
            session_expiry_s: How long the broker keeps messages while the job is not running.
            ca_file: A PEM file with the trusted certificates; the system's if None.
            connect_timeout_ms: Time to wait for the broker at the start; later the source
                waits for it.

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: The package paho-mqtt is not installed.
        """
        super().__init__()
        given_topics: Any = [topics] if isinstance(topics, str) else topics
        named = list(given_topics) if isinstance(given_topics, Collection) else []
        if not named or not all(map(_is_filter, named)):
            raise WrongArgumentError(
                "MqttSource: topics are texts, at least one, with '+' for a whole level and '#' "
                f"for the last ones, got {topics!r:.200}"
            )
        if not client_id:
            raise WrongArgumentError(
                "MqttSource needs a client_id: a text that no other client of the broker has"
            )
        if schema is not None and deserialize is not None:
            raise WrongArgumentError("MqttSource takes schema or deserialize, not both")
        if type_info is not None and deserialize is None:
            raise WrongArgumentError("MqttSource: type_info requires deserialize")
        if type_info is not None:
            type_info = as_type_information(type_info, "MqttSource: type_info")
        function: Any = deserialize
        if function is not None and not callable(function):
            raise WrongArgumentError(
                f"MqttSource: deserialize is a function of a message, got {deserialize!r}"
            )
        given: Any = SimpleStringSchema() if schema is None else schema
        if not isinstance(given, DeserializationSchema):
            raise WrongArgumentError(
                f"MqttSource: a schema is a DeserializationSchema, got {schema!r}"
            )
        if not 0 <= session_expiry_s < 2**32:
            raise WrongArgumentError(
                f"MqttSource: session_expiry_s is from 0 to {2**32 - 1}, got {session_expiry_s}"
            )
        if dead_letters is not None:
            required_tag("MqttSource: dead_letters", dead_letters)
        self.server = MqttServer("MqttSource", url, ca_file, connect_timeout_ms)
        self.topics: list[str] = named
        self.client_id = client_id
        self.schema = given
        self.deserialize = deserialize
        self.type_info = type_info
        self.dead_letters = dead_letters
        self.session_expiry_s = session_expiry_s

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED: a subscription does not end."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the declared type, or the schema's."""
        if self.deserialize is not None:
            return self.type_info
        return message_type(self.schema)

    def first_split(self) -> MqttSplit:
        """Return the split of the subscription."""
        return MqttSplit()

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[MqttSplit]:
        """Create the reader of a subtask."""
        return _MqttReader(self, reader_context)


@dataclass
class _Held:
    """A message that is not acknowledged.

    Attributes:
        message: The library's message.
        session: The session that sent it; its packet id is valid there only.
        is_confirmed: Whether a checkpoint with it was completed while there was no connection.
    """

    message: Any
    session: int
    is_confirmed: bool = False


class _Subscription(MqttConnection):
    """Stores messages until they are acknowledged."""

    def __init__(self, source: MqttSource) -> None:
        server = source.server
        client = server.client(source.client_id, acknowledges_itself=False)
        super().__init__(
            server,
            client,
            lambda what: SourceError(
                f"MqttSource of {', '.join(map(repr, source.topics)):.200}: {server.shown} {what}"
            ),
        )
        self._topics = source.topics
        self.inbox: Inbox[_Held] = Inbox(self.condition)
        #: Messages by the packet ids of the broker; messages of QoS 0 have none.
        self._unacknowledged: dict[int, _Held] = {}
        self._session = 0
        self._is_closed = False
        client.on_message = self._on_message
        client.on_subscribe = self._on_subscribe
        packets = mqtt_library("MqttSource")
        properties = packets.Properties(packets.PacketTypes.CONNECT)
        properties.SessionExpiryInterval = source.session_expiry_s
        properties.ReceiveMaximum = _MOST_UNACKNOWLEDGED
        server.connect(client, False, properties)

    def acknowledge(self, messages: Sequence[_Held]) -> None:
        """Acknowledge messages, so that the broker does not send them again."""
        for held in messages:
            with self.condition:
                if held.message.qos == 0 or held.session != self._session:
                    continue
                if not self.client.is_connected():
                    held.is_confirmed = True
                    continue
                del self._unacknowledged[held.message.mid]
            self.client.ack(held.message.mid, 1)

    def on_connected(self, *, has_session: bool) -> None:
        """Subscribe; if the broker has lost the session, its packet ids are invalid."""
        with self.condition:
            if not has_session:
                self._session += 1
                self._unacknowledged.clear()
        packets = mqtt_library("MqttSource")
        options = packets.SubscribeOptions(
            qos=1, retainHandling=packets.SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
        )
        self.client.subscribe([(topic, options) for topic in self._topics])

    def fail(self, what: str) -> None:
        """Store the first failure."""
        super().fail(what)
        self.inbox.end()

    def close(self) -> None:
        """Close the connection; the session remains."""
        with self.condition:
            self._is_closed = True
            self.condition.notify_all()
        super().close()

    def _on_subscribe(
        self, client: Any, userdata: Any, mid: int, reasons: Any, properties: Any
    ) -> None:
        del client, userdata, mid, properties
        for topic, reason in zip(self._topics, reasons, strict=True):
            if reason.is_failure:
                self.fail(f"refuses the subscription to {topic!r}: {reason}")

    def _on_message(self, client: Any, userdata: Any, message: Any) -> None:
        del client, userdata
        with self.condition:
            held = _Held(message, self._session)
            if message.qos:
                known = self._unacknowledged.get(message.mid)
                if known is not None and message.dup:
                    # The broker repeats it after a reconnect; this reader still has it.
                    if known.is_confirmed:
                        del self._unacknowledged[message.mid]
                        self.client.ack(message.mid, 1)
                    return
                self._unacknowledged[message.mid] = held
            while len(self.inbox.messages) >= _MOST_UNACKNOWLEDGED and not self._is_closed:
                self.condition.wait(_WAIT_S)
            self.inbox.put([held])


class _MqttReader(SingleSplitReader[MqttSplit]):
    """Emits messages as records, and acknowledges them with checkpoints."""

    def __init__(self, source: MqttSource, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._source = source
        self._subscription: _Subscription | None = None
        self._emitted: EmittedMessages[_Held] = EmittedMessages(context)
        self._dead_letters = DeadLetters(
            Policy(tag=source.dead_letters),
            "dead_letters=tag sends such messages to a side output",
            context,
        )

    def add_splits(self, splits: list[MqttSplit]) -> None:
        """Connect."""
        super().add_splits(splits)
        if splits and self._subscription is None:
            self._subscription = _Subscription(self._source)

    def poll_split(self, split: MqttSplit, output: ReaderOutput) -> InputStatus:
        """Emit some records."""
        del split
        subscription = self._subscription
        assert subscription is not None, "created with the split"
        subscription.check()
        messages = subscription.inbox.taken(_STEP)
        for held in messages:
            self._emit(held.message, output)
        if self._emitted.keeps:
            self._emitted.add(messages)
        else:
            subscription.acknowledge(messages)
        return InputStatus.MORE_AVAILABLE if messages else InputStatus.NOTHING_AVAILABLE

    def is_available(self) -> Future[Any] | None:
        """Return a future that completes when a message has arrived."""
        return None if self._subscription is None else self._subscription.inbox.arrival()

    def snapshot_state(self, checkpoint_id: int) -> list[MqttSplit]:
        """Return the subscription; store the messages of the checkpoint."""
        self._emitted.snapshot(checkpoint_id)
        return super().snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Acknowledge the messages of the checkpoint."""
        messages = self._emitted.completed(checkpoint_id)
        if self._subscription is not None:
            self._subscription.acknowledge(messages)

    def close(self) -> None:
        """Close the connection."""
        if self._subscription is not None:
            self._subscription.close()

    def _emit(self, message: Any, output: ReaderOutput) -> None:
        source = self._source
        try:
            if source.deserialize is not None:
                element = source.deserialize(message)
            else:
                element = source.schema.deserialize(message.payload)
        except Exception as failure:
            origin, data = message.topic, message.payload
            what = f"a message of {origin!r}"
            self._dead_letters.bury(output, failure, what, origin, None, data)
            return
        if element is not None:
            output.collect(element)
