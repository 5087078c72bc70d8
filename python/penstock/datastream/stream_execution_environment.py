"""StreamExecutionEnvironment: the entry point of a program, and its sources."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.names import checked_name
from penstock.common.configuration import Configuration as Configuration  # noqa: TC001 - as PyFlink's module
from penstock.common.execution_config import ExecutionConfig as ExecutionConfig
from penstock.common.io import InputFormat as InputFormat  # noqa: TC001 - as PyFlink's module
from penstock.common.job_client import JobClient as JobClient
from penstock.common.job_execution_result import JobExecutionResult as JobExecutionResult
from penstock.common.job_listener import JobListener as JobListener
from penstock.common.options import cluster
from penstock.common.typeinfo import TypeInformation as TypeInformation
from penstock.common.typeinfo import Types as Types
from penstock.common.watermark_strategy import WatermarkStrategy as WatermarkStrategy
from penstock.connectors.base import Source as Source
from penstock.datastream.annotations import of_records
from penstock.datastream.checkpoint_config import CheckpointConfig as CheckpointConfig
from penstock.datastream.checkpointing_mode import CheckpointingMode as CheckpointingMode
from penstock.datastream.collection_elements import encoded_elements, listed_elements
from penstock.datastream.data_stream.record_conversion import check_class_of_records
from penstock.datastream.data_stream.stream import DataStream as DataStream
from penstock.datastream.data_stream.type_arguments import TypeArgument, Undeclared, type_argument
from penstock.datastream.environment_execution import EnvironmentExecution
from penstock.datastream.execution_mode import RuntimeExecutionMode as RuntimeExecutionMode
from penstock.datastream.functions.function import check_function
from penstock.datastream.functions.source_sink import ParallelSourceFunction
from penstock.datastream.functions.source_sink import SourceFunction as SourceFunction
from penstock.datastream.process_configuration import process_configuration
from penstock.datastream.shipping import shipped
from penstock.datastream.slot_sharing_group import SlotSharingGroup as SlotSharingGroup
from penstock.datastream.utils import ResultTypeQueryable as ResultTypeQueryable
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.computed import with_computed_timestamps
from penstock.graph import operators
from penstock.graph.transformations import LegacySourceTransformation, SourceTransformation

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.common import Row

__all__ = ["StreamExecutionEnvironment"]

T = TypeVar("T")


@checks_arguments
class StreamExecutionEnvironment(EnvironmentExecution):
    """Entry point of a program: creates sources, holds settings, and executes the pipeline."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Create an environment with a copy of a configuration; see `get_execution_environment`."""
        super().__init__(configuration)

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None,
    ) -> StreamExecutionEnvironment:
        """Create an environment.

        Args:
            configuration: Settings of the job. They override the settings of the process, which
                come from, the strongest first: the JSON object in the environment variable
                PENSTOCK_CONFIGURATION; ``config.yaml`` in the folder PENSTOCK_CONF_DIR;
                ``pyproject.toml`` (table ``tool.penstock``) and ``penstock.yaml`` in the working
                directory; and, with ``--as-pyflink``, ``config.yaml`` in FLINK_CONF_DIR.

        Raises:
            ConfigurationError: The variable is not a JSON object, a file is missing or malformed,
                or an option has an invalid value.
        """
        settings = process_configuration()
        if configuration is not None:
            settings.add_all(configuration)
        return StreamExecutionEnvironment(settings)

    @staticmethod
    def create_local_environment(
        parallelism: int | None = None, configuration: Configuration | None = None
    ) -> StreamExecutionEnvironment:
        """Create an environment whose jobs run on this machine (beyond PyFlink).

        Args:
            parallelism: The parallelism of its operators; by default that of the configuration.
            configuration: See `get_execution_environment`.

        Raises:
            ConfigurationError: As in `get_execution_environment`, or the parallelism is not
                positive.
        """
        environment = StreamExecutionEnvironment.get_execution_environment(configuration)
        cluster.TARGET.write(environment.get_configuration(), "local")
        return environment if parallelism is None else environment.set_parallelism(parallelism)

    @staticmethod
    def create_remote_environment(
        host: str,
        port: int,
        parallelism: int | None = None,
        configuration: Configuration | None = None,
        *,
        token: str | None = None,
    ) -> StreamExecutionEnvironment:
        """Create an environment whose jobs run in the session at an address (beyond PyFlink).

        Args:
            host: The host of the session's jobmanager.
            port: Its port.
            parallelism: The parallelism of its operators; by default that of the configuration.
            configuration: See `get_execution_environment`.
            token: The session's token; see `RemoteStreamEnvironment`.

        Raises:
            ConfigurationError: The address, the token or the parallelism is invalid.
        """
        from penstock.datastream.remote_configuration import remote_configuration

        settings = remote_configuration(host, port, configuration, token)
        environment = StreamExecutionEnvironment(settings)
        return environment if parallelism is None else environment.set_parallelism(parallelism)

    # Sources ----------------------------------------------------------------------------------

    @overload
    def from_collection(
        self, collection: Collection[Any], type_info: TypeInformation[T]
    ) -> DataStream[T]: ...

    @overload
    def from_collection(
        self, collection: Collection[T], type_info: Undeclared = None
    ) -> DataStream[T]: ...

    def from_collection(
        self, collection: Collection[Any], type_info: TypeArgument = None
    ) -> DataStream[Any]:
        """Create a stream of the program's own values; the source has one subtask.

        Args:
            collection: The values, or a frame of pandas or Polars or an Arrow table, whose rows are
                the records.  They are encoded in this call, so a value of another type fails here.
            type_info: The type of the records; by default any Python value.

        Raises:
            InvalidProgramError: The argument is not a collection.
            SerializationError: A value does not match the type.
        """
        from penstock.serialization.class_reference import noting_classes

        declared = type_argument(type_info, "from_collection")
        values = listed_elements(collection, declared)
        with noting_classes() as classes:
            elements = encoded_elements(values, declared)
        source = SourceTransformation(
            "Collection Source",
            operators.CollectionSource(
                elements=elements, element_type=declared, classes=list(classes)
            ),
            declared,
            1,
        )
        if declared is None:
            of_records(map(type, values)).describe(source)
        return self._source(source, non_parallel=True)

    def from_elements(self, *elements: T) -> DataStream[T]:
        """Create a stream of the arguments, without a declared type (beyond PyFlink)."""
        return self.from_collection(elements)

    def from_arrow(self, table: Any) -> DataStream[Row]:
        """Create a stream of an Arrow table's rows, shipped as columns (beyond PyFlink).

        Args:
            table: A Table, RecordBatch or RecordBatchReader, or any object with
                ``__arrow_c_stream__``.

        Raises:
            InvalidProgramError: The argument is not a table, or two columns have one name.
            DependencyError: pyarrow is not installed.
        """
        from penstock.datastream.frames import source_of_arrow

        return self._from_table(source_of_arrow(table), "Arrow Source")

    def from_pandas(self, frame: Any, schema: Any = None) -> DataStream[Row]:
        """Create a stream of a pandas DataFrame's rows, without its index; see `from_arrow`.

        Args:
            frame: The DataFrame.
            schema: A row type, a type of records, or an Arrow schema: the columns to read and their
                types.  By default all columns, with the types that Arrow infers: a dictionary is
                then a row of its keys, and only a schema makes it a map.

        Raises:
            InvalidProgramError: The argument is not a DataFrame, it lacks a column of the schema,
                or values do not have its type.
            DependencyError: pyarrow is not installed.
        """
        from penstock.datastream.frames import source_of_pandas

        return self._from_table(source_of_pandas(frame, schema), "Pandas Source")

    def from_polars(self, frame: Any) -> DataStream[Row]:
        """Create a stream of a Polars DataFrame's rows; see `from_arrow`."""
        from penstock.datastream.frames import source_of_polars

        return self._from_table(source_of_polars(frame), "Polars Source")

    def from_spark(self, frame: Any, path: str | None = None) -> DataStream[Row]:
        """Create a stream of a Spark DataFrame's rows, through Parquet files (beyond PyFlink).

        Spark runs the DataFrame in this call, and its executors write the files; the subtasks read
        them.

        Args:
            frame: The DataFrame.
            path: A folder that all hosts can access.  It must not exist, unless the job starts from
                a savepoint or takes over a job: then its files are read.  By default a temporary
                folder that is removed when the program ends; this needs Spark in local mode.

        Raises:
            InvalidProgramError: The argument is not a DataFrame, penstock has no type for a column,
                or a path is needed.
        """
        from penstock.spark.frames import source_of_spark

        return self._from_table(source_of_spark(self, frame, path), "Spark Source")

    def from_queue(
        self, queue: Any, type_info: TypeArgument = None, *, end: Any = None
    ) -> DataStream[Any]:
        """Create a stream of values that the program queues while the job runs (beyond PyFlink).

        With checkpoints each record is read once as long as the program lives; without them a
        failure loses the records in flight.

        Args:
            queue: A ``queue.Queue``, or an object with its method ``get``; it stays in this
                process.
            type_info: The type of the records.
            end: The value, compared by identity, that ends the stream.

        Raises:
            WrongArgumentError: The argument is not a queue.
        """
        from penstock.connectors.queues import QueueSource

        source = QueueSource.of_queue(queue, end)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Queue", type_info)

    def from_async_iterator(self, elements: Any, type_info: TypeArgument = None) -> DataStream[Any]:
        """Create a stream of an asynchronous iterator's values (beyond PyFlink).

        The iterator runs in this process, in its own event loop; guarantees are those of
        `from_queue`.

        Args:
            elements: An asynchronous iterable, or a function without arguments that returns one.
            type_info: The type of the records.

        Raises:
            WrongArgumentError: The argument is neither.
        """
        from penstock.connectors.queues import QueueSource

        source = QueueSource.of_async_iterator(elements)
        name = "Asynchronous Iterator"
        return self.from_source(source, WatermarkStrategy.no_watermarks(), name, type_info)

    def _from_table(self, source: Source, name: str) -> DataStream[Row]:
        return self.from_source(source, WatermarkStrategy.no_watermarks(), name)

    @overload
    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation[T],
    ) -> DataStream[T]: ...

    @overload
    def from_source(
        self,
        source: Source[T],
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: Undeclared = None,
    ) -> DataStream[T]: ...

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeArgument = None,
    ) -> DataStream[Any]:
        """Create a stream of a source's records.

        Args:
            source: The source of a connector, or a `PythonSource` of your own.
            watermark_strategy: The strategy that assigns timestamps and generates watermarks.
            source_name: The name of the operator.
            type_info: The type of the records; by default that of the source.

        Raises:
            WrongArgumentError: The source is not a Source, or the strategy is not a
                WatermarkStrategy.
            InvalidProgramError: The name is not a string, or cannot be sent, or the source emits
                rows and the type is that of a class: use `DataStream.as_records`.
        """
        given: Any = source
        if not isinstance(given, Source):
            raise WrongArgumentError(f"from_source takes a Source, got {given!r}")
        strategy: Any = watermark_strategy
        if not isinstance(strategy, WatermarkStrategy):
            raise WrongArgumentError(f"from_source takes a WatermarkStrategy, got {strategy!r}")
        produced = source.get_produced_type()
        declared = type_argument(produced if type_info is None else type_info, "from_source")
        check_class_of_records(declared, produced)
        operator = source.source_operator()
        if isinstance(operator, operators.SplitSource):
            operator = replace(operator, function=shipped(operator.function, "from_source"))
        timestamped = with_computed_timestamps(shipped(watermark_strategy, "from_source"), declared)
        return self._source(
            SourceTransformation(
                checked_name("an operator", source_name),
                replace(operator, watermark_strategy=timestamped),
                declared,
                self.get_parallelism(),
                bounded=source.is_bounded(),
            )
        )

    @overload
    def add_source(
        self, source_func: SourceFunction, source_name: str, type_info: TypeInformation[T]
    ) -> DataStream[T]: ...

    @overload
    def add_source(
        self,
        source_func: SourceFunction,
        source_name: str = "Custom Source",
        *,
        type_info: TypeInformation[T],
    ) -> DataStream[T]: ...

    @overload
    def add_source(
        self,
        source_func: SourceFunction[T],
        source_name: str = "Custom Source",
        type_info: Undeclared = None,
    ) -> DataStream[T]: ...

    def add_source(
        self,
        source_func: SourceFunction,
        source_name: str = "Custom Source",
        type_info: TypeArgument = None,
    ) -> DataStream[Any]:
        """Create a stream of a source function; only a ParallelSourceFunction runs in parallel."""
        check_function(source_func, SourceFunction, "add_source", or_callable=False)
        source = source_func._as_source()
        if source is not None:
            strategy = WatermarkStrategy.no_watermarks()
            return self.from_source(source, strategy, source_name, type_info)
        parallel = isinstance(source_func, ParallelSourceFunction)
        return self._source(
            LegacySourceTransformation(
                checked_name("an operator", source_name),
                operators.FunctionSource(shipped(source_func, "add_source")),
                type_argument(type_info, "add_source"),
                self.get_parallelism() if parallel else 1,
                bounded=False,
            ),
            non_parallel=not parallel,
        )

    def create_input(
        self, input_format: InputFormat, type_info: TypeArgument = None
    ) -> DataStream[Any]:
        """Create a stream of the records that an input format reads.

        Args:
            input_format: An AvroInputFormat; the others are Java objects.
            type_info: The type of the records; by default that of the format.

        Raises:
            JvmOnlyError: It is another format.
        """
        from penstock.connectors.files.source import FileSource
        from penstock.formats.avro_files import AvroInputFormat

        if not isinstance(input_format, AvroInputFormat):
            requires_jvm("create_input", "use from_source")
        files = FileSource.for_record_stream_format(input_format.stream_format(), input_format.path)
        strategy = WatermarkStrategy.no_watermarks()
        return self.from_source(files.build(), strategy, "Avro File Source", type_info)

    def socket_text_stream(
        self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0
    ) -> DataStream[str]:
        """Create a stream of the strings that a server sends (beyond PyFlink).

        Args:
            hostname: The server.
            port: Its port.
            delimiter: The end of each string; a carriage return before a line feed is dropped.
            max_retry: The number of connections, at least one; -1 for no limit.  The source
                connects again 500 ms after the server has ended a connection.  A connection that
                is refused or breaks fails the job.

        Raises:
            InvalidProgramError: The port, the delimiter or max_retry is invalid.
        """
        if not 1 <= port <= 65535:
            raise InvalidProgramError(f"a port must be between 1 and 65535, got {port}")
        if not delimiter:
            raise InvalidProgramError("a delimiter cannot be empty")
        if max_retry < -1:
            raise InvalidProgramError(
                f"max_retry must be a number of connections, or -1 for no limit, got {max_retry}"
            )
        return self._source(
            LegacySourceTransformation(
                "Socket Stream",
                operators.SocketTextSource(
                    host=hostname, port=port, delimiter=delimiter, max_retry=max_retry
                ),
                Types.STRING(),
                1,
                bounded=False,
            ),
            non_parallel=True,
        )

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream[str]:
        """Create a stream of the lines of a file or of all files in a folder, as in PyFlink 1.

        Args:
            file_path: The file or folder, or a pattern such as ``/logs/**/*.txt``.
            charset_name: The encoding of the files.
        """
        from penstock.connectors.files.source import FileSource
        from penstock.formats.lines import StreamFormat

        text = StreamFormat.text_line_format(charset_name)
        source = FileSource.for_record_stream_format(text, file_path).build()
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Text File Source")

    def _source(
        self, transformation: SourceTransformation, *, non_parallel: bool = False
    ) -> DataStream[Any]:
        if non_parallel:
            transformation.set_max_parallelism(1)
        return DataStream(self, transformation, non_parallel=non_parallel)
