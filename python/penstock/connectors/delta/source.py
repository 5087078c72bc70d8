"""DeltaSource: the rows of a Delta Lake table, and their changes (beyond PyFlink)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.types import Row
from penstock.connectors.delta.changes import ChangesSplit, DeltaChangesSource
from penstock.connectors.delta.library import delta_library, opening_of
from penstock.connectors.delta.log import check_features
from penstock.connectors.files.source import FileSource, sink_path
from penstock.connectors.tables import check_columns
from penstock.errors import InvalidProgramError, SourceError
from penstock.formats.arrow_columns import column_values
from penstock.formats.arrow_types import row_type_of
from penstock.formats.file_format import Batch, BulkFormat, FileRange
from penstock.formats.json_values import named_row
from penstock.formats.parquet import ParquetColumnarRowInputFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.common.typeinfo import TypeInformation


@checks_arguments
class DeltaSource:
    """Source of a table's rows in one version, or of the changes of its versions."""

    @staticmethod
    def for_snapshot(
        table_uri: str,
        columns: Sequence[str] | None = None,
        version: int | None = None,
        storage_options: dict[str, str] | None = None,
    ) -> FileSource:
        """Return a source of the table's rows in one version.

        All subtasks read the files, like those of a `FileSource`.

        Args:
            table_uri: The folder of the table, or a URL that both deltalake and pyarrow know.
            columns: The columns to read, in this order; all if None.
            version: The version; the newest if None.
            storage_options: Deltalake's options for the store; the job passes them to the workers,
                which also read with them.

        Raises:
            InvalidProgramError: There is no such column, or the table has a feature that is not
                supported.
            DependencyError: deltalake or pyarrow is not installed.
            SourceError: The table or version does not exist, or the store fails.
        """
        import pyarrow as pa

        table, wanted = _table_and_schema(table_uri, columns, version, storage_options)
        chosen = wanted.names
        partitions = [name for name in table.metadata().partition_columns if name in chosen]
        file_format: BulkFormat = ParquetColumnarRowInputFormat(
            row_type_of(
                pa.schema([field for field in wanted if field.name not in partitions]),
                "DeltaSource",
            ),
            is_utc_timestamp=True,  # the table defines which timestamps have a zone, not the file
        )
        base = sink_path(table_uri)
        actions = pa.table(table.get_add_actions(flatten=True))
        uris = [file_uri(path, base) for path in actions["path"].to_pylist()]
        if partitions:
            values = dict(zip(uris, _partition_values(actions, partitions, wanted), strict=True))
            file_format = _WithPartitions(file_format, row_type_of(wanted, "DeltaSource"), values)
        store = None
        if storage_options is not None and "://" in base:
            sizes = dict(zip(uris, actions["size_bytes"].to_pylist(), strict=True))
            store = _TableFiles(base, storage_options, sizes)
        return FileSource(file_format, tuple(uris), store=store)

    @staticmethod
    def for_changes(
        table_uri: str,
        columns: Sequence[str] | None = None,
        *,
        snapshot: bool = True,
        start_version: int | None = None,
        end_version: int | None = None,
        discovery_interval_ms: int = 1000,
        storage_options: dict[str, str] | None = None,
    ) -> DeltaChangesSource:
        """Return a source of the table's rows, followed by the changes of later versions.

        The records are rows with kinds: INSERT for added rows, DELETE for removed rows.  An update
        is a DELETE of the old and an INSERT of the new row, or, if the table records its changes
        (``delta.enableChangeDataFeed``), an UPDATE_BEFORE and an UPDATE_AFTER.  Rows of a version
        have the time of its commit as their timestamp, rows of the snapshot have none.  Versions
        that only merge files emit nothing.

        Args:
            table_uri: The folder of the table, or a URL that deltalake knows.
            columns: The columns to read, in this order; all if None.
            snapshot: Whether to start with all rows of ``start_version``; otherwise with the
                changes of the version after it.
            start_version: The first version; by default the newest one when the program is built.
            end_version: The last version; None for an endless source.
            discovery_interval_ms: The interval between two searches for a new version.
            storage_options: Deltalake's options for the store.

        Raises:
            InvalidProgramError: There is no such column, the table has a feature that is not
                supported, or the versions are not in order.
            DependencyError: deltalake or pyarrow is not installed.
            SourceError: The table or version does not exist, or the store fails.
        """
        table, wanted = _table_and_schema(table_uri, columns, start_version, storage_options)
        start = int(table.version())
        if end_version is not None and end_version < start:
            raise InvalidProgramError(
                f"DeltaSource: end_version {end_version} is before start_version {start}"
            )
        if discovery_interval_ms <= 0:
            raise InvalidProgramError(
                f"DeltaSource: an interval must be positive, got {discovery_interval_ms} ms"
            )
        return DeltaChangesSource(
            sink_path(table_uri),
            storage_options,
            row_type_of(wanted, "DeltaSource"),
            ChangesSplit(start if snapshot else start + 1, snapshot),
            end_version,
            discovery_interval_ms,
        )


def _table_and_schema(
    table_uri: str,
    columns: Sequence[str] | None,
    version: int | None,
    storage_options: dict[str, str] | None,
) -> tuple[Any, Any]:
    """Open the table at a version; return it with the schema of the requested columns."""
    import pyarrow as pa

    library = delta_library("DeltaSource")
    check_columns(columns, "DeltaSource")
    if version is not None and version < 0:
        raise InvalidProgramError(f"DeltaSource: versions are numbered from 0, got {version}")
    with opening_of(table_uri, "DeltaSource", SourceError):
        table = library.DeltaTable(
            sink_path(table_uri), version=version, storage_options=storage_options
        )
    check_features(table.protocol().reader_features, table.metadata().configuration, table_uri)
    schema = pa.schema(table.schema().to_arrow())
    chosen = list(columns) if columns is not None else schema.names
    for name in chosen:
        if name not in schema.names:
            raise InvalidProgramError(
                f"DeltaSource: {table_uri} has no column {name!r}, it has {schema.names}"
            )
    return table, pa.schema([schema.field(name) for name in chosen])


@dataclass(frozen=True)
class _TableFiles:
    """Files of a table, accessed as deltalake accesses them, for a `FileSource`.

    Attributes:
        uri: The table.
        options: Deltalake's options for the store.
        sizes: The size of each file, by its URL.
    """

    uri: str
    options: dict[str, str]
    sizes: dict[str, int]

    def files_below(self, path: str) -> list[tuple[str, int]]:
        """Return the file, with its size."""
        return [(path, self.sizes[path])]

    def open_input(self, path: str) -> Any:
        """Open a file as pyarrow's, for random access."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow import fs

        name = path.removeprefix(self.uri.rstrip("/") + "/")
        with opening_of(self.uri, f"DeltaSource, which reads {name}", SourceError):
            files = fs.PyFileSystem(DeltaStorageHandler(self.uri, self.options))
            return files.open_input_file(name)


def file_uri(path: str, table: str) -> str:
    """Return the path or URL of a file of a table.

    Deltalake returns URLs even for local tables: they encode the names of the folders above.

    Args:
        path: The path in the log, which is encoded once more than the name of the file.  It is
            relative to the table, or a URL for a file that other tables share.
        table: The absolute path or the URL of the table.
    """
    name = unquote(path)
    return sink_path(name) if "://" in name else f"{table.rstrip('/')}/{name}"


def _partition_values(actions: Any, partitions: list[str], schema: Any) -> list[dict[str, Any]]:
    """Return the values of the partition columns for each file."""
    import pyarrow as pa

    columns = [
        column_values(
            actions[f"partition.{name}"],
            row_type_of(pa.schema([schema.field(name)]), "DeltaSource").get_field_types()[0],
        )
        for name in partitions
    ]
    return [dict(zip(partitions, values, strict=True)) for values in zip(*columns, strict=True)]


class _WithPartitions(BulkFormat[Row]):
    """Format that adds the file's partition values to its rows, in the order of a schema."""

    reads_arrow = True
    is_compressible = False

    def __init__(
        self,
        file_format: BulkFormat,
        declared: TypeInformation,
        values: Mapping[str, Mapping[str, Any]],
    ) -> None:
        super().__init__()
        self._format = file_format
        self._declared: Any = declared
        self._values = values

    def can_be_cut(self) -> bool:
        """Return True: files are read by row groups."""
        return True

    def get_produced_type(self) -> TypeInformation:
        """Return the row with all columns."""
        kind: TypeInformation = self._declared
        return kind

    def read(self, file: Any, what: FileRange) -> Iterator[Batch]:
        """Yield the rows of a range."""
        names = self._declared.get_field_names()
        added = self._values[what.path]
        for batch in self._format.read(file, what):
            rows = [
                named_row(names, [added[n] if n in added else row[n] for n in names])
                for row in batch.elements
            ]
            yield batch._replace(elements=rows)
