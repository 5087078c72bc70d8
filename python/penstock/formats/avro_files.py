"""Avro files: a header with a schema, and blocks of records."""

from __future__ import annotations

import io
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.common.io import InputFormat
from penstock.datastream.utils import ResultTypeQueryable
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.avro import AvroSchema, GenericRecordAvroTypeInfo, field_unread
from penstock.formats.avro_library import avro_library
from penstock.formats.compiled_schema import CompiledSchema
from penstock.formats.file_format import Batch, FileRange
from penstock.formats.lines import StreamFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from penstock.common.typeinfo import TypeInformation

__all__ = ["AvroInputFormat", "AvroReaderFormat"]

#: Size of the marker after the header and after each block.
_MARKER_BYTES: Final = 16


class AvroReaderFormat(CompiledSchema, StreamFormat):
    """Rows of the records in Avro files; created by `for_generic_record` (beyond PyFlink).

    Requires the extra ``penstock-engine[avro]``.  A block belongs to the range in which it begins.
    """

    is_compressible = False

    def __init__(self, schema: AvroSchema) -> None:
        """Create a format; use `for_generic_record`."""
        super().__init__()
        self._schema = schema

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroReaderFormat:
        """Return a format of a schema's records; Avro's rules resolve the schema of a file.

        Raises:
            InvalidProgramError: The argument is not a schema.
        """
        given: Any = schema
        if not isinstance(given, AvroSchema):
            raise InvalidProgramError(f"for_generic_record takes an AvroSchema, got {schema!r}")
        return AvroReaderFormat(schema)

    def can_be_cut(self) -> bool:
        """Return True: ranges consist of blocks."""
        return True

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the schema."""
        return self._schema.type_info

    def read(self, file: BinaryIO, what: FileRange) -> Iterator[Batch]:
        """Yield the rows of the blocks in a range."""
        header = self._header(file, what.path)
        position = file.tell()
        while position < what.end:
            count = _read_long(file)
            if count is None:
                return
            size = _read_long(file)
            if size is None or size < 0:
                raise FormatError(f"{what.path}: there is no Avro block at {position}")
            end = file.tell() + size + _MARKER_BYTES
            if position >= what.start:
                file.seek(position)
                block = file.read(end - position)
                if len(block) < end - position:
                    raise FormatError(f"{what.path}: the block at {position} is cut off")
                yield Batch(position, 0, self._rows(header + block, what.path, position))
            file.seek(end)
            position = end

    @cached_property
    def _convert(self) -> Callable[[Any], Any]:
        return self._schema.types.reader()

    def _header(self, file: BinaryIO, path: str) -> bytes:
        """Return the header; the file is positioned after it."""
        try:
            avro_library("AvroReaderFormat").reader(file)
        except Exception as error:
            raise FormatError(f"{path} is not an Avro file: {error}") from error
        end = file.tell()
        file.seek(0)
        return file.read(end)

    def _rows(self, data: bytes, path: str, position: int) -> list[Any]:
        library, convert = avro_library("AvroReaderFormat"), self._convert
        rows: list[Any] = []
        try:
            for record in library.reader(io.BytesIO(data), reader_schema=self._schema.parsed):
                rows.append(convert(record))  # noqa: PERF401 (an error reports the number)
        except Exception as error:
            where = f"{path}, block at {position}, record {len(rows) + 1}"
            field = _field_of_record(library, data, len(rows))
            raise FormatError(f"{where}: {field}{type(error).__name__}: {error}") from error
        return rows


class AvroRecordFormat(AvroReaderFormat):
    """The records of Avro files as dictionaries, as PyFlink's AvroInputFormat reads them."""

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the schema's records."""
        return GenericRecordAvroTypeInfo(self._schema)

    def _convert(self, record: Any) -> Any:
        return record


def _field_of_record(library: Any, data: bytes, number: int) -> str:
    """Return the field that cannot be read in a block, as the prefix of a message."""
    with suppress(Exception):  # the caller reports the error
        blocks = library.block_reader(io.BytesIO(data))
        records = next(blocks).bytes_
        for _ in range(number):
            library.schemaless_reader(records, blocks.writer_schema)
        return field_unread(library.parse_schema(blocks.writer_schema), records)
    return ""


def _read_long(file: BinaryIO) -> int | None:
    """Read one of Avro's numbers; return None at the end of the file."""
    value = shift = 0
    while byte := file.read(1):
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
    return None


class AvroInputFormat(InputFormat, ResultTypeQueryable):
    """Avro files for `create_input`: a stream of dictionaries.

    Attributes:
        path: The file, the folder or the pattern.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        """Create a format.

        Args:
            path: A file, a folder, or a pattern such as ``/data/*.avro``.
            schema: The schema of the records; Avro's rules resolve the schema of a file.

        Raises:
            InvalidProgramError: The schema is not one.
        """
        self._type = GenericRecordAvroTypeInfo(schema)
        self._schema = schema
        self.path = path

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        """Return the type of the records."""
        return self._type

    def stream_format(self) -> StreamFormat:
        """Return the format of the files."""
        return AvroRecordFormat(self._schema)
