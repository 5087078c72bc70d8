"""ORC files: rows from columns."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from penstock.common.configuration import Configuration
from penstock.common.types import Row
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.formats.arrow_types import arrow_schema, row_type_of
from penstock.formats.bulk_writers import ColumnWriters
from penstock.formats.columnar import OrcFormat, RowsOfColumns
from penstock.formats.hadoop import refuse_hadoop

if TYPE_CHECKING:
    from penstock.common.serialization import (
        BulkWriterFactory,
    )
    from penstock.common.typeinfo import RowTypeInfo

__all__ = [
    "OrcBulkWriters",
    "OrcColumnarRowInputFormat",
]


class OrcBulkWriters:
    """Writers of ORC files, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_row_type(
        row_type: Any,
        writer_properties: Configuration | None = None,
        hadoop_config: Configuration | None = None,
    ) -> BulkWriterFactory:
        """Return writers of rows of a type.

        Args:
            row_type: A type, as ``Types.ROW_NAMED``, or an Arrow schema.
            writer_properties: ``orc.compress`` (NONE, SNAPPY, ZLIB, LZ4 or ZSTD) and
                ``orc.stripe.size`` in bytes.
            hadoop_config: None or an empty configuration: Hadoop is not used.

        Raises:
            InvalidProgramError: The row type is invalid or has a field without an ORC type, or
                a setting is unknown.
            DependencyError: pyarrow is not installed.
        """
        refuse_hadoop(hadoop_config, "OrcBulkWriters.for_row_type")
        declared = row_type_of(row_type, "OrcBulkWriters.for_row_type")
        given: Any = writer_properties
        if not isinstance(given, Configuration | None):
            raise WrongArgumentError(
                "OrcBulkWriters.for_row_type: writer_properties must be a Configuration, got "
                f"{writer_properties!r}"
            )
        settings = {} if writer_properties is None else dict(writer_properties.to_dict())
        options = {
            "compression": _compression(settings.pop("orc.compress", "ZLIB")),
            "stripe_size": _size(settings.pop("orc.stripe.size", str(64 << 20))),
        }
        if settings:
            raise InvalidProgramError(
                "OrcBulkWriters.for_row_type supports orc.compress and orc.stripe.size, not "
                f"{sorted(settings)}"
            )
        _check_fields(declared)
        return ColumnWriters("orc", declared, options=options)


def _check_fields(row_type: RowTypeInfo) -> None:
    import pyarrow as pa
    from pyarrow import orc

    for field in arrow_schema(row_type):
        try:
            with orc.ORCWriter(io.BytesIO()) as writer:
                writer.write(pa.schema([field]).empty_table())
        except pa.ArrowNotImplementedError as error:
            raise InvalidProgramError(
                f"OrcBulkWriters.for_row_type: ORC has no type for the field {field.name!r} of "
                f"{field.type}; convert it to another type, such as a string"
            ) from error


def _compression(name: str) -> str:
    known = {"NONE": "uncompressed", **{each: each for each in ("SNAPPY", "ZLIB", "LZ4", "ZSTD")}}
    if name.upper() not in known:
        raise InvalidProgramError(f"orc.compress must be one of {list(known)}, got {name!r}")
    return known[name.upper()]


def _size(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise InvalidProgramError(
            f"orc.stripe.size must be a positive number of bytes, got {text!r}"
        )
    return int(text)


class OrcColumnarRowInputFormat(RowsOfColumns, OrcFormat[Row]):
    """Rows of the columns named by a row type; for `FileSource.for_bulk_file_format`.

    Requires pyarrow.  Flink has this format in Java only.
    """
