"""DeltaSource: the rows of a snapshot of a Delta Lake table (beyond PyFlink)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from penstock.datastream.connectors.delta.library import delta_library
from penstock.datastream.connectors.file_system.source import FileSource, sink_path
from penstock.datastream.formats.arrow_types import column_values, row_type_of
from penstock.datastream.formats.file_format import Batch, BulkFormat, FileRange
from penstock.datastream.formats.json_values import named_row
from penstock.datastream.formats.parquet import ParquetColumnarRowInputFormat
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.common.typeinfo import TypeInformation

#: Features of tables whose files do not hold what their rows are.
_NOT_READ: Final = frozenset({"columnMapping", "deletionVectors"})


class DeltaSource:
    """Reads a version of a table; the files are read as those of a `FileSource`."""

    @staticmethod
    def for_snapshot(
        table_uri: str,
        columns: Sequence[str] | None = None,
        version: int | None = None,
        storage_options: dict[str, str] | None = None,
    ) -> FileSource:
        """A source of the rows that the table has now, or had in a version.

        Args:
            table_uri: The folder of the table, or a URL that both deltalake and pyarrow know.
            columns: Those to be read, in this order; all when None.
            version: The version; the newest when None.
            storage_options: Those of deltalake for the store.

        Raises:
            InvalidProgramError: There is no such column, or the table has a feature that is not
                read.
            DependencyError: deltalake or pyarrow is not installed.
            Exception: There is no such table or version, as deltalake says.
        """
        import pyarrow as pa

        library = delta_library("DeltaSource")
        table = library.DeltaTable(
            sink_path(table_uri), version=version, storage_options=storage_options
        )
        unread = _NOT_READ.intersection(table.protocol().reader_features or ())
        mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
        if mode != "none":
            unread |= {"columnMapping"}
        if unread:
            raise InvalidProgramError(
                f"DeltaSource: the table {table_uri} has the features {sorted(unread)}, which "
                "are not read; rewrite it without them"
            )
        schema = pa.schema(table.schema().to_arrow())
        chosen = list(columns) if columns is not None else schema.names
        for name in chosen:
            if name not in schema.names:
                raise InvalidProgramError(
                    f"DeltaSource: {table_uri} has no column {name!r}, it has {schema.names}"
                )
        wanted = pa.schema([schema.field(name) for name in chosen])
        partitions = [name for name in table.metadata().partition_columns if name in chosen]
        file_format: BulkFormat = ParquetColumnarRowInputFormat(
            row_type_of(
                pa.schema([field for field in wanted if field.name not in partitions]),
                "DeltaSource",
            )
        )
        uris = [sink_path(uri) for uri in table.file_uris()]
        if partitions:
            values = _partition_values(table, partitions, wanted)
            by_name = {uri: values[uri.rpartition("/")[2]] for uri in uris}
            file_format = _WithPartitions(file_format, row_type_of(wanted, "DeltaSource"), by_name)
        return FileSource(file_format, tuple(uris))


def _partition_values(table: Any, partitions: list[str], schema: Any) -> dict[str, dict[str, Any]]:
    """By the name of a file the values of its rows in the columns of partitions."""
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=True))
    names = [unquote(path).rpartition("/")[2] for path in actions["path"].to_pylist()]
    columns = [
        column_values(
            actions[f"partition.{name}"],
            row_type_of(pa.schema([schema.field(name)]), "DeltaSource").get_field_types()[0],
        )
        for name in partitions
    ]
    return {
        name: dict(zip(partitions, values, strict=True))
        for name, *values in zip(names, *columns, strict=True)
    }


class _WithPartitions(BulkFormat):
    """Rows with values that are those of a file, in the order of a schema."""

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
        """True: files are read by row groups."""
        return True

    def get_produced_type(self) -> TypeInformation:
        """The row with all columns."""
        kind: TypeInformation = self._declared
        return kind

    def read(self, file: Any, what: FileRange) -> Iterator[Batch]:
        """The rows of a range."""
        names = self._declared.get_field_names()
        added = self._values[what.path]
        for batch in self._format.read(file, what):
            rows = [
                named_row(names, [added[n] if n in added else row[n] for n in names])
                for row in batch.elements
            ]
            yield batch._replace(elements=rows)
