"""Spark's DataFrames as streams, and bounded streams as DataFrames, via Parquet files.

Spark's executors write the files and the TaskExecutors read them, or vice versa: no row passes
through the driver.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.common.options import high_availability, state_recovery
from penstock.common.typeinfo import TypeInformation, Types
from penstock.connectors.files.buckets import BucketAssigner, RollingPolicy
from penstock.connectors.files.sink import FileSink
from penstock.connectors.files.source import FileSource
from penstock.datastream.data_stream.tables import columns_of_stream, refuse_unbounded
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.formats.arrow_types import arrow_schema
from penstock.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from penstock.spark.session import is_local

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.base import Source
    from penstock.datastream.data_stream.settings import StreamSettings
    from penstock.datastream.environment_execution import EnvironmentExecution

#: Types by Spark's type names.
_TYPES: Final[dict[str, Callable[[], TypeInformation]]] = {
    "boolean": Types.BOOLEAN,
    "byte": Types.BYTE,
    "short": Types.SHORT,
    "integer": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "decimal": Types.BIG_DEC,
    "string": Types.STRING,
    "binary": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "date": Types.SQL_DATE,
    "timestamp": Types.TIMESTAMP_LTZ,
    "timestamp_ntz": Types.SQL_TIMESTAMP,
}


def source_of_spark(env: EnvironmentExecution, frame: Any, path: str | None) -> Source:
    """Let Spark write a DataFrame as Parquet, and return the source that reads the files.

    Raises:
        InvalidProgramError: The argument is not a DataFrame, a column has a type that no stream
            has, or no folder is reachable from all hosts.
    """
    if not any(kind.__module__.startswith("pyspark.sql") for kind in type(frame).__mro__):
        raise WrongArgumentError(f"from_spark takes a DataFrame of Spark, got {frame!r}")
    if frame.isStreaming:
        raise InvalidProgramError(
            "from_spark takes a DataFrame with an end, this one is a stream: write it by "
            "foreachBatch(penstock.spark.streams.write_batches(folder)) and read it by "
            "read_batches(frame.schema, folder, interval)"
        )
    row_type = type_of_columns(frame.schema, "from_spark")
    folder = _folder(path, frame.sparkSession, "from_spark")
    goes_on = path is not None and _goes_on(env)
    if not goes_on or not _has(env, folder, "_SUCCESS"):
        # Files of an earlier program that ended midway have no reader yet; files that Spark has not
        # started belong to another program.
        is_left = goes_on and _has(env, folder, "_temporary")
        frame.write.mode("overwrite" if path is None or is_left else "error").parquet(folder)
    return FileSource.for_bulk_file_format(format_of_spark(row_type), folder).build()


def format_of_spark(row_type: Any) -> ParquetColumnarRowInputFormat:
    """Return the format of the files that Spark writes; instants may have no zone in them."""
    return ParquetColumnarRowInputFormat(row_type, is_utc_timestamp=True)


def _goes_on(env: EnvironmentExecution) -> bool:
    """Return whether the job may resume a job of an earlier run of the program."""
    configuration = env.get_configuration().to_dict()
    return (
        state_recovery.PATH.read(configuration) is not None
        or high_availability.TYPE.read(configuration) != "NONE"
    )


def _has(env: EnvironmentExecution, folder: str, name: str) -> bool:
    """Return whether a folder has Spark's success file or its temporary folder."""
    files = FileSystems(env.get_configuration().to_dict())
    path = f"{folder.rstrip('/')}/{name}"
    return files.of(path).exists(path)


def frame_of_stream(stream: StreamSettings, session: Any, path: str | None, schema: Any) -> Any:
    """Run the program, which writes the records as Parquet, and return a DataFrame of the files.

    Raises:
        InvalidProgramError: A source may have no end, the columns are unknown, or no folder is
            reachable from all hosts.
    """
    if not hasattr(session, "read"):
        raise WrongArgumentError(f"to_spark takes a SparkSession, got {session!r}")
    environment = stream._environment
    refuse_unbounded(environment, "to_spark")
    row_type, is_single = columns_of_stream(stream, schema, "to_spark")
    folder = _folder(path, session, "to_spark")
    rows = stream._stream()
    if is_single:
        rows = rows.map(lambda value: (value,), Types.TUPLE(row_type.get_field_types()))
    sink = (
        FileSink.for_bulk_format(folder, ParquetBulkWriters.for_row_type(row_type))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    rows.sink_to(sink)
    environment.execute("to_spark")
    if "://" not in folder:
        # Without records there is no file; an empty folder is an empty DataFrame.
        Path(folder).mkdir(parents=True, exist_ok=True)
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = from_arrow_schema(arrow_schema(row_type), prefer_timestamp_ntz=True)
    return session.read.schema(columns).parquet(folder)


def _folder(path: str | None, session: Any, where: str) -> str:
    if path is not None:
        return path
    if not is_local(session.conf.get("spark.master", "")):
        raise InvalidProgramError(
            f"{where}: Spark runs on several hosts: give a path that all of them reach, such as "
            "s3://bucket/folder or one of a shared file system"
        )
    folder = tempfile.mkdtemp(prefix="penstock-frame-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(Path(folder, "parquet"))


def type_of_columns(declared: Any, where: str, column: str = "") -> Any:
    """Return the type of a Spark value; for a schema, that of its rows.

    Args:
        declared: Spark's type.
        where: The caller, for the message.
        column: The column of the value.

    Raises:
        InvalidProgramError: A column has a type that no stream has.
    """
    name = declared.typeName()
    if name == "struct":
        fields = [
            (f.name, type_of_columns(f.dataType, where, column or f.name)) for f in declared.fields
        ]
        return Types.ROW_NAMED([name for name, _ in fields], [kind for _, kind in fields])
    if name == "array":
        return Types.LIST(type_of_columns(declared.elementType, where, column))
    if name == "map":
        key = type_of_columns(declared.keyType, where, column)
        return Types.MAP(key, type_of_columns(declared.valueType, where, column))
    if name not in _TYPES:
        raise InvalidProgramError(
            f"{where}: the column {column!r} is of Spark's type {declared.simpleString()}, which "
            "has no counterpart: cast it before"
        )
    return _TYPES[name]()
