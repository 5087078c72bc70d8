"""The sink of tables in files: rows as lines or columns, in the folders of their partitions."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

from penstock.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from penstock.connectors.files.buckets import BucketAssigner, RollingPolicy
from penstock.connectors.files.sink import FileSink
from penstock.errors import InvalidProgramError
from penstock.formats.avro import AvroBulkWriters, AvroSchema
from penstock.table.connectors.batches import rows_of
from penstock.table.connectors.interfaces import INSERT_ONLY, TableSink, stream_of
from penstock.table.connectors.partition_commits import partition_commit
from penstock.table.connectors.printing import value_text
from penstock.table.exceptions import ValidationException
from penstock.table.formats.avro_types import AvroMapping, is_legacy
from penstock.table.options.connector_options import boolean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.graph.transformations import Transformation
    from penstock.table.connectors.interfaces import ExecutionContext
    from penstock.table.formats.row_format import RowFormat
    from penstock.table.types import RowType


def auto_compaction(given: str) -> bool:
    """Return False.

    Raises:
        ValueError: Compaction is requested.
    """
    if boolean(given):
        raise ValueError(
            "files of tables are not compacted: checkpoint less often, or use enable_compact of a "
            "FileSink in a program with streams"
        )
    return False


class _Lines(Encoder):
    """Writes the second part of pairs of a folder and a line."""

    def __init__(self) -> None:
        super().__init__("UTF-8")

    def encode(self, element: Any) -> bytes:
        """Return the line with its line feed."""
        line: bytes = element[1]
        return line + b"\n"


class _Folders(BucketAssigner):
    """Returns the folder in the first part of an element."""

    def get_bucket_id(self, element: Any, processing_time_ms: int) -> str:
        """Return the folder."""
        del processing_time_ms
        folder: str = element[0]
        return folder


class LineFiles:
    """Files with a row on each line.

    Args:
        row_format: The format of a line.
    """

    def __init__(self, row_format: RowFormat) -> None:
        self._row_format = row_format
        self.kinds = row_format.kinds_written

    def elements(self, rows: Sequence[tuple[int, str, Sequence[Any]]]) -> Iterator[Any]:
        """Yield pairs of a folder and a line."""
        encode = self._row_format.encode
        for kind, folder, row in rows:
            yield folder, encode(kind, row)

    def builder(self, path: str, values: Mapping[str, Any]) -> Any:
        """Return the builder of the sink that writes the elements."""
        policy = RollingPolicy.default_rolling_policy(
            part_size=values["sink.rolling-policy.file-size"],
            rollover_interval=values["sink.rolling-policy.rollover-interval"],
            inactivity_interval=values["sink.rolling-policy.inactivity-interval"],
        )
        builder = FileSink.for_row_format(path, _Lines()).with_rolling_policy(policy)
        return builder.with_bucket_check_interval(values["sink.rolling-policy.check-interval"])


class BulkFiles:
    """Files of columns.

    Args:
        name: The format: ``parquet``, ``orc`` or ``avro``.
        stored: The type of the rows.
        options: The options of the format.

    Raises:
        ValidationException: Avro has no type for a column, or the codec is unavailable.
    """

    kinds = INSERT_ONLY

    def __init__(self, name: str, stored: RowType, options: Mapping[str, str]) -> None:
        self._stored = stored
        self._writers = (
            _AvroFiles(stored, options) if name == "avro" else _BatchWriters(name, stored, options)
        )

    def elements(self, rows: Sequence[tuple[int, str, Sequence[Any]]]) -> Iterator[Any]:
        """Yield pairs of a folder and a batch of its rows."""
        from penstock.table.connectors.batches import record_batch

        by_folder: dict[str, list[tuple[int, Sequence[Any]]]] = {}
        for kind, folder, row in rows:
            by_folder.setdefault(folder, []).append((kind, row))
        for folder, found in by_folder.items():
            yield folder, record_batch(found, self._stored)

    def builder(self, path: str, values: Mapping[str, Any]) -> Any:
        """Return the builder of the sink that writes the elements."""
        del values
        return FileSink.for_bulk_format(path, self._writers)


class _BatchWriters(BulkWriterFactory):
    """Creates writers of record batches."""

    can_be_concatenated = False

    def __init__(self, name: str, stored: RowType, options: Mapping[str, str]) -> None:
        super().__init__()
        self._name = name
        self._stored = stored
        self._options = dict(options)

    def create(self, file: BinaryIO) -> BulkWriter:
        """Return the writer of a file."""
        return _BatchWriter(self._name, self._stored, self._options, file)


class _BatchWriter(BulkWriter):
    def __init__(
        self, name: str, stored: RowType, options: Mapping[str, str], file: BinaryIO
    ) -> None:
        from penstock.table.types.arrow_types import arrow_schema

        self._schema = arrow_schema(stored)
        compression = options.get("compression", "snappy").lower()
        if name == "orc":
            from pyarrow import orc

            self._writer = orc.ORCWriter(file, compression=compression)
        else:
            from pyarrow import parquet

            self._writer = parquet.ParquetWriter(file, self._schema, compression=compression)

    def add_element(self, element: Any) -> None:
        """Write a batch."""
        import pyarrow as pa

        self._writer.write(pa.Table.from_batches([element[1]]))

    def flush(self) -> None:
        """Do nothing: batches are written on arrival."""

    def finish(self) -> None:
        """Write the end of the file."""
        self._writer.close()

    def abandon(self) -> None:
        """Close the writer without completing the file."""
        self._writer.close()


class _AvroFiles(BulkWriterFactory):
    """Creates writers of Avro files: the batches' rows as records."""

    can_be_concatenated = False

    def __init__(self, stored: RowType, options: Mapping[str, str]) -> None:
        super().__init__()
        self._stored = stored
        self._mapping = AvroMapping(stored, is_legacy=is_legacy(options))
        codec = options.get("codec", "snappy" if _has_snappy() else "deflate")
        schema = AvroSchema(self._mapping.schema_text)
        try:
            self._records = AvroBulkWriters.for_generic_record(schema, codec)
        except InvalidProgramError as error:
            raise ValidationException(
                f"Invalid value '{codec}' for option 'codec' of format 'avro': {error}"
            ) from error

    def create(self, file: BinaryIO) -> BulkWriter:
        """Return the writer of a file."""
        return _AvroFile(self._stored, self._mapping, self._records.create(file))


class _AvroFile(BulkWriter):
    def __init__(self, stored: RowType, mapping: AvroMapping, records: BulkWriter) -> None:
        self._stored, self._mapping, self._records = stored, mapping, records

    def add_element(self, element: Any) -> None:
        """Write the rows of a batch."""
        for _, row in rows_of(element[1], self._stored):
            self._records.add_element(self._mapping.record(row))

    def flush(self) -> None:
        """Write the buffered records."""
        self._records.flush()

    def finish(self) -> None:
        """Write the end of the file."""
        self._records.finish()


def _has_snappy() -> bool:
    """Return whether snappy, the codec that Flink writes by default, is installed."""
    from importlib.util import find_spec

    return find_spec("cramjam") is not None


class FilesystemSink(TableSink):
    """Writes the files of a folder.

    Args:
        path: The folder, or a URL.
        row_type: The type of the rows.
        partition: The positions of the columns that are stored in folder names.
        writer: The format of the files.
        values: The options of the connector.
        is_streaming: Whether the query runs in streaming mode.
    """

    def __init__(
        self,
        path: str,
        row_type: RowType,
        partition: Sequence[int],
        writer: LineFiles | BulkFiles,
        values: Mapping[str, Any],
        *,
        is_streaming: bool = True,
    ) -> None:
        self._path = path
        self._row_type = row_type
        self._partition = list(partition)
        self._writer = writer
        self._values = values
        self._is_streaming = is_streaming
        self._overwrites = False
        self.kinds = writer.kinds

    def overwriting(self, table: str) -> TableSink:
        """Return a sink that replaces the files of the folders that it writes."""
        if self._is_streaming:
            raise ValidationException(
                f"INSERT OVERWRITE into {table} is for batch mode: in streaming mode a table of "
                "files only grows"
            )
        if "://" in self._path:
            raise ValidationException(
                f"INSERT OVERWRITE into {table} is for local folders, not for {self._path}"
            )
        made = copy.copy(self)
        made._overwrites = True
        return made

    def consume(self, transformation: Transformation, context: ExecutionContext) -> None:
        """Add the operators that write the files."""
        row_type, partition, writer = self._row_type, self._partition, self._writer
        default = self._values["partition.default-name"]
        stored = [i for i in range(len(row_type)) if i not in partition]
        names = row_type.field_names()

        def folder(row: Sequence[Any]) -> str:
            parts = []
            for i in partition:
                value = row[i]
                text = default if value is None else quote(_text(value, row_type, i), safe=" +,")
                parts.append(f"{quote(names[i], safe='')}={text}")
            return "/".join(parts)

        def elements(batch: Any) -> Iterator[Any]:
            rows = [
                (kind, folder(row) if partition else "", [row[i] for i in stored])
                for kind, row in rows_of(batch, row_type)
            ]
            return writer.elements(rows)

        stream = stream_of(transformation, context).flat_map(elements)
        builder = writer.builder(self._path, self._values).with_bucket_assigner(_Folders())
        commit = partition_commit(self._values, [names[i] for i in partition])
        if commit is not None:
            trigger, policies = commit
            builder = builder.with_partition_commit(trigger, *policies)
        files = builder.build()
        if self._overwrites:
            files = files.replacing(_visible_files(Path(self._path)))
        sink = stream.sink_to(files)
        if self._values["sink.parallelism"] is not None:
            stream.set_parallelism(self._values["sink.parallelism"])
            sink.set_parallelism(self._values["sink.parallelism"])


def _visible_files(folder: Path) -> list[str]:
    """Return the files of a table: those whose names do not begin with a dot or an underscore."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(
        str(path)
        for path in found
        if not any(part[0] in "._" for part in path.relative_to(folder).parts)
    )


def _text(value: Any, row_type: RowType, position: int) -> str:
    return value_text(value, row_type.field_types()[position])
