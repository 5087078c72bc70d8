"""KinesisStreamsSink and KinesisFirehoseSink, with PyFlink's builders."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.serialization import SerializationSchema
from penstock.connectors.batching import BatchingWriter, BatchLimits, Unsent
from penstock.connectors.kinesis.client import (
    AwsClientConfig,
    aws_errors,
    is_transient,
    stream_argument,
    text_properties,
)
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.errors import FormatError, InvalidProgramError, SinkError, WrongArgumentError
from penstock.formats.misfit import meant_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

_MEBIBYTE: Final = 1 << 20

#: The number of retries of a record unless errors fail the job: about half an hour.
_RETRIES: Final = 360
_FIRST_DELAY_MS: Final = 100
_LONGEST_DELAY_MS: Final = 5000


class PartitionKeyGenerator(NoJavaMembers):
    """Determines the partition key of a record, by which Kinesis chooses the shard."""

    def __init__(self, j_partition_key_generator: None = None) -> None:
        """Create a generator; use the static methods.

        Raises:
            JvmOnlyError: A Java generator was passed.
        """
        if j_partition_key_generator is not None:
            requires_jvm("PartitionKeyGenerator(j_partition_key_generator)", "use of()")
        self.function: Callable[[Any, int], str] = _random_key

    @staticmethod
    def fixed() -> PartitionKeyGenerator:
        """Return a generator of one key for each subtask, whose records go to one shard."""
        return _generator(_fixed_key)

    @staticmethod
    def random() -> PartitionKeyGenerator:
        """Return a generator of a random key for each record."""
        return _generator(_random_key)

    @staticmethod
    def of(function: Callable[[Any], str]) -> PartitionKeyGenerator:
        """Return a generator that calls a function with each record (beyond PyFlink)."""
        given: Any = function
        if not callable(given):
            raise WrongArgumentError(f"PartitionKeyGenerator.of takes a function, got {function!r}")
        return _generator(partial(_key_of, function))


def _generator(function: Callable[[Any, int], str]) -> PartitionKeyGenerator:
    made = PartitionKeyGenerator()
    made.function = function
    return made


def _fixed_key(record: Any, subtask: int) -> str:
    del record
    return str(subtask)


def _random_key(record: Any, subtask: int) -> str:
    del record, subtask
    return uuid.uuid4().hex


def _key_of(function: Callable[[Any], str], record: Any, subtask: int) -> str:
    del subtask
    return str(function(record))


@dataclass(frozen=True)
class _Description:
    """The target of a sink.

    Attributes:
        service: ``kinesis`` or ``firehose``.
        stream: The stream.
        aws: Region, endpoint and credentials.
        schema: The serialization schema of the records.
        key: The generator of partition keys; None for Firehose.
        limits: The limits of a request.
        max_record_bytes: The largest size of a record, in bytes.
    """

    service: str
    stream: str
    aws: AwsClientConfig
    schema: SerializationSchema
    key: PartitionKeyGenerator | None
    limits: BatchLimits
    max_record_bytes: int


class _ServiceSink(PythonSink[Any]):
    """Writes records, at least once: before each checkpoint the service has accepted all."""

    def __init__(self, j_sink: None = None) -> None:
        super().__init__()
        if j_sink is not None:
            requires_jvm(f"{type(self).__name__}(j_sink)", f"use {type(self).__name__}.builder()")
        self._described: _Description | None = None

    @classmethod
    def _of(cls, described: _Description) -> Self:
        sink = cls()
        sink._described = described
        return sink

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Return the writer of a subtask, which connects on its first request."""
        if self._described is None:
            name = type(self).__name__
            raise InvalidProgramError(f"{name} has no stream: use {name}.builder()")
        return ServiceWriter(self._described, context.get_index_of_subtask())


class KinesisStreamsSink(_ServiceSink):
    """Writes records into a stream of Kinesis, at least once; created by `builder`."""

    @staticmethod
    def builder() -> KinesisStreamsSinkBuilder:
        """Return a builder."""
        return KinesisStreamsSinkBuilder()


class KinesisFirehoseSink(_ServiceSink):
    """Writes records into a delivery stream of Firehose, at least once; created by `builder`."""

    @staticmethod
    def builder() -> KinesisFirehoseSinkBuilder:
        """Return a builder."""
        return KinesisFirehoseSinkBuilder()


class ServiceWriter(BatchingWriter["dict[str, Any]"]):
    """Sends records by ``PutRecords`` or ``PutRecordBatch``.

    Args:
        described: The target.
        subtask: The index of the subtask.
    """

    def __init__(self, described: _Description, subtask: int) -> None:
        self._described = described
        self._subtask = subtask
        self._is_stream = described.service == "kinesis"
        self._shown = f"{described.service} stream {described.stream}"
        self._client = described.aws.client(described.service)
        super().__init__(f"{described.service}-sink", self._shown, described.limits)

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer a record."""
        del context
        described = self._described
        with meant_for(self._shown):
            data = described.schema.serialize(element)
        if len(data) > described.max_record_bytes:
            raise FormatError(
                f"{self._shown}: a record has {len(data)} bytes, more than the "
                f"{described.max_record_bytes} of set_max_record_size_in_bytes"
            )
        entry: dict[str, Any] = {"Data": data}
        size_bytes = len(data)
        if described.key is not None:
            entry["PartitionKey"] = described.key.function(element, self._subtask)
            size_bytes += len(entry["PartitionKey"].encode())
        self.keep([entry], size_bytes)

    def send(self, entries: Sequence[dict[str, Any]]) -> Unsent[dict[str, Any]] | None:
        """Send records; return those that the service did not accept."""
        try:
            if self._is_stream:
                answer = self._client.put_records(Records=entries, **self._target())
                results = answer["Records"]
            else:
                answer = self._client.put_record_batch(Records=entries, **self._target())
                results = answer["RequestResponses"]
        except aws_errors() as error:
            if not is_transient(error):
                raise SinkError(f"{self._shown} rejects {len(entries)} records: {error}") from error
            return Unsent(entries, str(error), error)
        failed = [
            (entry, result)
            for entry, result in zip(entries, results, strict=True)
            if result.get("ErrorCode")
        ]
        if not failed:
            return None
        first = failed[0][1]
        return Unsent(
            [entry for entry, _ in failed], f"{first['ErrorCode']}: {first.get('ErrorMessage')}"
        )

    def release(self) -> None:
        """Close the connections."""
        self._client.close()

    def _target(self) -> dict[str, str]:
        stream = self._described.stream
        return stream_argument(stream) if self._is_stream else {"DeliveryStreamName": stream}


@checks_arguments
class _Builder(NoJavaMembers, ABC):
    """Builder of the settings that both sinks have.

    Flink sends up to ``max_in_flight_requests`` at a time; here a subtask waits for each
    response, so that records keep their order unless the service rejects some.
    """

    _service: ClassVar[str]
    _most_bytes: ClassVar[int]

    def __init__(self) -> None:
        self._stream = ""
        self._schema: SerializationSchema | None = None
        self._properties: dict[str, str] = {}
        self._max_record_bytes = self._most_record_bytes()
        self._limits = BatchLimits(
            max_entries=500,
            max_bytes=self._most_bytes,
            interval_ms=5000,
            max_retries=_RETRIES,
            delay_ms=_FIRST_DELAY_MS,
            longest_delay_ms=_LONGEST_DELAY_MS,
        )

    @classmethod
    @abstractmethod
    def _most_record_bytes(cls) -> int:
        """Return the service's limit of the size of a record, in bytes."""

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> Self:
        """Set the schema that serialises the records."""
        given: Any = serialization_schema
        if not isinstance(given, SerializationSchema):
            raise WrongArgumentError(
                f"{type(self).__name__}.set_serialization_schema takes a SerializationSchema, got "
                f"{serialization_schema!r}"
            )
        self._schema = serialization_schema
        return self

    def set_fail_on_error(self, fail_on_error: bool) -> Self:
        """Set whether the first rejected record fails the job; otherwise it is retried."""
        return self._limit(max_retries=0 if fail_on_error else _RETRIES)

    def set_max_batch_size(self, max_batch_size: int) -> Self:
        """Set the largest number of records in a request: 500 by default, which is the maximum."""
        return self._limit(max_entries=self._at_least_one("max_batch_size", max_batch_size, 500))

    def set_max_in_flight_requests(self, max_in_flight_requests: int) -> Self:
        """Accept a number without effect: a subtask sends one request at a time."""
        self._at_least_one("max_in_flight_requests", max_in_flight_requests)
        return self

    def set_max_buffered_requests(self, max_buffered_requests: int) -> Self:
        """Accept a number without effect: a subtask buffers one batch."""
        self._at_least_one("max_buffered_requests", max_buffered_requests)
        return self

    def set_max_batch_size_in_bytes(self, max_batch_size_in_bytes: int) -> Self:
        """Set the largest size of a request, in bytes."""
        name = "max_batch_size_in_bytes"
        size_bytes = self._at_least_one(name, max_batch_size_in_bytes, self._most_bytes)
        return self._limit(max_bytes=size_bytes)

    def set_max_time_in_buffer_ms(self, max_time_in_buffer_ms: int) -> Self:
        """Set the longest time that a record is buffered, in ms, 5000 by default."""
        name = "max_time_in_buffer_ms"
        return self._limit(interval_ms=self._at_least_one(name, max_time_in_buffer_ms))

    def set_max_record_size_in_bytes(self, max_record_size_in_bytes: int) -> Self:
        """Set the largest size of a record, in bytes; a larger record fails the job."""
        name = "max_record_size_in_bytes"
        self._max_record_bytes = self._at_least_one(name, max_record_size_in_bytes)
        return self

    def _describe(self, key: PartitionKeyGenerator | None) -> _Description:
        name = type(self).__name__
        if not self._stream or self._schema is None:
            missing = "the name of a stream" if self._schema is not None else "a schema"
            raise InvalidProgramError(f"{name}: set {missing} before build()")
        aws = AwsClientConfig(name, self._properties)
        aws.check()
        return _Description(
            self._service,
            self._stream,
            aws,
            self._schema,
            key,
            self._limits,
            self._max_record_bytes,
        )

    def _limit(self, **settings: Any) -> Self:
        self._limits = replace(self._limits, **settings)
        return self

    def _at_least_one(self, name: str, given: int, most: int | None = None) -> int:
        if given < 1 or (most is not None and given > most):
            bounds = "at least 1" if most is None else f"from 1 to {most}"
            raise InvalidProgramError(
                f"{type(self).__name__}: {name} must be {bounds}, got {given}"
            )
        return given


@checks_arguments
class KinesisStreamsSinkBuilder(_Builder):
    """Builder of a `KinesisStreamsSink`."""

    _service = "kinesis"
    _most_bytes = 5 * _MEBIBYTE

    def __init__(self) -> None:
        """Create a builder with 500 records or 5 MiB a request, and retries."""
        super().__init__()
        self._key = PartitionKeyGenerator.random()

    @classmethod
    def _most_record_bytes(cls) -> int:
        return _MEBIBYTE

    def set_stream_name(self, stream_name: str) -> Self:
        """Set the name or the ARN of the stream."""
        self._stream = stream_name
        return self

    def set_partition_key_generator(self, partition_key_generator: PartitionKeyGenerator) -> Self:
        """Set the generator of partition keys, random ones by default."""
        # A subclass has nothing to override: its keys would be random.
        if type(partition_key_generator) is not PartitionKeyGenerator:
            raise WrongArgumentError(
                "KinesisStreamsSinkBuilder.set_partition_key_generator takes "
                "PartitionKeyGenerator.of(function), fixed() or random(), got "
                f"{partition_key_generator!r}"
            )
        self._key = partition_key_generator
        return self

    def set_kinesis_client_properties(self, kinesis_client_properties: dict[str, str]) -> Self:
        """Set ``aws.region``, ``aws.endpoint`` and ``aws.credentials.provider…``."""
        self._properties = text_properties(type(self).__name__, kinesis_client_properties)
        return self

    def build(self) -> KinesisStreamsSink:
        """Return the sink.

        Raises:
            InvalidProgramError: The stream, the schema or the region is missing.
            DependencyError: boto3 is not installed.
        """
        return KinesisStreamsSink._of(self._describe(self._key))


@checks_arguments
class KinesisFirehoseSinkBuilder(_Builder):
    """Builder of a `KinesisFirehoseSink`."""

    _service = "firehose"
    _most_bytes = 4 * _MEBIBYTE

    def __init__(self) -> None:
        """Create a builder with 500 records or 4 MiB a request, and retries."""
        super().__init__()

    @classmethod
    def _most_record_bytes(cls) -> int:
        return 1000 << 10

    def set_delivery_stream_name(self, delivery_stream_name: str) -> Self:
        """Set the name of the delivery stream."""
        self._stream = delivery_stream_name
        return self

    def set_firehose_client_properties(self, firehose_client_properties: dict[str, str]) -> Self:
        """Set ``aws.region``, ``aws.endpoint`` and ``aws.credentials.provider…``."""
        self._properties = text_properties(type(self).__name__, firehose_client_properties)
        return self

    def build(self) -> KinesisFirehoseSink:
        """Return the sink.

        Raises:
            InvalidProgramError: The stream, the schema or the region is missing.
            DependencyError: boto3 is not installed.
        """
        return KinesisFirehoseSink._of(self._describe(None))
