"""ORC: files of columns as rows."""

from __future__ import annotations

from typing import Any

from penstock.datastream.formats.arrow_types import row_type_of
from penstock.datastream.formats.columnar import OrcFormat
from penstock.datastream.refused import refused_class

__all__ = [
    "OrcBulkWriters",
    "OrcColumnarRowInputFormat",
]

OrcBulkWriters = refused_class("OrcBulkWriters", "write in functions with the pyarrow package")


class OrcColumnarRowInputFormat(OrcFormat):
    """Rows of the columns that a row type names; for `FileSource.for_bulk_file_format`.

    It needs pyarrow.  Flink has it in Java alone.
    """

    def __init__(
        self, row_type: Any, batch_size: int = 2048, is_case_sensitive: bool = True
    ) -> None:
        """Reads rows of a type.

        Args:
            row_type: As ``Types.ROW_NAMED`` describes it, or a schema of Arrow.
            batch_size: How many rows are decoded at a time.
            is_case_sensitive: Whether the names of columns are exactly those of the fields.

        Raises:
            InvalidProgramError: The row type is none, or the size is not positive.
            DependencyError: pyarrow is not installed.
        """
        super().__init__(
            row_type_of(row_type, "OrcColumnarRowInputFormat"),
            batch_size,
            is_case_sensitive=is_case_sensitive,
        )
