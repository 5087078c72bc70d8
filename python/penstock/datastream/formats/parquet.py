"""Parquet: files of columns as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.composite_types import as_type_information
from penstock.datastream.formats.arrow_types import row_type_of
from penstock.datastream.formats.columnar import ParquetFormat
from penstock.datastream.refused import refused_class
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration
    from penstock.common.typeinfo import TypeInformation

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnInputFormat",
    "ParquetColumnarRowInputFormat",
]

_INSTEAD = "read and write in functions with the pyarrow package"

AvroParquetReaders = refused_class("AvroParquetReaders", "use ParquetColumnarRowInputFormat")
AvroParquetWriters = refused_class("AvroParquetWriters", _INSTEAD)
ParquetBulkWriters = refused_class("ParquetBulkWriters", _INSTEAD)


class ParquetColumnarRowInputFormat(ParquetFormat):
    """Rows of the columns that a row type names; for `FileSource.for_bulk_file_format`.

    It needs pyarrow.  Also lists, maps and nested rows are read, beyond Flink.
    """

    def __init__(
        self,
        row_type: Any,
        hadoop_config: Configuration | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        """Reads rows of a type.

        Args:
            row_type: As ``Types.ROW_NAMED`` describes it, or a schema of Arrow.
            hadoop_config: Nothing, or an empty one: there is no Hadoop here.
            batch_size: How many rows are decoded at a time.
            is_utc_timestamp: Nothing follows from it: times are as in the file, those of a zone in
                UTC.
            is_case_sensitive: Whether the names of columns are exactly those of the fields.

        Raises:
            InvalidProgramError: The row type is none, the size is not positive, or there is a
                setting of Hadoop.
            DependencyError: pyarrow is not installed.
        """
        del is_utc_timestamp
        refuse_hadoop(hadoop_config, "ParquetColumnarRowInputFormat")
        super().__init__(
            row_type_of(row_type, "ParquetColumnarRowInputFormat"),
            batch_size,
            is_case_sensitive=is_case_sensitive,
        )


def refuse_hadoop(hadoop_config: Configuration | None, where: str) -> None:
    """Takes no settings of Hadoop.

    Raises:
        InvalidProgramError: There are some.
    """
    settings = {} if hadoop_config is None else hadoop_config.to_dict()
    if settings:
        raise InvalidProgramError(
            f"{where}: there is no Hadoop here; of hadoop_config nothing can be heeded: {settings}"
        )


class ParquetColumnInputFormat(ParquetFormat):
    """The values of one column, without rows around them (beyond PyFlink).

    Numbers without nulls are read so at the least cost.
    """

    def __init__(self, column: str, type_info: TypeInformation, batch_size: int = 65536) -> None:
        """Reads a column.

        Args:
            column: Its name.
            type_info: The type of its values.
            batch_size: How many values are decoded at a time.

        Raises:
            InvalidProgramError: The size is not positive.
            DependencyError: pyarrow is not installed.
        """
        declared = as_type_information(type_info, "ParquetColumnInputFormat")
        super().__init__(declared, batch_size, column=column)
