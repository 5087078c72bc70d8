"""Writes records, with and without transactions."""

from __future__ import annotations

import logging
import sys
import time
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakMethod

from penstock.connectors.base import DeliveryGuarantee
from penstock.connectors.kafka.admin import Connections
from penstock.connectors.kafka.client import kafka_library
from penstock.connectors.kafka.partitions import check_topic
from penstock.connectors.kafka.serialization import Composed
from penstock.connectors.kafka.transactions import (
    KafkaCommittable,
    Transactions,
    parsed_transactional_id,
    transactional_id,
)
from penstock.connectors.writer_sink import (
    CommittingSinkWriter,
    SinkWriter,
    StatefulSinkWriter,
    WriterInitContext,
)
from penstock.errors import InvalidProgramError, SinkError
from penstock.external.background import ServerThreads, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from concurrent.futures import Future

    from penstock.connectors.kafka.descriptions import SinkDescription

logger = logging.getLogger(__name__)

#: Records between two looks at what the library has to say.
_POLL_EVERY: Final = 500

#: Topics whose names are looked at once.
_MOST_TOPICS: Final = 10_000

#: Lets the library choose the partition.
_ANY_PARTITION: Final = -1

#: How long the brokers may take to say which partitions a topic has.
_ANSWER_S: Final = 60.0

#: How long to wait for a flush before looking at failures again, in seconds.
_WAIT_S: Final = 0.1

#: How long a thread waits for brokers before it looks whether its task has ended, in seconds.
_INIT_STEP_S: Final = 0.25

#: How long to wait for space in the library's queue, of which no event tells, in seconds.
_WAIT_FOR_SPACE_S: Final = 0.005


class _Deliveries:
    """Hands records to a producer of the library, and notes what could not be delivered."""

    def __init__(self, settings: dict[str, Any], errors: Any) -> None:
        self._errors = errors
        self.failure: SinkError | None = None
        self._connections = Connections("KafkaSink", settings)
        self._servers = f"the brokers at {settings['bootstrap.servers']}"
        # The library keeps what it calls: a producer that is held by that would never end.
        heard = WeakMethod(self._on_delivery)
        self.producer: Any = kafka_library("KafkaSink").Producer(
            {
                **settings,
                "on_delivery": lambda *heard_of: (tell := heard()) and tell(*heard_of),
                "error_cb": self._connections.note,
            },
            logger=logger,
        )

    def write(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        timestamp: int,
        partition: int = _ANY_PARTITION,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> None:
        """Takes a record; waits while the queue is full.

        Args:
            topic: Its topic.
            value: Its value.
            key: Its key.
            timestamp: Its timestamp in ms; 0 is the time of this call.
            partition: Its partition.
            headers: Its headers.
        """
        while True:
            try:
                pairs = None if headers is None else list(headers)
                # By position: names would make the call take twice as long.
                self.producer.produce(topic, value, key, partition, None, None, timestamp, pairs)
                break
            except BufferError:
                self._heard(self.producer.poll, _WAIT_FOR_SPACE_S)
            except (TypeError, ValueError, OverflowError) as error:
                raise SinkError(
                    f"cannot write to {topic} of {self._servers}: {error}; key and value are bytes "
                    "or None, headers pairs of a text and bytes, partition and timestamp whole "
                    f"numbers, got {value!r:.100}, {key!r:.100}, {headers!r:.100}, {partition!r}, "
                    f"{timestamp!r}"
                ) from error
            except Exception as error:
                if type(error).__name__ != "KafkaException":
                    raise
                raise SinkError(
                    f"cannot write to {topic} of {self._servers}: {error.args[0].str()}"
                ) from None

    def poll(self) -> None:
        """Hears what the library has to say; raises what a delivery failed with."""
        self._heard(self.producer.poll, 0)

    def number_of_partitions(self, topic: str) -> int:
        """Ask the brokers how many partitions a topic has.

        Raises:
            SinkError: They do not know the topic, or do not answer.
        """
        try:
            found = self.producer.list_topics(topic, _ANSWER_S).topics[topic]
        except Exception as error:
            if type(error).__name__ != "KafkaException":
                raise
            raise SinkError(f"cannot ask {self._servers}: {error.args[0].str()}") from None
        if not found.partitions:
            raise SinkError(f"cannot write to {topic} of {self._servers}: {found.error.str()}")
        return len(found.partitions)

    def flush(self) -> None:
        """Waits until the brokers have everything, or say that they cannot."""
        while self._heard(self.producer.flush, _WAIT_S):
            pass

    def close(self) -> None:
        """Ends the connections, whoever still holds this: an error with its frames does."""
        self.producer = None

    def _heard(self, serve: Callable[[float], int], timeout_s: float) -> int:
        """Call the library and record its reports on records and connections."""
        try:
            left = serve(timeout_s)
        except Exception as error:  # of no use any more: the library raises it here
            if type(error).__name__ != "KafkaException":
                raise
            raise SinkError(f"cannot write to {self._servers}: {error.args[0].str()}") from None
        self._check()
        return left

    def _check(self) -> None:
        """Raises what a delivery failed with, or why the brokers do not let us in."""
        if self.failure is not None:
            raise self.failure
        if self._connections.refusal is not None:
            raise SinkError(self._connections.refusal)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            return
        self._errors.inc()
        if self.failure is None:
            reason = error.str()
            if error.code() == error._PURGE_QUEUE:
                reason = self._failure_of_transaction() or reason
            reason = self._connections.explained(reason)
            self.failure = SinkError(
                f"cannot write to {message.topic()} of {self._servers}: {reason}"
            )

    def _failure_of_transaction(self) -> str | None:
        """Return the failure of a transaction whose records were dropped; None if it goes on.

        The library tells it to whoever asks for what only another transaction may do.
        """
        try:
            self.producer.begin_transaction()
        except Exception as error:
            if type(error).__name__ != "KafkaException":
                raise
            found = error.args[0]
            return str(found.str()) if found.txn_requires_abort() else None
        return None


class _RecordWriter(SinkWriter[Any]):
    """Makes records of records and hands them to the library."""

    _deliveries: _Deliveries | None = None

    def __init__(self, sink: SinkDescription, context: WriterInitContext) -> None:
        serializer = sink.record_serializer
        self._serialize = serializer.serialize_record
        #: The subtask, where each subtask writes to one partition.
        self._fixed_to = context.get_index_of_subtask() if sink.has_fixed_partitions else None
        self._least_timestamp = 0 if sink.writes_timestamps else sys.maxsize
        self._partition = _ANY_PARTITION
        self._topic = ""
        self._value_of: Callable[[Any], bytes] | None = None
        self._key_of: Callable[[Any], bytes] | None = None
        if type(serializer) is Composed and (plain := serializer.plain()) is not None:
            self._topic, self._value_of, self._key_of = plain
        #: Names of topics that records have had.
        self._topics: set[str] = set()
        self._produce: Any = None
        #: Records until the next poll of the library; none if no transaction has begun.
        self._until_poll = 0

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Hands a record to the library."""
        at = context.timestamp()
        if at is None or at < self._least_timestamp:
            at = 0
        value_of, key_of = self._value_of, self._key_of
        if value_of is None:
            self._write_record(element, at)
            return
        try:
            value, key = value_of(element), None if key_of is None else key_of(element)
        except Exception:  # the same error is raised again below, where more is known
            self._write_record(element, at)
            return
        if self._until_poll == 0:
            self._poll()
        self._until_poll -= 1
        try:
            # Inlined: a call of `_Deliveries` would take as long as all the rest.
            self._produce(self._topic, value, key, self._partition, None, None, at)
        except Exception:  # comes again there, unless there is space by then
            assert self._deliveries is not None
            self._deliveries.write(self._topic, value, key, at)

    def _write_record(self, element: Any, at: int) -> None:
        record = self._serialize(element)
        if record is None:
            return
        if self._until_poll == 0:
            self._poll()
        self._until_poll -= 1
        assert self._deliveries is not None
        topic: Any = record.topic
        if not isinstance(topic, str) or topic not in self._topics:
            self._note_topic(topic)
        partition, timestamp = record.partition, record.timestamp
        for what, given in (("partition", partition), ("timestamp", timestamp)):
            # Of another kind than a whole number they are refused with all the rest.
            if type(given) is int and given < 0:
                raise SinkError(
                    f"cannot write to {record.topic}: the {what} of a KafkaProducerRecord is 0 or "
                    f"more, or None, got {given}"
                )
        self._deliveries.write(
            record.topic,
            record.value,
            record.key,
            at if timestamp is None else timestamp,
            _ANY_PARTITION if partition is None else partition,
            record.headers,
        )

    def _note_topic(self, topic: Any) -> None:
        """Refuses what is no name of a topic, which the library would try until it gives up."""
        try:
            check_topic("a record", topic)
        except InvalidProgramError as error:
            raise SinkError(f"KafkaSink: {error}") from None
        if len(self._topics) < _MOST_TOPICS:
            self._topics.add(topic)

    def _poll(self) -> None:
        """Hears what the library has to say, now and then; begins where nothing has begun."""
        deliveries = self._deliveries or self._begin()
        deliveries.poll()
        if self._fixed_to is not None and self._partition == _ANY_PARTITION:
            self._partition = self._fixed_to % deliveries.number_of_partitions(self._topic)
        self._produce, self._until_poll = deliveries.producer.produce, _POLL_EVERY

    def close(self) -> None:
        """Ends the connection; what is not flushed is lost, which a checkpoint brings again."""
        if (deliveries := self._detach()) is not None:
            deliveries.close()

    def _detach(self) -> _Deliveries | None:
        """Detach and return the deliveries so far; the next records use new ones."""
        deliveries, self._deliveries = self._deliveries, None
        self._produce, self._until_poll = None, 0
        return deliveries

    @abstractmethod
    def _begin(self) -> _Deliveries:
        """Makes the `_deliveries` that the next records go to."""


class KafkaWriter(_RecordWriter):
    """Writes without transactions: at least once, or with no promise."""

    def __init__(self, sink: SinkDescription, context: WriterInitContext) -> None:
        """Connects."""
        super().__init__(sink, context)
        self._sink = sink
        self._errors = context.metric_group().counter("numRecordsSendErrors")
        self._begin()

    def flush(self, end_of_input: bool) -> None:
        """Waits for the brokers, unless nothing is promised."""
        if self._deliveries is not None and (
            end_of_input or self._sink.guarantee is not DeliveryGuarantee.NONE
        ):
            self._deliveries.flush()

    def _begin(self) -> _Deliveries:
        self._deliveries = _Deliveries(self._sink.settings, self._errors)
        return self._deliveries


class TransactionalKafkaWriter(
    _RecordWriter, CommittingSinkWriter[Any, KafkaCommittable], StatefulSinkWriter[Any, str]
):
    """Writes in one transaction after the other, each under a name of its own.

    The name holds the number behind the last checkpoint, so that after a failure it tells what
    belongs to the restored checkpoint from what came later.

    No producer is used for a second transaction: librdkafka asks for its epoch once, so that who
    commits a former checkpoint once more would commit what the same producer has written since.
    Making one takes 4 ms of CPU time, in another thread while records are written.
    """

    def __init__(
        self,
        sink: SinkDescription,
        context: WriterInitContext,
        former_prefixes: Collection[str] = (),
    ) -> None:
        """Aborts what a former attempt has left open, under other prefixes too."""
        super().__init__(sink, context)
        self._sink = sink
        self._subtask = context.get_index_of_subtask()
        self._errors = context.metric_group().counter("numRecordsSendErrors")
        self._last_checkpoint = context.get_restored_checkpoint_id() or 0
        self._transactions = Transactions(sink.settings, sink.max_block_s)
        self._maker = ServerThreads("kafka-transactions")
        self._name_of_current = ""
        self._next: tuple[str, Future[_Deliveries]] | None = None
        self._has_written = False
        try:
            self._abort_lingering(context.get_number_of_parallel_subtasks(), former_prefixes)
        except BaseException:  # nothing was created, so nothing is closed
            self.close()
            raise

    def flush(self, end_of_input: bool) -> None:
        """Waits until the brokers have everything."""
        del end_of_input
        if self._deliveries is not None:
            self._deliveries.flush()

    def prepare_commit(self) -> Iterable[KafkaCommittable]:
        """The current transaction, in which nothing more is written."""
        deliveries = self._detach()
        if deliveries is None:
            return []
        committable = self._transactions.describe(self._name_of_current)
        self._maker.submit(deliveries.close)  # which takes a while
        return [committable]

    def snapshot_state(self, checkpoint_id: int) -> Iterable[str]:
        """Return the prefix of the names; the next transaction has the next number."""
        self._last_checkpoint = checkpoint_id
        if not self._has_written:
            self._forget_next()  # a quiet sink makes none
            return [self._sink.transactional_id_prefix]
        self._has_written = False
        self._make_ahead(self._name())
        return [self._sink.transactional_id_prefix]

    def close(self) -> None:
        """Ends the connections; an open transaction is aborted by the next attempt."""
        self._forget_next()
        self._maker.close()
        super().close()
        self._transactions.close()

    def _begin(self) -> _Deliveries:
        """The next transaction, made ahead or now; the one behind it is made meanwhile."""
        self._has_written = True
        name = self._name()
        self._make_ahead(name)
        assert self._next is not None
        begun = outcome(self._next[1])
        self._next = None
        self._make_ahead(self._name(behind=1))
        self._name_of_current, self._deliveries = name, begun
        return begun

    def _make_ahead(self, name: str) -> None:
        """Lets the transaction of this name be made, unless it is or was."""
        if self._next is not None and self._next[0] == name:
            return
        self._forget_next()
        self._next = name, self._maker.submit(partial(self._made, name))

    def _forget_next(self) -> None:
        if self._next is not None:
            self._maker.submit(partial(_close_made, self._next[1]))
            self._next = None

    def _name(self, behind: int = 0) -> str:
        """The name of the transaction of the next checkpoint, or of one behind that."""
        number = self._last_checkpoint + 1 + behind
        return transactional_id(self._sink.transactional_id_prefix, self._subtask, number)

    def _made(self, name: str) -> _Deliveries:
        deliveries = _Deliveries({**self._sink.settings, "transactional.id": name}, self._errors)
        library = kafka_library("KafkaSink")
        deadline_s = time.monotonic() + self._sink.max_block_s
        while True:
            try:
                # Asked again it goes on where it was.
                deliveries.producer.init_transactions(_INIT_STEP_S)
                deliveries.producer.begin_transaction()
                return deliveries
            except library.KafkaException as error:
                is_over = time.monotonic() >= deadline_s or self._maker.closed.is_set()
                if error.args[0].retriable() and not is_over:
                    deliveries.poll()
                    continue
                raise SinkError(
                    f"cannot begin the transaction {name}: {error.args[0].str()}"
                ) from None

    def _abort_lingering(self, parallelism: int, former_prefixes: Collection[str]) -> None:
        """Aborts the open transactions that no checkpoint holds.

        Those up to the number of the restored checkpoint belong to it: the committer commits them.
        Later ones were written since, by this subtask or by one of a former, larger parallelism.
        """
        prefix = self._sink.transactional_id_prefix
        for name in self._transactions.open_ones():
            found = parsed_transactional_id(prefix, name)
            is_own = found is not None and found[0] % parallelism == self._subtask
            for former in former_prefixes:
                if not is_own and former != prefix:
                    found = parsed_transactional_id(former, name)
                    is_own = found is not None
            if is_own and found is not None and found[1] > self._last_checkpoint:
                logger.info("aborting the transaction %s of a former attempt", name)
                self._transactions.abort(name, int(self._sink.settings["transaction.timeout.ms"]))


def _close_made(made: Future[_Deliveries]) -> None:
    if made.exception() is None:
        made.result().close()
