"""Writes records, with and without transactions."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka.client import kafka_library
from penstock.datastream.connectors.kafka.transactions import (
    KafkaCommittable,
    Transactions,
    parsed_transactional_id,
    transactional_id,
)
from penstock.datastream.connectors.writer_sink import (
    CommittingSinkWriter,
    SinkWriter,
    StatefulSinkWriter,
    WriterInitContext,
)
from penstock.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.datastream.connectors.kafka.descriptions import SinkDescription

logger = logging.getLogger(__name__)

#: Records between two looks at what the library has to say.
_POLL_EVERY: Final = 500

#: How long to wait for space in the library's queue, or for a flush, before looking again.
_WAIT_S: Final = 0.1


class _Deliveries:
    """Hands records to a producer of the library, and notes what could not be delivered."""

    def __init__(self, settings: dict[str, Any], errors: Any) -> None:
        self._errors = errors
        self.failure: SinkError | None = None
        self.producer: Any = kafka_library("KafkaSink").Producer(
            {**settings, "on_delivery": self._on_delivery}, logger=logger
        )
        self._until_poll = _POLL_EVERY
        self.has_written = False

    def write(self, record: Any, timestamp: int | None) -> None:
        """Takes a record; waits while the queue is full."""
        self.has_written = True
        arguments: dict[str, Any] = {}
        if record.timestamp is not None:
            arguments["timestamp"] = record.timestamp
        elif timestamp is not None and timestamp >= 0:
            arguments["timestamp"] = timestamp
        if record.headers is not None:
            arguments["headers"] = list(record.headers)
        if record.partition is not None:
            arguments["partition"] = record.partition
        while True:
            try:
                self.producer.produce(record.topic, record.value, record.key, **arguments)
                break
            except BufferError:
                self.producer.poll(_WAIT_S)
                self.check()
            except Exception as error:
                if type(error).__name__ != "KafkaException":
                    raise
                raise SinkError(f"cannot write to {record.topic}: {error.args[0].str()}") from None
        self._until_poll -= 1
        if self._until_poll <= 0:
            self._until_poll = _POLL_EVERY
            self.producer.poll(0)
            self.check()

    def flush(self) -> None:
        """Waits until the brokers have everything, or say that they cannot."""
        while self.producer.flush(_WAIT_S):
            self.check()
        self.check()

    def check(self) -> None:
        """Raises what a delivery failed with."""
        if self.failure is not None:
            raise self.failure

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            return
        self._errors.inc()
        if self.failure is None:
            self.failure = SinkError(f"cannot write to {message.topic()}: {error.str()}")


class KafkaWriter(SinkWriter[Any]):
    """Writes without transactions: at least once, or with no promise."""

    def __init__(self, sink: SinkDescription, context: WriterInitContext) -> None:
        """Connects."""
        self._sink = sink
        self._serialize = sink.record_serializer.serialize_record
        errors = context.metric_group().counter("numRecordsSendErrors")
        self._deliveries = _Deliveries(sink.settings, errors)

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Hands a record to the library."""
        record = self._serialize(element)
        if record is not None:
            self._deliveries.write(record, context.timestamp())

    def flush(self, end_of_input: bool) -> None:
        """Waits for the brokers, unless nothing is promised."""
        if end_of_input or self._sink.guarantee is not DeliveryGuarantee.NONE:
            self._deliveries.flush()

    def close(self) -> None:
        """Ends the connection; what is not flushed is lost, which a checkpoint brings again."""
        del self._deliveries


class TransactionalKafkaWriter(
    CommittingSinkWriter[Any, KafkaCommittable], StatefulSinkWriter[Any, str]
):
    """Writes in one transaction after the other, each under a name of its own.

    The name holds the number behind the last checkpoint, so that after a failure it tells what
    belongs to the restored checkpoint from what came later.
    """

    def __init__(
        self,
        sink: SinkDescription,
        context: WriterInitContext,
        former_prefixes: Collection[str] = (),
    ) -> None:
        """Aborts what a former attempt has left open, under other prefixes too."""
        self._sink = sink
        self._serialize = sink.record_serializer.serialize_record
        self._subtask = context.get_index_of_subtask()
        self._errors = context.metric_group().counter("numRecordsSendErrors")
        self._last_checkpoint = context.get_restored_checkpoint_id() or 0
        self._transactions = Transactions(sink.settings, sink.max_block_s)
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="kafka-transactions")
        self._current: tuple[str, _Deliveries] | None = None
        self._next: tuple[str, Future[_Deliveries]] | None = None
        self._has_written = False
        self._abort_lingering(context.get_number_of_parallel_subtasks(), former_prefixes)

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Hands a record to the library, in the current transaction."""
        record = self._serialize(element)
        if record is not None:
            if self._current is None:
                self._current = self._begin()
            self._current[1].write(record, context.timestamp())

    def flush(self, end_of_input: bool) -> None:
        """Waits until the brokers have everything."""
        del end_of_input
        if self._current is not None:
            self._current[1].flush()

    def prepare_commit(self) -> Iterable[KafkaCommittable]:
        """The current transaction, in which nothing more is written."""
        if self._current is None:
            return []
        name, deliveries = self._current
        self._current = None
        committable = self._transactions.describe(name)
        self._maker.submit(_dispose, deliveries)
        return [committable]

    def snapshot_state(self, checkpoint_id: int) -> Iterable[str]:
        """The prefix of the names; the next transaction has the next number."""
        self._last_checkpoint = checkpoint_id
        if self._next is not None:
            self._maker.submit(_dispose_made, self._next[1])
            self._next = None
        if self._has_written:
            # The records that follow need not wait for it then; a quiet sink makes none.
            self._has_written = False
            name = self._name()
            self._next = (name, self._maker.submit(self._made, name))
        return [self._sink.transactional_id_prefix]

    def close(self) -> None:
        """Ends the connections; an open transaction is aborted by the next attempt."""
        self._maker.shutdown()
        self._current = self._next = None
        self._transactions.close()

    def _begin(self) -> tuple[str, _Deliveries]:
        """The next transaction, made ahead or now."""
        self._has_written = True
        made, self._next = self._next, None
        if made is not None:
            return made[0], made[1].result()
        name = self._name()
        return name, self._made(name)

    def _name(self) -> str:
        return transactional_id(
            self._sink.transactional_id_prefix, self._subtask, self._last_checkpoint + 1
        )

    def _made(self, name: str) -> _Deliveries:
        deliveries = _Deliveries({**self._sink.settings, "transactional.id": name}, self._errors)
        library = kafka_library("KafkaSink")
        try:
            deliveries.producer.init_transactions(self._sink.max_block_s)
            deliveries.producer.begin_transaction()
        except library.KafkaException as error:
            raise SinkError(f"cannot begin the transaction {name}: {error.args[0].str()}") from None
        return deliveries

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


def _dispose(deliveries: _Deliveries) -> None:
    """Ends the connections of a producer, which takes a while, in another thread."""
    deliveries.producer = None


def _dispose_made(made: Future[_Deliveries]) -> None:
    if made.exception() is None:
        _dispose(made.result())
