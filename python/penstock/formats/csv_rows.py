"""Conversions between lines of CSV and rows, by the rules of Flink's CSV format."""

from __future__ import annotations

import base64
import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.common.basic_types import BasicType, BasicTypeInfo
from penstock.common.composite_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.temporal_types import (
    DateTypeInfo,
    LocalZonedTimestampTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from penstock.common.typeinfo import Types
from penstock.common.values.number_text import double_text, float_text
from penstock.errors import InvalidProgramError
from penstock.formats.csv_grammar import CsvGrammar
from penstock.formats.json_values import (
    WHOLE_BITS,
    field_values,
    instant_value_text,
    named_row,
    read_big_int,
    read_bool,
    read_date,
    read_decimal,
    read_double,
    read_float,
    whole_reader,
)
from penstock.formats.misfit import Misfit
from penstock.formats.moments import moment_reader, read_instant, timestamp_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.common.typeinfo import TypeInformation
    from penstock.common.types import Row

_BYTES: Final = Types.PRIMITIVE_ARRAY(Types.BYTE())

_ARRAYS: Final = (
    BasicArrayTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)

#: Longer texts are quoted unconditionally, as Jackson does.
_LONGEST_LOOKED_AT: Final = 24


@dataclass
class CsvDialect:
    """Syntax of the fields in a line.

    Attributes:
        separator: The separator of fields.
        quote: The quote of texts with a separator, a quote or a line end; None for no quotes.
        escape: The escape before a literal character; None for none.
        null: The text that represents None; None if no text does.
        array_separator: The separator of an array's elements; if empty, a field is a single
            element.
        array_separators: The separators of columns that have their own non-empty one.
        line_end: The end of a written line.
        allows_comments: Whether lines that begin with ``#`` are skipped.
    """

    separator: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null: str | None = None
    array_separator: str = ";"
    array_separators: dict[str, str] | None = None
    line_end: str = "\n"
    allows_comments: bool = False

    def array_separator_of(self, name: str) -> str:
        """Return the separator of elements in the arrays of a column."""
        return (self.array_separators or {}).get(name) or self.array_separator

    def grammar(self) -> CsvGrammar:
        """Return the patterns of rows and fields in this dialect."""
        return CsvGrammar(
            self.separator, self.quote, self.escape, allows_comments=self.allows_comments
        )


class CsvRowReader:
    """Converts the texts of fields to rows."""

    def __init__(
        self, declared: RowTypeInfo, dialect: CsvDialect, *, misfits_are_none: bool = False
    ) -> None:
        """Create a reader of rows of a type.

        Raises:
            InvalidProgramError: CSV cannot represent the type.
        """
        self._names = declared.get_field_names()
        self._misfits_are_none = misfits_are_none
        self._fields = [
            (name, text_reader(kind, dialect, dialect.array_separator_of(name)))
            for name, kind in zip(self._names, declared.get_field_types(), strict=True)
        ]

    def line(self, texts: Sequence[str]) -> Row:
        """Return the row of a file's line, which may have one additional blank field.

        Raises:
            Misfit: The number of fields is wrong, or a field does not fit.
        """
        expected = len(self._fields)
        if len(texts) == expected + 1 and all(c <= " " for c in texts[-1]):
            texts = texts[:-1]
        return self.row(texts)

    def row(self, texts: Sequence[str]) -> Row:
        """Return the row of a line's fields.

        Raises:
            Misfit: The number of fields is wrong, or a field does not fit.
        """
        lenient = self._misfits_are_none
        expected, found = len(self._fields), len(texts)
        if found > expected or (found < expected and not lenient):
            raise Misfit(f"{expected} fields are expected, but there are {found}")
        values = []
        for (name, read), text in zip(self._fields, texts, strict=False):
            try:
                values.append(read(text))
            except Misfit as misfit:
                if not lenient:
                    raise misfit.within(name) from None
                values.append(None)
        values.extend([None] * (expected - found))
        return named_row(self._names, values)


def text_reader(
    declared: TypeInformation, dialect: CsvDialect, array_separator: str
) -> Callable[[str], Any]:
    """Return the function that parses a field's text; it raises `Misfit`.

    Raises:
        InvalidProgramError: CSV cannot represent the type.
    """
    null = dialect.null
    read: Callable[[str], Any]
    if declared == _BYTES:
        read = _binary
    elif isinstance(declared, _ARRAYS):
        element = text_reader(declared.element_type, dialect, array_separator)

        def read(text: str) -> Any:
            return [element(part) for part in _parts(text, array_separator)] if text else []
    elif isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        read = _nested_reader(declared, dialect, array_separator)
    else:
        read = _scalar_reader(declared)
    if null is None:
        return read
    return lambda text: None if text == null else read(text)


def _parts(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else [text]


def _joined(texts: Sequence[str], separator: str) -> str:
    if not separator and len(texts) > 1:
        raise Misfit(
            f"there are {len(texts)} elements, and the schema has no separator of elements"
        )
    return separator.join(texts)


def _nested_reader(
    declared: RowTypeInfo | TupleTypeInfo, dialect: CsvDialect, array_separator: str
) -> Callable[[str], Any]:
    named = (
        declared if isinstance(declared, RowTypeInfo) else RowTypeInfo(declared.get_field_types())
    )
    reader = CsvRowReader(named, dialect)

    def read(text: str) -> Any:
        row = reader.row(_parts(text, array_separator))
        return row if isinstance(declared, RowTypeInfo) else tuple(row)

    return read


def _scalar_reader(declared: TypeInformation) -> Callable[[str], Any]:
    if isinstance(declared, DateTypeInfo):
        return _read_date
    if isinstance(declared, TimeTypeInfo):
        return _read_time
    if isinstance(declared, LocalZonedTimestampTypeInfo):
        return moment_reader(" ")
    if isinstance(declared, TimestampTypeInfo):
        return _read_timestamp
    kind = declared.basic_type if isinstance(declared, BasicTypeInfo) else None
    if kind in WHOLE_BITS:
        return whole_reader(WHOLE_BITS[kind])
    readers: dict[BasicType | None, Callable[[str], Any]] = {
        BasicType.STRING: str,
        BasicType.CHAR: str,
        BasicType.BOOLEAN: read_bool,
        BasicType.FLOAT: read_float,
        BasicType.DOUBLE: read_double,
        BasicType.BIG_DEC: read_decimal,
        BasicType.BIG_INT: read_big_int,
        BasicType.INSTANT: read_instant,
    }
    reader = readers.get(kind)
    if reader is None:
        raise InvalidProgramError(f"CSV cannot represent {declared!r}")
    return reader


def _read_date(text: str) -> datetime.date:
    parts = text.strip().split("-")
    if len(parts) == 3 and len(parts[0]) == 4 and all(part.isdigit() for part in parts):
        # As in Java, a month or a day may have a single digit.
        return read_date("-".join(part.zfill(2) for part in parts))
    raise Misfit(f"{text!r} is not a date such as 2020-01-31")


def _read_time(text: str) -> datetime.time:
    try:
        found = datetime.time.fromisoformat(text.strip())
        if found.tzinfo is not None:
            raise ValueError
    except ValueError:
        raise Misfit(f"{text!r} is not a time such as 23:59:00") from None
    return found


def _read_timestamp(text: str) -> datetime.datetime:
    try:
        found = datetime.datetime.fromisoformat(text.strip())
        if found.tzinfo is not None:
            raise ValueError
    except ValueError:
        raise Misfit(f"{text!r} is not a time such as 2020-01-31 23:59:00") from None
    return found


def _binary(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise Misfit(f"{text!r} is not base64") from None


class CsvRowWriter:
    """Converts rows to lines."""

    def __init__(self, declared: RowTypeInfo, dialect: CsvDialect) -> None:
        """Create a writer of rows of a type.

        Raises:
            InvalidProgramError: CSV cannot represent the type.
        """
        self._dialect = dialect
        self.names = declared.get_field_names()
        self._null = dialect.null or ""
        self._fields = [
            (name, *text_writer(kind, dialect, dialect.array_separator_of(name)))
            for name, kind in zip(self.names, declared.get_field_types(), strict=True)
        ]
        special = [dialect.separator, *dialect.line_end, *(dialect.quote or "")]
        # Jackson does not escape characters from here on: the bytes are the same as Flink's.
        self._first_harmless = chr(max(map(ord, special)) + 1)

    def line(self, value: Any) -> str:
        """Return the line of a row, with its end.

        Raises:
            Misfit: A field does not fit.
        """
        texts = []
        for (name, write, is_text), element in zip(
            self._fields, field_values(value, self.names), strict=True
        ):
            if element is None:
                texts.append(self._null)
                continue
            try:
                text = write(element)
            except Misfit as misfit:
                raise misfit.within(name) from None
            except (TypeError, ValueError, AttributeError) as error:
                raise Misfit(f"{element!r:.100} does not fit: {error}", name) from error
            texts.append(self.quoted(text) if is_text else text)
        return self._dialect.separator.join(texts) + self._dialect.line_end

    def quoted(self, text: str) -> str:
        """Return a text, quoted if necessary."""
        dialect = self._dialect
        quote, escape = dialect.quote, dialect.escape
        if quote is None:
            return text
        if len(text) <= _LONGEST_LOOKED_AT and (
            not text
            or (min(text) >= self._first_harmless and (escape is None or escape not in text))
        ):
            return text
        if escape is not None:
            text = text.replace(escape, escape * 2)
        return quote + text.replace(quote, quote * 2) + quote


def text_writer(
    declared: TypeInformation, dialect: CsvDialect, array_separator: str
) -> tuple[Callable[[Any], str], bool]:
    """Return the function that formats a value, and whether its texts may need quotes.

    Raises:
        InvalidProgramError: CSV cannot represent the type.
    """
    null = dialect.null or ""
    if declared == _BYTES:
        return lambda value: base64.b64encode(value).decode(), True
    if isinstance(declared, _ARRAYS):
        element, _ = text_writer(declared.element_type, dialect, array_separator)
        return (
            lambda value: _joined(
                [null if each is None else element(each) for each in value], array_separator
            ),
            True,
        )
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        types = declared.get_field_types()
        writers = [text_writer(kind, dialect, array_separator)[0] for kind in types]
        named = declared if isinstance(declared, RowTypeInfo) else RowTypeInfo(types)
        names = named.get_field_names()
        return (
            lambda value: _joined(
                [
                    null if each is None else write(each)
                    for write, each in zip(writers, field_values(value, names), strict=True)
                ],
                array_separator,
            ),
            True,
        )
    return _scalar_writer(declared)


def _scalar_writer(declared: TypeInformation) -> tuple[Callable[[Any], str], bool]:
    if isinstance(declared, DateTypeInfo):
        return lambda value: str(value.isoformat()), False
    if isinstance(declared, TimeTypeInfo):
        return lambda value: str(value.replace(microsecond=0).isoformat()), False
    if isinstance(declared, LocalZonedTimestampTypeInfo):
        return timestamp_text(" ", "Z"), True
    if isinstance(declared, TimestampTypeInfo):
        return timestamp_text(" ", ""), True
    kind = declared.basic_type if isinstance(declared, BasicTypeInfo) else None
    if kind in WHOLE_BITS or kind is BasicType.BIG_INT:
        return _whole_text, False
    writers: dict[BasicType | None, tuple[Callable[[Any], str], bool]] = {
        BasicType.STRING: (_text, True),
        BasicType.CHAR: (_text, True),
        BasicType.BOOLEAN: (lambda value: "true" if value else "false", False),
        BasicType.FLOAT: (lambda value: float_text(float(value)), False),
        BasicType.DOUBLE: (lambda value: double_text(float(value)), False),
        BasicType.BIG_DEC: (lambda value: f"{read_decimal(value):f}", False),
        BasicType.INSTANT: (lambda value: instant_value_text(value).replace("T", " "), True),
    }
    found = writers.get(kind)
    if found is None:
        raise InvalidProgramError(f"CSV cannot represent {declared!r}")
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit(f"{value!r:.100} is not a text")
    return value


def _whole_text(value: Any) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Misfit(f"{value!r:.100} is not a whole number")
    return str(value)
