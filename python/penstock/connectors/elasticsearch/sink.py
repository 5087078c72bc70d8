"""ElasticsearchSink and its builders, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.connectors.base import DeliveryGuarantee
from penstock.connectors.batching import BatchLimits
from penstock.connectors.elasticsearch.actions import ElasticsearchEmitter, FieldEmitter
from penstock.connectors.elasticsearch.cluster import Cluster, hosts_of, transport_library
from penstock.connectors.elasticsearch.writer import BulkWriter
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.errors import InvalidProgramError, WrongArgumentError

if TYPE_CHECKING:
    from typing import Self

_MEBIBYTE = 1 << 20


class FlushBackoffType(Enum):
    """Growth of the delay between two tries of a bulk request."""

    CONSTANT = (0,)
    EXPONENTIAL = (1,)
    NONE = (2,)


class ElasticsearchSink(PythonSink[Any]):
    """Writes documents by bulk requests, at least once; created by a builder.

    Before each checkpoint Elasticsearch has accepted all earlier actions.  After a failure some
    are sent again: those with an id result in the same documents as a job without failures.
    """

    def __init__(self, j_elasticsearch_sink: None = None) -> None:
        """Create a sink; use a builder.

        Raises:
            JvmOnlyError: A Java sink was passed.
        """
        super().__init__()
        if j_elasticsearch_sink is not None:
            requires_jvm(
                "ElasticsearchSink(j_elasticsearch_sink)", "use Elasticsearch7SinkBuilder()"
            )
        self._settings: tuple[Cluster, BatchLimits, ElasticsearchEmitter] | None = None

    @staticmethod
    def of(
        cluster: Cluster, limits: BatchLimits, emitter: ElasticsearchEmitter
    ) -> ElasticsearchSink:
        """Return the sink of a cluster.

        Raises:
            DependencyError: The package elastic-transport is not installed.
        """
        transport_library("ElasticsearchSink")
        sink = ElasticsearchSink()
        sink._settings = cluster, limits, emitter
        return sink

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Return the writer of a subtask, which connects on its first request."""
        del context
        if self._settings is None:
            raise InvalidProgramError(
                "ElasticsearchSink has no cluster: create it by Elasticsearch7SinkBuilder() or "
                "Elasticsearch8SinkBuilder()"
            )
        cluster, limits, emitter = self._settings
        return BulkWriter(cluster, limits, emitter.actions, emitter.document_of)


@checks_arguments
class ElasticsearchSinkBuilderBase(NoJavaMembers, ABC):
    """Base of the builders of an `ElasticsearchSink`."""

    _version: ClassVar[int]

    @abstractmethod
    def __init__(self) -> None:
        """Create a builder with 1000 actions or 5 MiB a request, and no retries."""
        self._emitter: ElasticsearchEmitter | None = None
        self._cluster = Cluster(())
        self._limits = BatchLimits(max_entries=1000, max_bytes=5 * _MEBIBYTE)

    @abstractmethod
    def get_http_host_class(self) -> Any:
        """Refuse: there is no Java class."""
        requires_jvm(f"{type(self).__name__}.get_http_host_class", "pass strings to set_hosts")

    def set_emitter(self, emitter: ElasticsearchEmitter) -> Self:
        """Set the emitter, which converts records to actions."""
        given: Any = emitter
        if not isinstance(given, ElasticsearchEmitter):
            raise WrongArgumentError(
                f"{type(self).__name__}.set_emitter takes an ElasticsearchEmitter, got {emitter!r}"
            )
        self._emitter = emitter
        return self

    def set_hosts(self, hosts: str | list[str]) -> Self:
        """Set the nodes: ``host:9200``, ``http://host:9200`` or ``https://host:9200``."""
        given: Any = [hosts] if isinstance(hosts, str) else hosts
        if not isinstance(given, (list, tuple)) or not all(isinstance(each, str) for each in given):
            raise WrongArgumentError(
                f"{type(self).__name__}.set_hosts takes a string or a list of strings, got "
                f"{hosts!r}"
            )
        return self._reach(hosts=hosts_of(given, type(self).__name__))

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Set whether checkpoints wait for all actions (``AT_LEAST_ONCE``, the default) or not.

        Raises:
            InvalidProgramError: ``EXACTLY_ONCE``, which Elasticsearch cannot guarantee.
        """
        given: Any = delivery_guarantee
        if not isinstance(given, DeliveryGuarantee):
            raise WrongArgumentError(
                f"{type(self).__name__}.set_delivery_guarantee takes a DeliveryGuarantee, got "
                f"{delivery_guarantee!r}"
            )
        if given is DeliveryGuarantee.EXACTLY_ONCE:
            raise InvalidProgramError(
                f"{type(self).__name__}: Elasticsearch has no transactions; use AT_LEAST_ONCE with "
                "a key field, which writes each document once"
            )
        return self._limit(flushes_at_checkpoints=given is DeliveryGuarantee.AT_LEAST_ONCE)

    def set_bulk_flush_max_actions(self, num_max_actions: int) -> Self:
        """Set the largest number of actions of a request, 1000 by default; -1 for no limit."""
        return self._limit(max_entries=self._amount("num_max_actions", num_max_actions))

    def set_bulk_flush_max_size_mb(self, max_size_mb: int) -> Self:
        """Set the largest size of a request in MiB, 5 by default; -1 for no limit."""
        return self._limit(max_bytes=self._amount("max_size_mb", max_size_mb) * _MEBIBYTE)

    def set_bulk_flush_interval(self, interval_millis: int) -> Self:
        """Set the longest time that an action waits, in ms; -1, the default, for no limit."""
        return self._limit(interval_ms=self._amount("interval_millis", interval_millis))

    def set_bulk_flush_backoff_strategy(
        self, flush_backoff_type: FlushBackoffType, max_retries: int, delay_millis: int
    ) -> Self:
        """Set the retries of actions that busy or unavailable nodes did not accept.

        Args:
            flush_backoff_type: Whether the time between two tries is constant or doubles; ``NONE``
                for no retries, the default.
            max_retries: The number of retries.
            delay_millis: The delay before the first retry, in ms.
        """
        given: Any = flush_backoff_type
        if not isinstance(given, FlushBackoffType):
            raise WrongArgumentError(
                f"{type(self).__name__}.set_bulk_flush_backoff_strategy takes a FlushBackoffType, "
                f"got {flush_backoff_type!r}"
            )
        if given is FlushBackoffType.NONE:
            return self._limit(max_retries=0)
        if max_retries < 1 or delay_millis < 0:
            raise InvalidProgramError(
                f"{type(self).__name__}: max_retries must be at least 1 and delay_millis at least "
                f"0, got {max_retries} and {delay_millis}"
            )
        return self._limit(
            max_retries=max_retries,
            delay_ms=delay_millis,
            is_exponential=given is FlushBackoffType.EXPONENTIAL,
        )

    def set_connection_username(self, username: str) -> Self:
        """Set the user name."""
        return self._reach(username=username)

    def set_connection_password(self, password: str) -> Self:
        """Set the password."""
        return self._reach(password=password)

    def set_connection_path_prefix(self, prefix: str) -> Self:
        """Set the prefix of the path of each request."""
        return self._reach(path_prefix=prefix)

    def set_connection_request_timeout(self, timeout: int) -> Self:
        """Accept a timeout without effect: each subtask has its own connection."""
        self._amount("timeout", timeout)
        return self

    def set_connection_timeout(self, timeout: int) -> Self:
        """Set how long to wait for a connection, in ms, 5000 by default."""
        return self._reach(connect_timeout_ms=self._at_least_one("timeout", timeout))

    def set_socket_timeout(self, timeout: int) -> Self:
        """Set how long to wait for a response, in ms, 60,000 by default."""
        return self._reach(socket_timeout_ms=self._at_least_one("timeout", timeout))

    def set_certificate_fingerprint(self, fingerprint: str) -> Self:
        """Trust the certificate with a SHA-256 fingerprint (beyond PyFlink)."""
        return self._reach(fingerprint=fingerprint)

    def set_ca_file(self, path: str) -> Self:
        """Trust the authorities of a PEM file that workers can read (beyond PyFlink)."""
        return self._reach(ca_file=path)

    def build(self) -> ElasticsearchSink:
        """Return the sink.

        Raises:
            InvalidProgramError: The hosts or the emitter are missing, or the emitter's document
                type does not fit the version.
            DependencyError: The package elastic-transport is not installed.
        """
        name = type(self).__name__
        if self._emitter is None or not self._cluster.hosts:
            missing = "set_emitter" if self._emitter is None else "set_hosts"
            raise InvalidProgramError(f"{name}: call {missing} before build()")
        doc_type = self._emitter.doc_type
        if self._version >= 8 and doc_type is not None:
            raise InvalidProgramError(
                f"{name}: Elasticsearch 8 has no document types; omit doc_type"
            )
        if isinstance(self._emitter, FieldEmitter) and self._version < 7 and doc_type is None:
            raise InvalidProgramError(
                f"{name}: Elasticsearch 6 needs a document type; pass doc_type to the emitter"
            )
        return ElasticsearchSink.of(self._cluster, self._limits, self._emitter)

    def _reach(self, **settings: Any) -> Self:
        self._cluster = replace(self._cluster, **settings)
        return self

    def _limit(self, **settings: Any) -> Self:
        self._limits = replace(self._limits, **settings)
        return self

    def _amount(self, name: str, given: int) -> int:
        """Return an amount; 0 for -1, which means no limit."""
        if given < 1 and given != -1:
            raise InvalidProgramError(
                f"{type(self).__name__}: {name} must be at least 1, or -1 for no limit, got {given}"
            )
        return max(given, 0)

    def _at_least_one(self, name: str, given: int) -> int:
        if given < 1:
            raise InvalidProgramError(
                f"{type(self).__name__}: {name} must be at least 1 ms, got {given}"
            )
        return given


class Elasticsearch6SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builder of a sink for Elasticsearch 6, whose emitter names a document type."""

    _version = 6

    def __init__(self) -> None:
        """Create a builder with the defaults."""
        super().__init__()

    def get_http_host_class(self) -> Any:
        """Refuse: there is no Java class."""
        return super().get_http_host_class()


class Elasticsearch7SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builder of a sink for Elasticsearch 7."""

    _version = 7

    def __init__(self) -> None:
        """Create a builder with the defaults."""
        super().__init__()

    def get_http_host_class(self) -> Any:
        """Refuse: there is no Java class."""
        return super().get_http_host_class()


class Elasticsearch8SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builder of a sink for Elasticsearch 8 and later (beyond PyFlink)."""

    _version = 8

    def __init__(self) -> None:
        """Create a builder with the defaults."""
        super().__init__()

    def get_http_host_class(self) -> Any:
        """Refuse: there is no Java class."""
        return super().get_http_host_class()
