"""RMQSource: consumes a queue."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.common.basic_types import VALUE
from penstock.common.serialization import DeserializationSchema, message_type
from penstock.connectors.messages import DeadLetters, EmittedMessages, Inbox
from penstock.connectors.rabbitmq.connection import BrokerThread, pika_library
from penstock.connectors.rabbitmq.connection_config import RMQConnectionConfig
from penstock.connectors.single_split import SingleSplitSource
from penstock.connectors.split_source import (
    Boundedness,
    InputStatus,
    PythonSource,
    ReaderOutput,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
)
from penstock.datastream.functions.source_sink import ParallelSourceFunction
from penstock.errors import SourceError, WrongArgumentError
from penstock.formats.dead_letters import Policy, required_tag

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.output_tag import OutputTag

#: Messages that one call emits; the task does nothing else meanwhile.
_STEP: Final = 100

#: Messages acknowledged before they are emitted, without checkpoints.
_MOST_AHEAD: Final = 1000

#: Messages that a broker sends before an acknowledgement: the largest number in AMQP.
_MOST_UNACKNOWLEDGED: Final = 65_535

#: How long after a connection has ended the broker may send its messages again, in seconds: it may
#: consider the connection alive, but its default acknowledgement timeout is this long.
_SENT_AGAIN_S: Final = 1800.0


@dataclass
class RMQSplit(SourceSplit):
    """State of the queue.

    Attributes:
        known: The correlation ids of emitted messages whose acknowledgement the broker may not have
            processed.
    """

    known: tuple[str, ...] = ()

    def split_id(self) -> str:
        """Constant: there is only one split."""
        return "queue"


class RMQSource(ParallelSourceFunction[VALUE]):
    """Consumes a queue; for `StreamExecutionEnvironment.add_source`.

    With checkpoints, a message is acknowledged when a checkpoint that contains it is complete.
    After a failure the broker sends unacknowledged messages again: at least once.  With unique
    correlation ids, which the producer sets, repeated messages are recognised: exactly once.  In
    this case one subtask consumes, and the others end at once.

    Without checkpoints, a message is acknowledged before it is emitted: at most once.
    """

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        use_correlation_id: bool,
        deserialization_schema: DeserializationSchema[VALUE],
        *,
        dead_letters: OutputTag | None = None,
    ) -> None:
        """Create a source.

        Args:
            connection_config: The address of the broker.
            queue_name: The queue; declared as durable if it is missing.
            use_correlation_id: Whether messages have correlation ids; a message without one fails
                the job then.
            deserialization_schema: Converts a message's body to a record; None skips the message.
            dead_letters: The side output for messages that cannot be converted; without one they
                fail the job (beyond PyFlink).

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: The package pika is not installed.
        """
        config, schema, uses_ids = connection_config, deserialization_schema, use_correlation_id
        check_arguments("RMQSource", config, queue_name)
        given: Any = schema
        if not isinstance(given, DeserializationSchema):
            raise WrongArgumentError(f"RMQSource takes a DeserializationSchema, got {schema!r}")
        named: Any = uses_ids
        if not isinstance(named, bool):
            raise WrongArgumentError(
                f"RMQSource: use_correlation_id is True or False, got {uses_ids!r}"
            )
        if dead_letters is not None:
            required_tag("RMQSource: dead_letters", dead_letters)
        self._source = _QueueSource(config, queue_name, uses_ids, schema, dead_letters)

    def _as_source(self) -> PythonSource[VALUE, Any]:
        return self._source


def check_arguments(used_by: str, config: Any, queue_name: Any) -> None:
    """Check the arguments that source and sink have in common.

    Raises:
        InvalidProgramError: An argument is invalid.
        DependencyError: The package pika is not installed.
    """
    pika_library(used_by)
    if not isinstance(config, RMQConnectionConfig):
        raise WrongArgumentError(f"{used_by} takes an RMQConnectionConfig, got {config!r}")
    if not isinstance(queue_name, str) or not 0 < len(queue_name.encode()) < 256:
        raise WrongArgumentError(
            f"{used_by}: queue_name is a text of 1 to 255 bytes, got {queue_name!r}"
        )


class _QueueSource(SingleSplitSource[VALUE, RMQSplit]):
    def __init__(
        self,
        config: RMQConnectionConfig,
        queue: str,
        uses_ids: bool,
        schema: DeserializationSchema[VALUE],
        dead_letters: OutputTag | None,
    ) -> None:
        super().__init__()
        self.config, self.queue, self.uses_ids = config, queue, uses_ids
        self.schema, self.dead_letters = schema, dead_letters

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        return message_type(self.schema)

    def first_split(self) -> RMQSplit:
        return RMQSplit()

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[RMQSplit]:
        return _QueueReader(self, reader_context)


@dataclass
class _Message:
    """A message that is not acknowledged.

    Attributes:
        session: The connection that delivered it; its tag is valid there only.
        tag: Its delivery tag.
        correlation_id: The id that its producer set.
        body: The body; empty once it was emitted.
    """

    session: int
    tag: int
    correlation_id: str | None
    body: bytes


class _Consumer(BrokerThread):
    """Stores messages until the task takes them, and acknowledges them."""

    def __init__(self, source: _QueueSource, *, keeps: bool) -> None:
        super().__init__("RMQSource", source.config, source.queue, SourceError)
        self._prefetch = source.config.get_prefetch_count() or _MOST_UNACKNOWLEDGED
        self._keeps, self._remembers = keeps, keeps and source.uses_ids
        #: Messages that the task may take.
        self.inbox: Inbox[_Message] = Inbox(self.condition)
        #: Without checkpoints: messages that are not acknowledged; used by the thread alone.
        self._arrived: deque[_Message] = deque()
        self._to_acknowledge: list[_Message] = []
        self._acknowledged: list[_Message] = []
        #: The ends of connections, in monotonic seconds; session 0 is the former reader's.
        self._ended_s = {0: time.monotonic()}

    def taken(self, limit: int) -> list[_Message]:
        """Return some messages, in order."""
        with self.condition:
            was_full = len(self.inbox.messages) >= _MOST_AHEAD
            found = self.inbox.taken(limit)
        if was_full and not self._keeps:
            self.wake()
        return found

    def acknowledge(self, messages: Sequence[_Message]) -> None:
        """Queue messages to be acknowledged."""
        with self.condition:
            self._to_acknowledge.extend(messages)
        self.wake()

    def acknowledged(self) -> list[_Message]:
        """Return the messages whose acknowledgement the broker confirmed since the last call."""
        with self.condition:
            found, self._acknowledged = self._acknowledged, []
        return found

    def sessions_over(self) -> set[int]:
        """Return the ended sessions whose messages the broker no longer sends again."""
        with self.condition:
            before_s = time.monotonic() - _SENT_AGAIN_S
            over = {session for session, at_s in self._ended_s.items() if at_s < before_s}
            for session in over:
                del self._ended_s[session]
        return over

    def on_connected(self, channel: Any) -> None:
        """Start to consume."""
        self._arrived.clear()
        with self.condition:
            if self.session > 1:
                self._ended_s[self.session - 1] = time.monotonic()
            if self._keeps:
                # The broker sends again the messages that were not taken.
                self.inbox.messages.clear()
        channel.basic_qos(prefetch_count=self._prefetch)
        channel.add_on_cancel_callback(self._on_cancel)
        channel.basic_consume(self.queue, self._on_message)

    def work(self, channel: Any) -> None:
        """Acknowledge; all messages before the last acknowledged one were emitted before it."""
        if self._keeps:
            with self.condition:
                asked, self._to_acknowledge = self._to_acknowledge, []
                asked = [held for held in asked if held.session == self.session]
            if asked:
                channel.basic_ack(asked[-1].tag, multiple=True)
                self.commit(channel)
                if self._remembers:
                    with self.condition:
                        self._acknowledged.extend(asked)
            return
        with self.condition:
            count = min(len(self._arrived), _MOST_AHEAD - len(self.inbox.messages))
        if count > 0:
            channel.basic_ack(self._arrived[count - 1].tag, multiple=True)
            self.commit(channel)
            self.inbox.put(self._arrived.popleft() for _ in range(count))

    def fail(self, what: str, cause: BaseException | None = None) -> None:
        """Store the first failure."""
        super().fail(what, cause)
        self.inbox.end()

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        del channel
        held = _Message(self.session, method.delivery_tag, properties.correlation_id, body)
        if not self._keeps:
            self._arrived.append(held)
            return
        self.inbox.put([held])

    def _on_cancel(self, frame: Any) -> None:
        del frame
        self.fail(
            f"has ended the consumption of queue {self.queue!r}: it was deleted, or is moving"
        )


class _QueueReader(SourceReader[RMQSplit]):
    """Emits messages as records, and acknowledges them with checkpoints."""

    def __init__(self, source: _QueueSource, context: SourceReaderContext) -> None:
        self._source = source
        self._context = context
        self._consumer: _Consumer | None = None
        self._split: RMQSplit | None = None
        self._no_more_splits = False
        self._emitted: EmittedMessages[_Message] = EmittedMessages(context)
        #: Correlation ids, with the last session that delivered them, until they are acknowledged.
        self._known: dict[str, int] = {}
        self._dead_letters = DeadLetters(
            Policy(tag=source.dead_letters),
            "dead_letters=tag sends such messages to a side output",
            context,
        )

    def start(self) -> None:
        """Start to consume; with correlation ids, only the subtask that receives the split does."""
        if self._source.uses_ids:
            self._context.send_split_request()
        else:
            self._consume()

    def add_splits(self, splits: list[RMQSplit]) -> None:
        """Start to consume; restore the ids that the queue's former reader has emitted."""
        for split in splits:
            self._split = split
            self._known = dict.fromkeys(split.known, 0)
            self._consume()

    def notify_no_more_splits(self) -> None:
        """Note that a reader without the split reads nothing."""
        self._no_more_splits = True

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit some records."""
        consumer = self._consumer
        if consumer is None:
            is_over = self._no_more_splits
            return InputStatus.END_OF_INPUT if is_over else InputStatus.NOTHING_AVAILABLE
        consumer.check()
        messages = consumer.taken(_STEP)
        for held in messages:
            if self._is_new(held):
                self._emit(held, output)
            held.body = b""
        if self._emitted.keeps:
            self._emitted.add(messages)
        return InputStatus.MORE_AVAILABLE if messages else InputStatus.NOTHING_AVAILABLE

    def is_available(self) -> Future[Any] | None:
        """Return a future that completes when a message has arrived."""
        return None if self._consumer is None else self._consumer.inbox.arrival()

    def snapshot_state(self, checkpoint_id: int) -> list[RMQSplit]:
        """Return the ids of messages that may be repeated; store the messages of the checkpoint."""
        self._emitted.snapshot(checkpoint_id)
        if self._split is None:
            return []
        if self._consumer is not None:
            self._forget(self._consumer)
        return [RMQSplit(tuple(self._known))]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Acknowledge the messages of the checkpoint."""
        messages = self._emitted.completed(checkpoint_id)
        if self._consumer is not None and messages:
            self._consumer.acknowledge(messages)

    def close(self) -> None:
        """Close the connection."""
        if self._consumer is not None:
            self._consumer.close()

    def _consume(self) -> None:
        if self._consumer is None:
            self._consumer = _Consumer(self._source, keeps=self._emitted.keeps)
            self._consumer.start()

    def _is_new(self, held: _Message) -> bool:
        """Return whether a message was not emitted before, and store its id."""
        if not self._source.uses_ids or not self._emitted.keeps:
            return True
        if held.correlation_id is None:
            raise SourceError(
                f"RMQSource: a message of queue {self._source.queue!r} has no correlation id, "
                "which use_correlation_id=True needs: let the producer set it"
            )
        is_new = held.correlation_id not in self._known
        self._known[held.correlation_id] = held.session
        return is_new

    def _forget(self, consumer: _Consumer) -> None:
        """Drop the ids of messages that are not sent again."""
        for held in consumer.acknowledged():
            if held.correlation_id is not None:
                self._known.pop(held.correlation_id, None)
        over = consumer.sessions_over()
        if over:
            known = self._known.items()
            self._known = {name: session for name, session in known if session not in over}

    def _emit(self, held: _Message, output: ReaderOutput) -> None:
        source = self._source
        try:
            element = source.schema.deserialize(held.body)
        except Exception as failure:
            what = f"a message of queue {source.queue!r}"
            self._dead_letters.bury(output, failure, what, source.queue, None, held.body)
            return
        if element is not None:
            output.collect(element)
