"""Parquet: files of columns as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.composite_types import RowTypeInfo, as_type_information
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

#: What Parquet knows.
_COMPRESSIONS: Final = ("none", "snappy", "gzip", "brotli", "lz4", "lz4_raw", "zstd")


class AvroParquetReaders:
    """Formats of Parquet files whose columns an Avro schema describes."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Rows of the fields of a record, for `FileSource.for_record_stream_format`.

        Raises:
            InvalidProgramError: The argument is not a schema of a record.
            DependencyError: pyarrow is not installed.
        """
        return _ParquetRecords(_record_type(schema, "AvroParquetReaders.for_generic_record"))


class AvroParquetWriters:
    """Writers of Parquet files whose columns an Avro schema describes."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Writes records, which are rows or dictionaries, for `FileSink.for_bulk_format`.

        The schema does not go into the files, only the columns that follow from it.

        Raises:
            InvalidProgramError: The argument is not a schema of a record, or Arrow has no type for
                a field, such as a union of several types.
            DependencyError: pyarrow is not installed.
        """
        record = _record_type(schema, "AvroParquetWriters.for_generic_record")
        return ColumnWriters("parquet", record, options={"compression": "snappy"})


class _ParquetRecords(ParquetFormat, StreamFormat):
    """Rows of Parquet files, where PyFlink has a format of records."""

    def __init__(self, declared: RowTypeInfo) -> None:
        super().__init__(declared, _BATCH_ROWS, is_utc=True)


def _record_type(schema: AvroSchema, where: str) -> RowTypeInfo:
    given: Any = schema
    declared = None
    if isinstance(given, AvroSchema):
        # Parquet distinguishes times of UTC from those without a zone.
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
        """Writes rows of a type.

        Args:
            row_type: As ``Types.ROW_NAMED`` describes it, or an Arrow schema.
            hadoop_config: Nothing, or an empty one: there is no Hadoop here.
            utc_timestamp: Whether the file says of all timestamps that they are instants, of UTC:
                also of those of `Types.SQL_TIMESTAMP`.
            compression: As ``pyarrow.parquet`` calls it (beyond PyFlink).

        Raises:
            InvalidProgramError: The row type is none, or there is a setting of Hadoop.
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
                "ParquetBulkWriters.for_row_type: compression is one of "
                f"{', '.join(_COMPRESSIONS)}, got {compression!r}"
            )
        return ColumnWriters(
            "parquet", declared, is_utc=utc_timestamp, options={"compression": compression}
        )


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
            row_type: As ``Types.ROW_NAMED`` describes it, or an Arrow schema.
            hadoop_config: Nothing, or an empty one: there is no Hadoop here.
            batch_size: Number of rows to decode at a time.
            is_utc_timestamp: Whether timestamps without a zone are of UTC, so that they may be read
                as `Types.INSTANT` and `Types.TIMESTAMP_LTZ`.
            is_case_sensitive: Whether the names of columns are exactly those of the fields.

        Raises:
            InvalidProgramError: The row type is none, the size is not positive, or there is a
                setting of Hadoop.
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


class ParquetColumnInputFormat(ParquetFormat):
    """The values of one column, without rows around them (beyond PyFlink).

    Numbers without nulls are read so at the least cost.
    """

    def __init__(self, column: str, type_info: TypeInformation, batch_size: int = 65536) -> None:
        """Reads a column.

        Args:
            column: Its name.
            type_info: The type of its values.
            batch_size: Number of values to decode at a time.

        Raises:
            InvalidProgramError: The size is not positive.
            DependencyError: pyarrow is not installed.
        """
        declared = as_type_information(type_info, "ParquetColumnInputFormat")
        super().__init__(declared, batch_size, column=column)
