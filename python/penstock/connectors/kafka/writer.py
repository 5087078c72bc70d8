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
from penstock.connectors.change_rows import OldRows
from penstock.connectors.kafka.admin import Connections
from penstock.connectors.kafka.client import LibraryLog, kafka_library
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

#: Records between two polls of the library.
_POLL_EVERY: Final = 500

#: The most topics whose checked names are remembered.
_MOST_TOPICS: Final = 10_000

#: The value with which the library chooses the partition.
_ANY_PARTITION: Final = -1

#: The longest wait for the partitions of a topic, in seconds.
_ANSWER_S: Final = 60.0

#: The interval, in seconds, at which a flush checks for failures.
_WAIT_S: Final = 0.1

#: The interval, in seconds, at which a thread that waits for brokers checks if its task has ended.
_INIT_STEP_S: Final = 0.25

#: The interval, in seconds, at which to poll for space in the library's queue, which has no event.
_WAIT_FOR_SPACE_S: Final = 0.005


class _Deliveries:
    """Passes records to a producer of the library, and records failed deliveries."""

    def __init__(self, settings: dict[str, Any], errors: Any) -> None:
        self._errors = errors
        self.failure: SinkError | None = None
        self._connections = Connections("KafkaSink", settings)
        self._servers = f"the brokers at {settings['bootstrap.servers']}"
        # The library holds its callbacks: one that held the producer would keep it alive for ever.
        heard = WeakMethod(self._on_delivery)
        self.producer: Any = kafka_library("KafkaSink").Producer(
            {
                **settings,
                "on_delivery": lambda *heard_of: (tell := heard()) and tell(*heard_of),
                "error_cb": self._connections.note,
            },
            logger=LibraryLog,
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
        """Write a record; wait while the queue is full.

        Args:
            topic: Its topic.
            value: Its value.
            key: Its key.
            timestamp: Its timestamp in ms; 0 for the time of this call.
            partition: Its partition.
            headers: Its headers.
        """
        while True:
            try:
                pairs = None if headers is None else list(headers)
                # By position: with keywords the call takes twice as long.
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
        """Serve the library's callbacks; raise the error of a failed delivery."""
        self._heard(self.producer.poll, 0)

    def number_of_partitions(self, topic: str) -> int:
        """Ask the brokers how many partitions a topic has.

        Raises:
            SinkError: The topic is unknown, or the brokers do not answer.
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
        """Wait until all records are delivered or have failed."""
        while self._heard(self.producer.flush, _WAIT_S):
            pass

    def close(self) -> None:
        """End the connections, even if the frames of an error still refer to this object."""
        self.producer = None

    def _heard(self, serve: Callable[[float], int], timeout_s: float) -> int:
        """Call the library and record its reports on records and connections."""
        try:
            left = serve(timeout_s)
        except Exception as error:  # The library raises fatal errors of the producer here.
            if type(error).__name__ != "KafkaException":
                raise
            raise SinkError(f"cannot write to {self._servers}: {error.args[0].str()}") from None
        self._check()
        return left

    def _check(self) -> None:
        """Raise the error of a failed delivery or of denied access."""
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
        """Return the failure of a transaction whose records were dropped; None if it continues.

        The library reports it in response to a request that is valid only for a new transaction.
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
    """Converts records to Kafka records and passes them to the library."""

    _deliveries: _Deliveries | None = None

    def __init__(self, sink: SinkDescription, context: WriterInitContext) -> None:
        serializer = sink.record_serializer
        self._serialize = serializer.serialize_record
        #: The subtask, if each subtask writes to one partition only.
        self._fixed_to = context.get_index_of_subtask() if sink.has_fixed_partitions else None
        self._least_timestamp = 0 if sink.writes_timestamps else sys.maxsize
        self._partition = _ANY_PARTITION
        self._topic = ""
        self._value_of: Callable[[Any], bytes] | None = None
        self._key_of: Callable[[Any], bytes] | None = None
        if type(serializer) is Composed and (plain := serializer.plain()) is not None:
            self._topic, self._value_of, self._key_of = plain
        self._change_key = serializer.key_of_records()
        self._old = OldRows()
        #: The topics of former records, whose names are valid.
        self._topics: set[str] = set()
        self._produce: Any = None
        #: Records until the next poll of the library; 0 if no transaction has begun.
        self._until_poll = 0

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Pass a record to the library."""
        at = context.timestamp()
        if at is None or at < self._least_timestamp:
            at = 0
        value_of, key_of = self._value_of, self._key_of
        if value_of is None:
            if self._change_key is None:
                self._write_record(element, at)
                return
            for row in self._old.changed(element, self._change_key):
                self._write_record(row, at)
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
            # Inlined: a call of `_Deliveries` would take as long as everything else.
            self._produce(self._topic, value, key, self._partition, None, None, at)
        except Exception:  # `_Deliveries` waits for space, or raises the error again.
            assert self._deliveries is not None
            self._deliveries.write(self._topic, value, key, at, self._partition)

    def _write_old_rows(self) -> None:
        """Write the old rows whose new row has not come: it has another key, of another subtask."""
        for row in self._old.taken():
            self._write_record(row, 0)

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
            # The library rejects values that are not whole numbers.
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
        """Reject an invalid topic name, which the library would retry until it times out."""
        try:
            check_topic("a record", topic)
        except InvalidProgramError as error:
            raise SinkError(f"KafkaSink: {error}") from None
        if len(self._topics) < _MOST_TOPICS:
            self._topics.add(topic)

    def _poll(self) -> None:
        """Poll the library; begin a transaction or a producer if there is none."""
        deliveries = self._deliveries or self._begin()
        deliveries.poll()
        if self._fixed_to is not None and self._partition == _ANY_PARTITION:
            self._partition = self._fixed_to % deliveries.number_of_partitions(self._topic)
        self._produce, self._until_poll = deliveries.producer.produce, _POLL_EVERY

    def close(self) -> None:
        """End the connection; unflushed records are lost, and are replayed from a checkpoint."""
        if (deliveries := self._detach()) is not None:
            deliveries.close()

    def _detach(self) -> _Deliveries | None:
        """Detach and return the deliveries so far; the next records use new ones."""
        deliveries, self._deliveries = self._deliveries, None
        self._produce, self._until_poll = None, 0
        return deliveries

    @abstractmethod
    def _begin(self) -> _Deliveries:
        """Create the `_deliveries` for the next records."""


class KafkaWriter(_RecordWriter):
    """Writes without transactions: at least once, or without a guarantee."""

    def __init__(self, sink: SinkDescription, context: WriterInitContext) -> None:
        """Create a writer and connect."""
        super().__init__(sink, context)
        self._sink = sink
        self._errors = context.metric_group().counter("numRecordsSendErrors")
        self._begin()

    def flush(self, end_of_input: bool) -> None:
        """Wait until all records are delivered, unless there is no guarantee."""
        self._write_old_rows()
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
    """Writes in consecutive transactions, each with its own transactional id.

    The id contains the number after the last checkpoint's, which after a failure tells the
    transactions of the restored checkpoint from later ones.

    Each transaction has a producer of its own: librdkafka requests its epoch only once, so that a
    repeated commit of a former checkpoint would commit later records of the same producer.
    Creating one takes 4 ms of CPU time, in another thread while records are written.
    """

    def __init__(
        self,
        sink: SinkDescription,
        context: WriterInitContext,
        former_prefixes: Collection[str] = (),
    ) -> None:
        """Create a writer; abort what former attempts left open, under former prefixes too."""
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
        """Wait until all records are delivered."""
        del end_of_input
        self._write_old_rows()
        if self._deliveries is not None:
            self._deliveries.flush()

    def prepare_commit(self) -> Iterable[KafkaCommittable]:
        """End the current transaction's writes, and return the transaction."""
        deliveries = self._detach()
        if deliveries is None:
            return []
        committable = self._transactions.describe(self._name_of_current)
        self._maker.submit(deliveries.close)  # in the thread: it takes a while
        return [committable]

    def snapshot_state(self, checkpoint_id: int) -> Iterable[str]:
        """Return the prefix of the ids; the next transaction has the next number."""
        self._last_checkpoint = checkpoint_id
        if not self._has_written:
            self._forget_next()  # A sink without records creates no transaction ahead.
            return [self._sink.transactional_id_prefix]
        self._has_written = False
        self._make_ahead(self._name())
        return [self._sink.transactional_id_prefix]

    def close(self) -> None:
        """End the connections; the next attempt aborts an open transaction."""
        self._forget_next()
        self._maker.close()
        super().close()
        self._transactions.close()

    def _begin(self) -> _Deliveries:
        """Return the next transaction, and create the following one in the background."""
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
        """Create the transaction with this id in the background, unless that has started."""
        if self._next is not None and self._next[0] == name:
            return
        self._forget_next()
        self._next = name, self._maker.submit(partial(self._made, name))

    def _forget_next(self) -> None:
        if self._next is not None:
            self._maker.submit(partial(_close_made, self._next[1]))
            self._next = None

    def _name(self, behind: int = 0) -> str:
        """Return the id of the next checkpoint's transaction, or of one ``behind`` it."""
        number = self._last_checkpoint + 1 + behind
        return transactional_id(self._sink.transactional_id_prefix, self._subtask, number)

    def _made(self, name: str) -> _Deliveries:
        deliveries = _Deliveries({**self._sink.settings, "transactional.id": name}, self._errors)
        library = kafka_library("KafkaSink")
        deadline_s = time.monotonic() + self._sink.max_block_s
        while True:
            try:
                # A repeated call continues the former one.
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
        """Abort the open transactions that no checkpoint holds.

        Those up to the restored checkpoint's number belong to it: the committer commits them.
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
