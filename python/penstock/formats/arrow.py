"""Arrow's IPC files, also called Feather: rows from columns (beyond PyFlink)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.types import Row
from penstock.formats.arrow_types import row_type_of
from penstock.formats.bulk_writers import ColumnWriters
from penstock.formats.columnar import ArrowFormat, RowsOfColumns

if TYPE_CHECKING:
    from penstock.common.serialization import BulkWriterFactory

__all__ = ["ArrowBulkWriters", "ArrowColumnarRowInputFormat"]


class ArrowBulkWriters:
    """Writers of Arrow's IPC files, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_row_type(row_type: Any) -> BulkWriterFactory:
        """Return writers of rows of a type, given as ``Types.ROW_NAMED`` or an Arrow schema.

        Raises:
            InvalidProgramError: The row type is invalid.
            DependencyError: pyarrow is not installed.
        """
        return ColumnWriters("arrow", row_type_of(row_type, "ArrowBulkWriters.for_row_type"))


class ArrowColumnarRowInputFormat(RowsOfColumns, ArrowFormat[Row]):
    """Rows of the columns named by a row type; for `FileSource.for_bulk_file_format`.

    Requires pyarrow.
    """
