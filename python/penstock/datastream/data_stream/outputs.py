"""Outputs of a stream: sinks, caches, and results that the program reads."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from penstock.datastream.data_stream.settings import StreamSettings
from penstock.datastream.data_stream.sink import DataStreamSink
from penstock.datastream.functions import SinkFunction
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.graph import operators
from penstock.graph.transformations import LegacySinkTransformation, SinkTransformation

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from penstock.connectors.base import Sink
    from penstock.datastream.data_stream.collect import CloseableIterator

T = TypeVar("T")


class StreamOutputs(StreamSettings, Generic[T]):
    """Methods of `DataStream` that write, keep or return its records."""

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write records to standard output: the program's, or in a session the workers'.

        Args:
            sink_identifier: A text to write before each record, with the number of the subtask.

        Raises:
            InvalidProgramError: The identifier is not a string.
        """
        return self._print("print", sink_identifier, to_error=False)

    def print_to_err(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write records to standard error, as `print` does to standard output.

        Args:
            sink_identifier: A text to write before each record, with the number of the subtask.

        Raises:
            InvalidProgramError: The identifier is not a string.
        """
        return self._print("print_to_err", sink_identifier, to_error=True)

    def _print(self, method: str, identifier: object, *, to_error: bool) -> DataStreamSink:
        if not isinstance(identifier, str | None):
            msg = f"{method}() takes a string to write before records, got {identifier!r:.100}"
            raise InvalidProgramError(msg)
        return self._sink(
            LegacySinkTransformation,
            "Print to Std. Err" if to_error else "Print to Std. Out",
            operators.PrintSink(identifier or "", to_error),
        )

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        """Pass each record to a sink function."""
        check_function(sink_func, SinkFunction, "add_sink", or_callable=False)
        sink = sink_func._as_sink()
        if sink is not None:
            return self.sink_to(sink)
        return self._sink(
            LegacySinkTransformation,
            "Unnamed",
            operators.FunctionSink(shipped(sink_func, "add_sink")),
        )

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the stream to a sink."""
        from penstock.connectors.base import Sink

        given: Any = sink
        if not isinstance(given, Sink):
            hint = "; pass a SinkFunction to add_sink" if isinstance(given, SinkFunction) else ""
            raise WrongArgumentError(f"sink_to takes a Sink, got {given!r}{hint}")
        writer = shipped(sink.sink_operator(), "sink_to")
        committer = sink.committer_operator()
        key_of = sink.key_of_records()
        stream: StreamOutputs[T] = self if key_of is None else self._stream().key_by(key_of)
        if committer is None:
            return stream._sink(SinkTransformation, "Sink", writer)
        from penstock.datastream.data_stream.sink import committing_sink

        return committing_sink(stream, sink, writer, committer)

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T]: ...

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, *, limit: int
    ) -> list[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T] | list[T]:
        """Execute the program and return the stream's records.

        Args:
            job_execution_name: The job's name.
            limit: The most records to return, as a list; the job is then cancelled.

        Returns:
            An iterator, which must be closed, or with a limit a list.

        Raises:
            InvalidProgramError: The limit is not positive.
        """
        from penstock.datastream.data_stream.collect import collect_stream

        if limit is not None and limit < 1:
            raise InvalidProgramError(f"the limit must be positive, got {limit}")
        iterator: CloseableIterator[T] = collect_stream(
            self._environment, self._transformation, job_execution_name
        )
        if limit is None:
            return iterator
        with iterator:
            return list(itertools.islice(iterator, limit))

    def to_arrow(self, schema: Any = None) -> pyarrow.Table:
        """Execute the program and return the stream's records as a table (beyond PyFlink).

        The workers convert the records to columns.

        Args:
            schema: A row type or an Arrow schema; by default that of the declared type: a column
                for each field of a row or tuple (``f0``, …), else one called ``value``.

        Raises:
            InvalidProgramError: A source may have no end, or the columns are not known.
            DependencyError: pyarrow is not installed.
            FormatError: A record does not fit the type.
        """
        from penstock.datastream.data_stream.tables import collected_table

        return collected_table(self, schema, "to_arrow")

    def to_pandas(self, schema: Any = None) -> pandas.DataFrame:
        """Execute the program and return a pandas DataFrame; see `to_arrow` (beyond PyFlink)."""
        from penstock.datastream.data_stream.tables import collected_table, pandas_of

        return pandas_of(collected_table(self, schema, "to_pandas"))

    def to_polars(self, schema: Any = None) -> polars.DataFrame:
        """Execute the program and return a Polars DataFrame; see `to_arrow` (beyond PyFlink)."""
        from penstock.datastream.data_stream.tables import collected_table, polars_of

        frame: polars.DataFrame = polars_of(collected_table(self, schema, "to_polars"))
        return frame

    def to_spark(self, spark: Any, path: str | None = None, schema: Any = None) -> Any:
        """Execute the program and return its records as a Spark DataFrame (beyond PyFlink).

        The subtasks write Parquet files, which Spark's executors read.

        Args:
            spark: The SparkSession of the DataFrame.
            path: The folder of the files, which all hosts reach; None for a temporary one, which
                is removed when the program ends, if Spark runs in local mode.
            schema: As for `to_arrow`.

        Raises:
            InvalidProgramError: As for `to_arrow`, or a path is needed.
        """
        from penstock.spark.frames import frame_of_stream

        return frame_of_stream(self, spark, path, schema)

    def _sink(
        self,
        transformation_class: type[SinkTransformation],
        name: str,
        operator: operators.OperatorDescriptor,
    ) -> DataStreamSink:
        transformation = transformation_class(
            self._transformation, name, operator, None, self._environment.get_parallelism()
        )
        self._environment.add_operator(transformation)
        return DataStreamSink(self._environment, transformation)
