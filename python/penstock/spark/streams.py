"""Spark's structured streams as sources, through folders of Parquet files.

Spark's executors write the files and the TaskExecutors read them: no row passes through the driver.
If Spark repeats a batch because its query resumes from its checkpoint, the batch has the same
folder again: existing folders are not written a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.files.source import FileSource
from penstock.errors import InvalidProgramError, SourceError, WrongArgumentError
from penstock.spark.frames import format_of_spark, type_of_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.time import Duration, Time

__all__ = ["read_batches", "write_batches"]

#: File systems in which renaming a folder is atomic.
_ATOMIC: Final = ("file", "hdfs", "viewfs")


def write_batches(folder: str) -> Callable[[Any, int], None]:
    """Return the function for `DataStreamWriter.foreachBatch`: each batch becomes a folder, once.

    Args:
        folder: The target folder of a single query, reachable from all executors and
            TaskExecutors.
    """
    given: Any = folder
    if not isinstance(given, str) or not given:
        raise WrongArgumentError(f"write_batches takes the path of a folder, got {given!r}")

    def write(frame: Any, batch_id: int) -> None:
        session = frame.sparkSession
        jvm, java = getattr(session, "_jvm", None), getattr(session, "_jsc", None)
        if jvm is None or java is None:
            raise InvalidProgramError(
                "write_batches needs a SparkSession in this process: Spark Connect names no files"
            )
        paths = jvm.org.apache.hadoop.fs.Path
        name = f"batch-{batch_id:019d}"
        hidden, final = paths(folder, f".{name}"), paths(folder, name)
        files = hidden.getFileSystem(java.hadoopConfiguration())
        scheme = files.getUri().getScheme()
        if scheme not in _ATOMIC:
            raise InvalidProgramError(
                f"write_batches: {folder} is on {scheme}, where folders are not renamed "
                f"atomically: use a folder on {', '.join(_ATOMIC)}"
            )
        if files.exists(final):
            return  # the query ended before it recorded the batch
        frame.write.mode("overwrite").parquet(hidden.toString())
        if not files.rename(hidden, final):
            raise SourceError(f"write_batches: {hidden.toString()} cannot be renamed")

    return write


def read_batches(schema: Any, folder: str, discovery_interval: Duration | Time) -> FileSource:
    """Return an unbounded source of the files that `write_batches` writes.

    Args:
        schema: The schema of the written DataFrame, a ``StructType``.
        folder: As for `write_batches`.
        discovery_interval: The interval between searches for new batches.

    Raises:
        WrongArgumentError: The argument is not a schema of Spark's.
        InvalidProgramError: A column has a type that no stream has.
    """
    if not hasattr(schema, "typeName") or schema.typeName() != "struct":
        raise WrongArgumentError(f"read_batches takes the schema of a DataFrame, got {schema!r}")
    row_format = format_of_spark(type_of_columns(schema, "read_batches"))
    source = FileSource.for_bulk_file_format(row_format, folder)
    return source.monitor_continuously(discovery_interval).build()
