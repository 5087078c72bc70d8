"""Files of lines: texts, or the records that a schema deserialises."""

from __future__ import annotations

import codecs
import copy
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.common.basic_types import VALUE
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.serialization import DeserializationSchema, known_charset, produced_type
from penstock.common.typeinfo import TypeInformation, Types
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.arrow_types import arrow_library
from penstock.formats.dead_letters import Policy, dead_letter, is_decoding_error
from penstock.formats.file_format import Batch, BlockCounts, DeadLetter, FileFormat, FileRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO, Self

    from penstock.columns.column_batch import ColumnBatch
    from penstock.datastream.output_tag import OutputTag
    from penstock.formats.json import JsonRowDeserializationSchema

T = TypeVar("T")

#: Charsets in which the byte 10 is always a line feed.
_LINE_FEED_IS_A_BYTE: Final = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252", "iso8859-15"})


def line_blocks(
    file: BinaryIO, what: FileRange, *, is_at_line: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of the whole lines that begin in a range, each with its position.

    Args:
        file: The file.
        what: The range.
        is_at_line: Whether the range starts at a line, and the file is at that position.
    """
    if what.start > 0 and not is_at_line:
        # A line that begins before the range belongs to the previous range.
        file.seek(what.start - 1)
        file.readline()
    position = file.tell()
    while position < what.end:
        block = file.read(min(what.block_bytes, what.end - position))
        if not block:
            return
        if not block.endswith(b"\n"):
            block += file.readline()
        yield position, block
        position += len(block)


class LineNumbers:
    """Numbers of a file's lines, for increasing positions: no part is counted twice."""

    def __init__(self, file: BinaryIO) -> None:
        """Create a counter at the start of the file."""
        self._file = file
        self._position = 0
        self._number = 1

    def at(self, position: int) -> int:
        """Return the number, from 1, of the line at a position; keep the file's position."""
        after = self._file.tell()
        self._file.seek(self._position)
        left = position - self._position
        while left > 0 and (block := self._file.read(min(1 << 20, left))):
            self._number += block.count(b"\n")
            left -= len(block)
        self._position = position
        self._file.seek(after)
        return self._number


class StreamFormat(FileFormat, NoJavaMembers, Generic[VALUE]):
    """Layout of records in a file that is read from its start, or from some line on."""

    def __init__(self, j_stream_format: None = None) -> None:
        """Create a format; Python subclasses pass None.

        Raises:
            JvmOnlyError: A Java format was passed.
        """
        if j_stream_format is not None:
            requires_jvm("StreamFormat(j_stream_format)", "use StreamFormat.text_line_format()")

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat[str]:
        """Return a format with one text per line; LF and CRLF both end a line.

        Raises:
            InvalidProgramError: The charset is unknown.
        """
        given: Any = charset_name
        if not isinstance(given, str):
            raise InvalidProgramError(
                f"charset_name must be a string such as 'utf-8', got {charset_name!r}"
            )
        return TextLines(known_charset(charset_name))

    @staticmethod
    def line_format(
        schema: DeserializationSchema[T],
        *,
        skip_malformed: bool = False,
        dead_letters: OutputTag | None = None,
    ) -> StreamFormat[T]:
        """Return a format with one record per line, which a schema deserialises (beyond PyFlink).

        Reads files of JSON lines, for example.  Empty lines are left out.

        Args:
            schema: The schema.
            skip_malformed: Whether to leave out malformed lines; otherwise they fail the job.
            dead_letters: The side output for malformed lines.

        Raises:
            InvalidProgramError: An argument has the wrong type, or both policies are given.
        """
        return DeserializedLines(schema, skip_malformed=skip_malformed, dead_letters=dead_letters)


class TextLines(StreamFormat[str]):
    """The lines of a text, without their ends: LF, CR LF or CR."""

    def __init__(self, charset: str) -> None:
        """Create a format for a charset, by the name of its codec."""
        super().__init__()
        self.charset = charset

    def can_be_cut(self) -> bool:
        """Return whether lines of this charset can be separated by bytes."""
        return self._codec() in _LINE_FEED_IS_A_BYTE

    def get_produced_type(self) -> TypeInformation:
        """Return STRING."""
        return Types.STRING()

    def read(self, file: BinaryIO, what: FileRange) -> Iterator[Batch]:
        """Yield the lines of a range; invalid bytes of the charset are replaced."""
        codec = self._codec()
        if not self.can_be_cut():
            yield Batch(0, 0, _lines(file.read(), codec))
            return
        for position, block in line_blocks(file, what):
            yield Batch(position, 0, _lines(block, codec))

    def _codec(self) -> str:
        return codecs.lookup(self.charset).name


def _lines(block: bytes, charset: str) -> list[str]:
    text = block.decode(charset, errors="replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


class DeserializedLines(StreamFormat[VALUE]):
    """Records that a schema deserialises from the bytes of each line."""

    def __init__(
        self,
        schema: DeserializationSchema[VALUE],
        *,
        skip_malformed: bool,
        dead_letters: OutputTag | None,
    ) -> None:
        """Create a format; see `StreamFormat.line_format`."""
        super().__init__()
        given: Any = schema
        if not isinstance(given, DeserializationSchema):
            raise InvalidProgramError(f"line_format takes a DeserializationSchema, got {schema!r}")
        self._schema = schema
        self._policy = Policy.of(
            "line_format", skip_malformed=skip_malformed, dead_letters=dead_letters
        )
        self.has_dead_letters = not self._policy.fails

    def can_be_cut(self) -> bool:
        """Return True: files are read by lines."""
        return True

    def get_produced_type(self) -> TypeInformation | None:
        """Return the schema's type."""
        return produced_type(self._schema)

    def in_columns(self) -> Self:
        """Return a format that reads blocks of JSON lines as columns if each field allows it."""
        schema = self._json_schema()
        if schema is None or schema.why_not_in_columns() is not None:
            return self
        if find_spec("pyarrow") is None:
            return self
        found = copy.copy(self)
        found.block_counts = BlockCounts()
        return found

    def explanation(self) -> str | None:
        """Return why no block of JSON lines is read as columns; None if some are."""
        schema = self._json_schema()
        reason = None if schema is None else schema.why_not_in_columns()
        return None if reason is None else f"one by one, {reason}"

    def _json_schema(self) -> JsonRowDeserializationSchema | None:
        """Return the schema of JSON; None for another one: a subclass may have its own rules."""
        from penstock.formats.json import JsonRowDeserializationSchema

        schema = self._schema
        return schema if type(schema) is JsonRowDeserializationSchema else None

    def read(self, file: BinaryIO, what: FileRange) -> Iterator[Batch]:
        """Yield the records of the lines in a range."""
        numbers, counts = LineNumbers(file), self.block_counts
        for position, block in line_blocks(file, what):
            batch = None if counts is None else self._column_batch(block)
            if batch is None:
                elements: Any = self._elements(numbers, what.path, position, block)
            else:
                elements = batch
            if counts is not None:
                counts.in_columns += batch is not None
                counts.in_rows += batch is None
            yield Batch(position, 0, elements)

    def _column_batch(self, block: bytes) -> ColumnBatch | None:
        """Return a block as columns; None if its lines must be read one by one."""
        from penstock.columns.batch_schema import batch_schema
        from penstock.columns.column_batch import ColumnBatch

        schema = self._json_schema()
        assert schema is not None, "chosen by in_columns"
        lines = (line.removesuffix(b"\r") for line in block.split(b"\n"))
        columns = schema.columns(line for line in lines if line)
        if columns is None:
            return None
        pa = arrow_library("lines as columns")
        declared = schema.get_produced_type()
        wanted = batch_schema(declared)
        arrays = [
            pa.array(values, kind) for values, kind in zip(columns, wanted.types, strict=True)
        ]
        return ColumnBatch(pa.RecordBatch.from_arrays(arrays, schema=wanted), declared)

    def _elements(self, numbers: LineNumbers, path: str, position: int, block: bytes) -> list[Any]:
        deserialize: Callable[[bytes], Any] = self._schema.deserialize
        elements: list[Any] = []
        for number, line in enumerate(block.split(b"\n")):
            stripped = line.removesuffix(b"\r")
            if not stripped:
                continue
            try:
                element = deserialize(stripped)
            except Exception as error:
                if not self._policy.fails and not is_decoding_error(error):
                    raise
                at = numbers.at(position) + number
                element = malformed(error, path, at, stripped, self._policy)
            if element is not None:
                elements.append(element)
        return elements


def malformed(error: Exception, path: str, line: int, data: bytes, policy: Policy) -> DeadLetter:
    """Return the placeholder of a line that cannot be read.

    Raises:
        FormatError: The policy is to fail the job.
    """
    if policy.tag is not None:
        return DeadLetter(policy.tag, dead_letter(path, line, error, data))
    if policy.skips:
        return DeadLetter(None, None)
    raise FormatError(f"line {line} of {path}: {error}") from error
