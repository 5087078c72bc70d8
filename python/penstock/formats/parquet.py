"""Parquet files: rows from columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.basic_types import VALUE
from penstock.common.composite_types import RowTypeInfo, as_type_information
from penstock.common.types import Row
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.formats.arrow_types import row_type_of
from penstock.formats.avro import AvroSchema
from penstock.formats.avro_types import AvroTypes
from penstock.formats.bulk_writers import ColumnWriters
from penstock.formats.columnar import ParquetFormat
from penstock.formats.hadoop import refuse_hadoop
from penstock.formats.lines import StreamFormat

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration
    from penstock.common.serialization import (
        BulkWriterFactory,
    )
    from penstock.common.typeinfo import TypeInformation

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnInputFormat",
    "ParquetColumnarRowInputFormat",
]

#: Rows of records that are decoded at a time.
_BATCH_ROWS: Final = 2048

#: Rows of a single column that are decoded at a time: they are plain values, without records.
_COLUMN_ROWS: Final = 65_536

#: Parquet's compressions.
_COMPRESSIONS: Final = ("none", "snappy", "gzip", "brotli", "lz4", "lz4_raw", "zstd")


class AvroParquetReaders:
    """Formats of Parquet files whose columns an Avro schema describes."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat[Row]:
        """Return a format of rows of a record, for `FileSource.for_record_stream_format`.

        Raises:
            InvalidProgramError: The argument is not a schema of a record.
            DependencyError: pyarrow is not installed.
        """
        return _ParquetRecords(_record_type(schema, "AvroParquetReaders.for_generic_record"))


class AvroParquetWriters:
    """Writers of Parquet files whose columns an Avro schema describes."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Return writers of records as rows or dictionaries, for `FileSink.for_bulk_format`.

        Files contain the columns of the schema, but not the schema itself.

        Raises:
            InvalidProgramError: The argument is not a schema of a record, or Arrow has no type for
                a field, such as a union of several types.
            DependencyError: pyarrow is not installed.
        """
        record = _record_type(schema, "AvroParquetWriters.for_generic_record")
        return ColumnWriters("parquet", record, options={"compression": "snappy"})


class _ParquetRecords(ParquetFormat[Row], StreamFormat[Row]):
    """Rows of Parquet files, for PyFlink's interface of record formats."""

    def __init__(self, declared: RowTypeInfo) -> None:
        super().__init__(declared, _BATCH_ROWS, is_utc=True)


def _record_type(schema: AvroSchema, where: str) -> RowTypeInfo:
    given: Any = schema
    declared = None
    if isinstance(given, AvroSchema):
        # Parquet distinguishes instants in UTC from times without a zone.
        declared = AvroTypes(given.parsed, has_zones=True).type_info
    if not isinstance(declared, RowTypeInfo):
        raise InvalidProgramError(f"{where} takes an AvroSchema of a record, got {schema!r}")
    return declared


class ParquetBulkWriters:
    """Writers of Parquet files, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_row_type(
        row_type: Any,
        hadoop_config: Configuration | None = None,
        utc_timestamp: bool = False,
        compression: str = "snappy",
    ) -> BulkWriterFactory:
        """Return writers of rows of a type.

        Args:
            row_type: A type, as ``Types.ROW_NAMED``, or an Arrow schema.
            hadoop_config: None or an empty configuration: Hadoop is not used.
            utc_timestamp: Whether the file marks all timestamps as instants in UTC, including
                those of `Types.SQL_TIMESTAMP`.
            compression: The name in ``pyarrow.parquet`` (beyond PyFlink).

        Raises:
            InvalidProgramError: The row type is invalid, or there is a Hadoop setting.
            DependencyError: pyarrow is not installed.
        """
        refuse_hadoop(hadoop_config, "ParquetBulkWriters.for_row_type")
        declared = row_type_of(row_type, "ParquetBulkWriters.for_row_type")
        is_utc: Any = utc_timestamp
        if not isinstance(is_utc, bool):
            raise WrongArgumentError(
                "ParquetBulkWriters.for_row_type: utc_timestamp must be True or False, got "
                f"{utc_timestamp!r}"
            )
        given: Any = compression
        if not isinstance(given, str) or given.lower() not in _COMPRESSIONS:
            raise WrongArgumentError(
                "ParquetBulkWriters.for_row_type: compression must be one of "
                f"{', '.join(_COMPRESSIONS)}, got {compression!r}"
            )
        return ColumnWriters(
            "parquet", declared, is_utc=utc_timestamp, options={"compression": compression}
        )


class ParquetColumnarRowInputFormat(ParquetFormat[Row]):
    """Rows of the columns named by a row type; for `FileSource.for_bulk_file_format`.

    Requires pyarrow.  Also reads lists, maps and nested rows, beyond Flink.
    """

    def __init__(
        self,
        row_type: Any,
        hadoop_config: Configuration | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        """Create a format for rows of a type.

        Args:
            row_type: A type, as ``Types.ROW_NAMED``, or an Arrow schema.
            hadoop_config: None or an empty configuration: Hadoop is not used.
            batch_size: Number of rows to decode at a time.
            is_utc_timestamp: Whether timestamps without a zone are in UTC, so that they may be read
                as `Types.INSTANT` and `Types.TIMESTAMP_LTZ`.
            is_case_sensitive: Whether the names of columns must equal those of the fields in case.

        Raises:
            InvalidProgramError: The row type is invalid, the size is not positive, or there is a
                Hadoop setting.
            DependencyError: pyarrow is not installed.
        """
        refuse_hadoop(hadoop_config, "ParquetColumnarRowInputFormat")
        is_utc: Any = is_utc_timestamp
        if not isinstance(is_utc, bool):
            raise WrongArgumentError(
                "ParquetColumnarRowInputFormat: is_utc_timestamp must be True or False, got "
                f"{is_utc_timestamp!r}"
            )
        super().__init__(
            row_type_of(row_type, "ParquetColumnarRowInputFormat"),
            batch_size,
            is_case_sensitive=is_case_sensitive,
            is_utc=is_utc,
        )


class ParquetColumnInputFormat(ParquetFormat[VALUE]):
    """Values of one column, not wrapped in rows (beyond PyFlink).

    This is the cheapest way to read numbers without nulls.
    """

    def __init__(
        self, column: str, type_info: TypeInformation[VALUE], batch_size: int = _COLUMN_ROWS
    ) -> None:
        """Create a format for a column.

        Args:
            column: The name of the column.
            type_info: The type of its values.
            batch_size: Number of values to decode at a time.

        Raises:
            InvalidProgramError: The size is not positive.
            DependencyError: pyarrow is not installed.
        """
        declared = as_type_information(type_info, "ParquetColumnInputFormat")
        super().__init__(declared, batch_size, column=column)
