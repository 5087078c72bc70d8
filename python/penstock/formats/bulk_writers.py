"""Writers of files that write records in batches: columns, and records with a header."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.common.serialization import BulkWriter, RowDataBulkWriterFactory
from penstock.errors import FormatError
from penstock.formats.arrow_types import arrow_library, arrow_schema, columns_of, of_instants
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from penstock.columns.column_batch import ColumnBatch

#: Rows that are converted to a batch of columns.
_BATCH_ROWS: Final = 8192


class ColumnWriters(RowDataBulkWriterFactory):
    """Factory of writers of columns, in Parquet, ORC or Arrow files.

    A writer buffers some thousands of rows in memory.
    """

    can_be_concatenated = False
    takes_batches = True

    def __init__(
        self,
        kind: str,
        row_type: RowTypeInfo,
        *,
        is_utc: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Create a factory for rows of a type.

        Args:
            kind: ``parquet``, ``orc`` or ``arrow``.
            row_type: The type.
            is_utc: Whether the file marks all timestamps as UTC.
            options: Options of pyarrow's writer.

        Raises:
            InvalidProgramError: Arrow has no type for a field.
            DependencyError: pyarrow is not installed.
        """
        super().__init__(None, row_type)
        self._kind = kind
        # Readers such as Spark and DuckDB select the files of a folder by suffix.
        self.part_suffix = ".parquet" if kind == "parquet" else ""
        self._written_type: RowTypeInfo = of_instants(row_type) if is_utc else row_type
        arrow_schema(self._written_type)
        self._options = options or {}

    def create(self, file: BinaryIO) -> BulkWriter:
        """Return the writer of one file."""
        schema = arrow_schema(self._written_type)
        return ColumnWriter(self._written_type, schema, _OPENERS[self._kind], file, self._options)


def _open_parquet(file: BinaryIO, schema: Any, options: dict[str, Any]) -> Any:
    from pyarrow import parquet

    return parquet.ParquetWriter(file, schema, **options)


def _open_orc(file: BinaryIO, schema: Any, options: dict[str, Any]) -> Any:
    del schema
    from pyarrow import orc

    return orc.ORCWriter(file, **options)


def _open_arrow(file: BinaryIO, schema: Any, options: dict[str, Any]) -> Any:
    return arrow_library("Arrow").ipc.new_file(file, schema, **options)


_OPENERS: Final[dict[str, Callable[..., Any]]] = {
    "parquet": _open_parquet,
    "orc": _open_orc,
    "arrow": _open_arrow,
}


class ColumnWriter(BulkWriter):
    """Writes the columns of one file."""

    def __init__(
        self,
        row_type: RowTypeInfo,
        schema: Any,
        opener: Callable[..., Any],
        file: BinaryIO,
        options: dict[str, Any],
    ) -> None:
        self._names = row_type.get_field_names()
        self._row_type = row_type
        self._schema = schema
        self._writer = opener(file, schema, options)
        self._rows: list[Any] = []

    def add_element(self, element: Any) -> None:
        """Buffer a row."""
        try:
            self._rows.append(field_values(element, self._names))
        except Misfit as misfit:
            raise FormatError(str(misfit)) from None
        if len(self._rows) >= _BATCH_ROWS:
            self.flush()

    def add_batch(self, batch: ColumnBatch) -> bool:
        """Write the rows of a batch, after the buffered rows.

        Returns:
            False if its fields do not match the file's, so that nothing was written.
        """
        columns = self._columns(batch)
        if columns is None:
            return False
        self.flush()
        pa = arrow_library("a columnar format")
        self._writer.write(pa.Table.from_arrays(columns, schema=self._schema))
        return True

    def _columns(self, batch: ColumnBatch) -> list[Any] | None:
        """Return the columns of a batch in the file's order and types; None if they do not match.

        A tuple's fields match by position; a row's must have the same names in the same order.
        """
        declared = batch.declared
        if isinstance(declared, RowTypeInfo):
            if declared.get_field_names() != self._names:
                return None
        elif not isinstance(declared, TupleTypeInfo):
            return None
        columns = batch.data.columns
        if [column.type for column in columns] != list(self._schema.types):
            return None
        return list(columns)

    def flush(self) -> None:
        """Write the buffered rows as columns."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        pa = arrow_library("a columnar format")
        batch = columns_of(rows, self._row_type, self._schema)
        self._writer.write(pa.Table.from_batches([batch]))

    def finish(self) -> None:
        """Write the remaining rows and the end of the file."""
        self.flush()
        self._writer.close()

    def abandon(self) -> None:
        """Close the writer of an abandoned file."""
        self._rows = []
        self._writer.close()
