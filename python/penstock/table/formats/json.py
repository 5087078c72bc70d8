"""json: one JSON object a row, as in Flink's JSON format."""

from __future__ import annotations

import copy
import json
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.common.values.number_text import double_text, float_text, parsed_decimal
from penstock.errors import FormatError
from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.formats import scalar_text
from penstock.table.formats.json_columns import JsonColumns
from penstock.table.formats.row_format import KindedRow, RowFormat
from penstock.table.options.connector_options import OptionSpec, boolean, choice, text
from penstock.table.plan.nodes import INSERT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

JSON_OPTIONS: dict[str, OptionSpec] = {
    "fail-on-missing-field": OptionSpec(boolean, False),
    "ignore-parse-errors": OptionSpec(boolean, False),
    "timestamp-format.standard": OptionSpec(choice("SQL", "ISO-8601"), "SQL"),
    "map-null-key.mode": OptionSpec(choice("FAIL", "DROP", "LITERAL"), "FAIL"),
    "map-null-key.literal": OptionSpec(text, "null"),
    "encode.decimal-as-plain-number": OptionSpec(boolean, False),
    "encode.ignore-null-fields": OptionSpec(boolean, False),
    "decode.json-parser.enabled": OptionSpec(boolean, True),
}
"""The options of JSON, shared by the formats of changes."""


def json_text(value: Any) -> str:
    """Return a parsed document as JSON without spaces; numbers keep their notation."""
    if isinstance(value, JsonNumber):
        return str(value)
    if isinstance(value, dict):
        pairs = (f"{json.dumps(k, ensure_ascii=False)}:{json_text(v)}" for k, v in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    return json.dumps(value, ensure_ascii=False)


class JsonNumber(str):
    """A number in its original notation."""

    __slots__ = ()


def parse_json(message: bytes | str) -> Any:
    """Parse a document; its numbers are `JsonNumber`.

    Raises:
        ValueError: The text is not JSON.
    """

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(
            message, parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=refuse
        )
    except RecursionError:
        raise ValueError("the document is nested too deeply") from None


def between(options: Mapping[str, Any]) -> str:
    """Return the character between the date and the time of a timestamp."""
    return " " if options["timestamp-format.standard"] == "SQL" else "T"


class JsonReader:
    """Reads values of declared types from documents.

    Args:
        options: The values of `JSON_OPTIONS`.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._between = between(options)
        self._skips: bool = options["ignore-parse-errors"]
        self._needs_fields: bool = options["fail-on-missing-field"]

    def reader(self, data_type: types.DataType) -> Callable[[Any], Any]:
        """Return the function that reads values of a type; NULL stays NULL.

        Raises:
            ValidationException: JSON cannot represent the type.
        """
        read = self._reader(data_type)
        if not self._skips:
            return lambda value: None if value is None else read(value)

        def lenient(value: Any) -> Any:
            try:
                return None if value is None else read(value)
            except ValueError:
                return None

        return lenient

    def _reader(self, data_type: types.DataType) -> Callable[[Any], Any]:
        match data_type:
            case types.RowType():
                fields = [(field.name, self.reader(field.data_type)) for field in data_type]
                return partial(self._row, fields)
            case types.MultisetType():
                count = self.reader(types.IntType())
                return partial(self._map, self.reader(data_type.element_type), count)
            case types.MapType():
                if not isinstance(data_type.key_type, (types.CharType, types.VarCharType)):
                    raise ValidationException("The keys of a MAP in JSON are texts")
                value = self.reader(data_type.value_type)
                return partial(self._map, lambda key: key, value)
            case types.ArrayType():
                return partial(self._array, self.reader(data_type.element_type))
            case types.CharType() | types.VarCharType():
                return _text
            case types.BooleanType():
                return _boolean
            case types.IntegralType():
                return lambda value: _integer(value, data_type)
            case types.TimestampType():
                return lambda value: scalar_text.timestamp_of(_scalar(value), self._between)
            case types.LocalZonedTimestampType():
                return lambda value: scalar_text.instant_of(_scalar(value), self._between)
        read = scalar_text.READERS.get(type(data_type))
        if read is None:
            raise ValidationException(f"The format 'json' has no {data_type.summary()}")
        return lambda value: read(_scalar(value), data_type)

    def _row(self, fields: list[tuple[str, Callable[[Any], Any]]], value: Any) -> tuple[Any, ...]:
        if not isinstance(value, dict):
            raise ValueError(f"an object was expected, got {json_text(value):.100}")
        if self._needs_fields:
            missing = [name for name, _ in fields if name not in value]
            if missing:
                raise ValueError(f"the field {missing[0]!r} is missing")
        found = []
        for name, read in fields:
            try:
                found.append(read(value.get(name)))
            except ValueError as error:
                raise ValueError(f"the field {name!r}: {error}") from None
        return tuple(found)

    def _array(self, read: Callable[[Any], Any], value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"an array was expected, got {json_text(value):.100}")
        return [read(item) for item in value]

    def _map(
        self, read_key: Callable[[Any], Any], read_value: Callable[[Any], Any], value: Any
    ) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"an object was expected, got {json_text(value):.100}")
        return {read_key(key): read_value(item) for key, item in value.items()}


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else json_text(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"a text or number was expected, got {json_text(value):.100}")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return scalar_text.boolean_of(_scalar(value))


#: More digits than any integer type has.
_MOST_DIGITS: Final = 20


def _integer(value: Any, data_type: types.DataType) -> int:
    given = _scalar(value)
    has_fraction = isinstance(value, JsonNumber) and not given.lstrip("-").isdigit()
    if has_fraction and not isinstance(data_type, types.TinyIntType | types.SmallIntType):
        number = parsed_decimal(given)
        # Before it becomes an integer: 1e999999999 would not fit into memory.
        if number.adjusted() > _MOST_DIGITS:
            raise ValueError(f"{given:.100} does not fit {data_type.summary()}")
        return scalar_text.checked_integer(int(number), data_type)
    return scalar_text.integer_of(given, data_type)


class JsonWriter:
    """Writes values of declared types as JSON.

    Args:
        options: The values of `JSON_OPTIONS`.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._between = between(options)
        self._plain: bool = options["encode.decimal-as-plain-number"]
        self._drops_nulls: bool = options["encode.ignore-null-fields"]
        self._null_key: str = options["map-null-key.mode"]
        self._null_key_text: str = options["map-null-key.literal"]

    def writer(self, data_type: types.DataType) -> Callable[[Any], str]:
        """Return the function that writes values of a type, ``null`` for NULL.

        Raises:
            ValidationException: JSON cannot represent the type.
        """
        write = self._writer(data_type)
        return lambda value: "null" if value is None else write(value)

    def _writer(self, data_type: types.DataType) -> Callable[[Any], str]:
        match data_type:
            case types.RowType():
                names = [json.dumps(name, ensure_ascii=False) for name in data_type.field_names()]
                writers = list(map(self.writer, data_type.field_types()))
                return partial(self._row, names, writers)
            case types.MultisetType():
                return partial(self._map, str)
            case types.MapType():
                if not isinstance(data_type.key_type, (types.CharType, types.VarCharType)):
                    raise ValidationException("The keys of a MAP in JSON are texts")
                return partial(self._map, self.writer(data_type.value_type))
            case types.ArrayType():
                write = self.writer(data_type.element_type)
                return lambda values: f"[{','.join(map(write, values))}]"
            case types.FloatType():
                return lambda value: _finite(float_text(value))
            case types.DoubleType():
                return lambda value: _finite(double_text(value))
            case types.IntegralType():
                return str
            case types.BooleanType():
                return lambda value: "true" if value else "false"
            case types.DecimalType():
                if self._plain:
                    return lambda value: f"{value:f}"
                return scalar_text.decimal_text
            case types.TimestampType():
                return lambda value: f'"{scalar_text.timestamp_text(value, self._between)}"'
            case types.LocalZonedTimestampType():
                return lambda value: f'"{scalar_text.timestamp_text(value, self._between)}Z"'
            case types.TimeType():
                return lambda value: f'"{scalar_text.time_text(value)}"'
            case types.DateType():
                return lambda value: f'"{value.isoformat()}"'
            case types.BinaryType() | types.VarBinaryType():
                return lambda value: f'"{scalar_text.base64_text(value)}"'
            case types.CharType() | types.VarCharType():
                return lambda value: json.dumps(value, ensure_ascii=False)
        raise ValidationException(f"The format 'json' has no {data_type.summary()}")

    def _row(self, names: list[str], writers: list[Callable[[Any], str]], row: Any) -> str:
        pairs = [
            f"{name}:{write(value)}"
            for name, write, value in zip(names, writers, row, strict=True)
            if value is not None or not self._drops_nulls
        ]
        return f"{{{','.join(pairs)}}}"

    def _map(self, write: Callable[[Any], str], values: dict[Any, Any]) -> str:
        pairs = []
        for key, value in values.items():
            if key is None:
                if self._null_key == "FAIL":
                    raise FormatError(
                        "JSON has no NULL as the key of a map: see json.map-null-key.mode"
                    )
                if self._null_key == "DROP":
                    continue
                key = self._null_key_text
            pairs.append(f"{json.dumps(key, ensure_ascii=False)}:{write(value)}")
        return f"{{{','.join(pairs)}}}"


def _finite(given: str) -> str:
    """Return a number as JSON; like Jackson, write NaN and infinities as strings."""
    return f'"{given}"' if given[-1].isalpha() else given


class JsonFormat(RowFormat):
    """Rows as JSON objects."""

    identifier = "json"
    options: ClassVar[Mapping[str, OptionSpec]] = JSON_OPTIONS

    def __init__(self, row_type: types.RowType, options: Mapping[str, Any]) -> None:
        super().__init__(row_type, options)
        self._skips: bool = options["ignore-parse-errors"]
        if self._skips and options["fail-on-missing-field"]:
            raise ValidationException(
                "json.fail-on-missing-field and json.ignore-parse-errors cannot both be true"
            )
        self._write = JsonWriter(options).writer(row_type)
        self._choose(range(len(row_type)))

    def with_columns(self, positions: Sequence[int]) -> JsonFormat:
        """Return a format that parses some of the columns; others are None in its rows."""
        made = copy.copy(self)
        made._choose([i for i in positions if i < len(self.row_type)])
        return made

    def _choose(self, positions: Sequence[int]) -> None:
        """Read the columns at some positions only."""
        wanted = types.RowType([self.row_type.fields[i] for i in positions])
        self._positions = None if len(wanted) == len(self.row_type) else tuple(positions)
        self._read = JsonReader(self.values).reader(wanted)
        self._columns = JsonColumns(
            self.row_type,
            positions,
            between(self.values),
            needs_fields=self.values["fail-on-missing-field"],
        )

    def why_not_in_columns(self) -> str | None:
        """Return which column has values with parts; None without one."""
        name = self._columns.inexact_field()
        return None if name is None else f"as the column {name!r} has values with parts"

    def columns(self, messages: Sequence[bytes]) -> list[pa.Array] | None:
        """Return the columns of objects whose members have exactly the kinds of the columns."""
        return self._columns.read(messages)

    def decode(self, message: bytes) -> Iterable[KindedRow]:
        """Return the row of an object, or the rows of an array of objects."""
        try:
            document = parse_json(message)
            documents = document if isinstance(document, list) else [document]
            rows = [self._read(each) for each in documents]
        except ValueError as error:
            if self._skips:
                return ()
            raise FormatError(f"Invalid JSON {message!r:.200}: {error}") from None
        return [(INSERT, self._widened(row)) for row in rows if row is not None]

    def _widened(self, row: tuple[Any, ...]) -> Sequence[Any]:
        """Return a row with None for the columns that are not read."""
        if self._positions is None:
            return row
        found: list[Any] = [None] * len(self.row_type)
        for position, value in zip(self._positions, row, strict=True):
            found[position] = value
        return found

    def encode(self, kind: int, row: Sequence[Any]) -> bytes:
        """Return the object of a row."""
        del kind
        return self._write(row).encode()
