"""KafkaSink: topics as a sink, exactly once by transactions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.connectors.base import DeliveryGuarantee, StreamTransformer, SupportsPreprocessing
from penstock.connectors.committer import Committer, CommitterInitContext, SupportsCommitter
from penstock.connectors.kafka.client import (
    check_brokers,
    check_settings,
    client_settings,
    kafka_library,
    whole_number,
)
from penstock.connectors.kafka.committer import KafkaCommitter
from penstock.connectors.kafka.descriptions import MAX_BLOCK_MS, SinkDescription
from penstock.connectors.kafka.serialization import KafkaRecordSerializationSchema
from penstock.connectors.kafka.transactions import admin_settings
from penstock.connectors.kafka.writer import KafkaWriter, TransactionalKafkaWriter
from penstock.connectors.writer_sink import (
    PythonSink,
    SinkWriter,
    StatefulSinkWriter,
    SupportsWriterState,
    WriterInitContext,
)
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["KafkaSink", "KafkaSinkBuilder"]

logger = logging.getLogger(__name__)

#: The time that a transaction may stay open, unless a property sets it: the most that brokers allow
#: by default.  Flink requests an hour, which such brokers reject.
_TRANSACTION_TIMEOUT_MS: Final = 900_000

#: The time that records of a transaction wait for others in their batch: no reader sees them before
#: the checkpoint, whose flush does not wait.  If a record has waited for longer and may not be sent
#: yet, librdkafka's thread polls for responses without a pause; on a shared machine this slows down
#: a broker that is slower than the job.  With a much longer time and many partitions, the queue's
#: 100,000 records are full before any batch is.
_TRANSACTION_LINGER_MS: Final = 300

_MAX_PREFIX_LENGTH: Final = 64_000

#: Properties that only transactions use.
_OF_TRANSACTIONS: Final = ("max.block.ms", "transaction.timeout.ms")

#: The most requests in flight to a broker with which an idempotent producer keeps the order.
_MOST_IN_FLIGHT: Final = 5


class KafkaSink(PythonSink[Any], SupportsPreprocessing, SinkDescription):
    """Sink that writes records to topics; use `builder`."""

    def __init__(
        self, j_kafka_sink: None = None, transformer: StreamTransformer[Any] | None = None
    ) -> None:
        """Create a sink; use `builder`.

        Raises:
            JvmOnlyError: A Java sink was passed.
        """
        super().__init__()
        if j_kafka_sink is not None:
            requires_jvm("KafkaSink(j_kafka_sink)", "use KafkaSink.builder()")
        self._transformer = transformer
        SinkDescription.__init__(self)

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Return a builder of a sink."""
        return KafkaSinkBuilder()

    def key_of_records(self) -> Callable[[Any], Any] | None:
        """Return the key of the serializer's change rows."""
        serializer: KafkaRecordSerializationSchema = self.record_serializer
        return serializer.key_of_records()

    def get_transformer(self) -> StreamTransformer[Any] | None:
        """Return the transformation of the stream before the sink, or None."""
        return self._transformer

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Create a writer without transactions."""
        return KafkaWriter(self, context)


class TransactionalKafkaSink(KafkaSink, SupportsCommitter[Any], SupportsWriterState[Any, str]):
    """A KafkaSink that writes in transactions, which are committed with checkpoints."""

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Create a writer that uses transactions."""
        return TransactionalKafkaWriter(self, context)

    def restore_writer(
        self, context: WriterInitContext, recovered_state: Sequence[str]
    ) -> StatefulSinkWriter[Any, str]:
        """Create a writer whose transactions follow those of the checkpoint."""
        return TransactionalKafkaWriter(self, context, frozenset(recovered_state))

    def create_committer(self, context: CommitterInitContext) -> Committer[Any]:
        """Create the committer of the transactions."""
        del context
        return KafkaCommitter(self)


@checks_arguments
class KafkaSinkBuilder(NoJavaMembers):
    """Builder of a KafkaSink."""

    def __init__(self) -> None:
        """Start with the defaults: no guarantee."""
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix: str | None = None
        self._serializer: KafkaRecordSerializationSchema | None = None
        self._properties: dict[str, str] = {}

    def build(self) -> KafkaSink:
        """Return the sink.

        Raises:
            InvalidProgramError: A required setting is missing.
            ConfigurationError: A property does not exist or has an invalid value.
            DependencyError: The client library is not installed.
        """
        if not self._properties.get("bootstrap.servers"):
            raise InvalidProgramError("a KafkaSink needs set_bootstrap_servers")
        if self._serializer is None:
            raise InvalidProgramError("a KafkaSink needs set_record_serializer")
        exactly_once = self._guarantee is DeliveryGuarantee.EXACTLY_ONCE
        for key in _OF_TRANSACTIONS:
            if key in self._properties and not exactly_once:
                logger.info(
                    "KafkaSink: the property %s has no meaning without transactions, which "
                    "DeliveryGuarantee.EXACTLY_ONCE has",
                    key,
                )
        if exactly_once and self._prefix is None:
            raise InvalidProgramError(
                "a KafkaSink with DeliveryGuarantee.EXACTLY_ONCE needs set_transactional_id_prefix "
                "with a prefix that no other job uses"
            )
        sink = TransactionalKafkaSink() if exactly_once else KafkaSink()
        sink.guarantee = self._guarantee
        sink.record_serializer = self._serializer
        sink.transactional_id_prefix = self._prefix or ""
        max_block_ms = whole_number(self._properties, "max.block.ms", MAX_BLOCK_MS, least=0)
        sink.max_block_s = max_block_ms / 1000
        sink.settings = self._settings()
        if exactly_once:
            admin_settings(sink.settings)
        return sink

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set the brokers to connect to first, as ``host:port`` separated by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set the guarantee when the job fails and recovers."""
        given: Any = delivery_guarantee
        if not isinstance(given, DeliveryGuarantee):
            raise InvalidProgramError(f"expected a DeliveryGuarantee, got {given!r}")
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set the prefix of transactional ids: a text that no other job uses."""
        if not 0 < len(transactional_id_prefix.encode()) <= _MAX_PREFIX_LENGTH:
            raise InvalidProgramError(
                f"a prefix of transactional ids must have 1 to {_MAX_PREFIX_LENGTH} bytes"
            )
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(
        self, record_serializer: KafkaRecordSerializationSchema
    ) -> KafkaSinkBuilder:
        """Set the serializer, which converts the stream's records to Kafka records."""
        given: Any = record_serializer
        if not isinstance(given, KafkaRecordSerializationSchema):
            raise InvalidProgramError(
                f"set_record_serializer takes a KafkaRecordSerializationSchema, got {given!r}"
            )
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a property of the client library."""
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSinkBuilder:
        """Set several properties (beyond PyFlink)."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def _settings(self) -> dict[str, Any]:
        refused = ["transactional.id"]
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            refused.append("enable.idempotence")
        for key in refused:
            if key in self._properties:
                raise InvalidProgramError(
                    f"{key} is set by the sink itself, with DeliveryGuarantee.EXACTLY_ONCE: see "
                    "set_transactional_id_prefix"
                )
        given = {key: text for key, text in self._properties.items() if key != "max.block.ms"}
        settings: dict[str, Any] = {
            # Hashes keys like Java's client, unlike librdkafka's default.
            "partitioner": "murmur2_random",
            **client_settings(given, "KafkaSink"),
        }
        check_brokers(settings["bootstrap.servers"], "KafkaSink")
        if self._guarantee is not DeliveryGuarantee.NONE and _is_unacknowledged(settings):
            raise InvalidProgramError(
                f"KafkaSink: with acks=0 no broker acknowledges a record, so {self._guarantee} "
                "cannot hold: set acks to all or 1, or use DeliveryGuarantee.NONE"
            )
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE and _can_be_idempotent(settings):
            settings.setdefault("enable.idempotence", "true")
        checked = settings
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            settings.setdefault("transaction.timeout.ms", str(_TRANSACTION_TIMEOUT_MS))
            if "queue.buffering.max.ms" not in settings:  # its other name
                settings.setdefault("linger.ms", str(_TRANSACTION_LINGER_MS))
            checked = {**settings, "transactional.id": "check"}
        check_settings(checked, kafka_library("KafkaSink").Producer, "KafkaSink")
        return {**settings, "delivery.report.only.error": True}


def _can_be_idempotent(settings: Mapping[str, Any]) -> bool:
    """Return whether the settings allow an idempotent producer.

    Java's client makes the same decision if ``enable.idempotence`` is not set.
    """
    retries = {settings[key] for key in ("retries", "message.send.max.retries") if key in settings}
    in_flight = {
        settings[key]
        for key in ("max.in.flight", "max.in.flight.requests.per.connection")
        if key in settings
    }
    is_ordered = all(text.isdigit() and int(text) <= _MOST_IN_FLIGHT for text in in_flight)
    return _acknowledgements(settings) <= {"all", "-1"} and "0" not in retries and is_ordered


def _acknowledgements(settings: Mapping[str, Any]) -> set[Any]:
    """Return the configured acknowledgements, under either name."""
    names = ("acks", "request.required.acks")
    return {settings[key].strip() for key in names if key in settings}


def _is_unacknowledged(settings: Mapping[str, Any]) -> bool:
    return any(text.isdigit() and int(text) == 0 for text in _acknowledgements(settings))
