"""Arrow's columns, converted to values of declared types.

Each pair of a column's type and a declared type is either cast without loss or refused;
`docs/files.md` has the table.  Arrow casts a column at a time, including the parts of structs,
lists and maps.
"""

from __future__ import annotations

import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from penstock.common.basic_types import BasicType, BasicTypeInfo
from penstock.common.composite_types import (
    MapTypeInfo,
    PickledBytesTypeInfo,
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
from penstock.common.time import Instant
from penstock.common.typeinfo import Types
from penstock.common.types import rows_of_columns
from penstock.formats.arrow_types import BYTES, LISTS, arrow_type, type_of_arrow
from penstock.formats.numpy_values import numpy_values

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from penstock.common.typeinfo import TypeInformation

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

#: The range of the years from 1 to 9999, in microseconds since the epoch and in days.
_MICROS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DAYS: Final = (-719_162, 2_932_896)
#: NumPy's NaT, of which `tolist` makes None.
_NOT_A_TIME: Final = -(2**63)

_UNITS_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

#: Types of whole numbers of at most 64 bits.
_WHOLE: Final = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG)
_REAL: Final = (BasicType.FLOAT, BasicType.DOUBLE)
_TEXTS: Final = (BasicType.STRING, BasicType.CHAR)

#: Kinds of columns, and the checks that recognise them; the first match counts.
_KINDS: Final = {
    "booleans": ("is_boolean",),
    "integers": ("is_integer",),
    "floats": ("is_floating",),
    "decimals": ("is_decimal",),
    "texts": ("is_string", "is_large_string", "is_string_view"),
    "bytes": ("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary"),
    "dates": ("is_date",),
    "times": ("is_time",),
    "timestamps": ("is_timestamp",),
    "structs": ("is_struct",),
    "lists": (
        "is_list",
        "is_large_list",
        "is_fixed_size_list",
        "is_list_view",
        "is_large_list_view",
    ),
    "maps": ("is_map",),
}

#: The kinds of columns that a scalar type accepts.
_TAKES: Final[dict[Any, frozenset[str]]] = {
    BasicType.BOOLEAN: frozenset({"booleans"}),
    **dict.fromkeys(_WHOLE, frozenset({"booleans", "integers", "floats", "decimals"})),
    **dict.fromkeys(_REAL, frozenset({"integers", "floats", "decimals"})),
    BasicType.BIG_INT: frozenset({"integers", "decimals"}),
    BasicType.BIG_DEC: frozenset({"integers", "decimals"}),
    **dict.fromkeys(_TEXTS, frozenset(_KINDS) - {"structs", "lists", "maps"} | {"instants"}),
    BasicType.INSTANT: frozenset({"instants"}),
    DateTypeInfo: frozenset({"dates"}),
    TimeTypeInfo: frozenset({"times"}),
    TimestampTypeInfo: frozenset({"timestamps", "instants", "dates"}),
    LocalZonedTimestampTypeInfo: frozenset({"instants"}),
    "bytes": frozenset({"bytes", "texts"}),
}


class ColumnMisfit(Exception):
    """A column cannot be read as the declared type."""

    def __init__(self, declared: TypeInformation, reason: object) -> None:
        """Create the error with the reason why a part of a column does not fit its type."""
        super().__init__(declared, reason)
        self.path: list[str] = []

    def within(self, name: str) -> Self:
        """Return the error with the path extended by the field that contains this column."""
        self.path.insert(0, name)
        return self

    def __str__(self) -> str:
        declared, reason = self.args
        return f"the field {'.'.join(self.path)!r} does not fit {declared!r}: {reason}"


def column_values(column: Any, declared: TypeInformation, *, is_utc: bool = False) -> list[Any]:
    """Return the values of a column, of the declared type.

    Args:
        column: An Array or ChunkedArray.
        declared: The type.
        is_utc: Whether timestamps without a zone may be read as instants in UTC.

    Raises:
        ColumnMisfit: The types cannot be cast, or a value would change.
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        parts = [column_values(part, declared, is_utc=is_utc) for part in column.chunks]
        return parts[0] if len(parts) == 1 else [value for part in parts for value in part]
    try:
        return _values(column, declared, is_utc)
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pa.ArrowTypeError,
        OverflowError,
    ) as error:
        raise ColumnMisfit(declared, f"its column is of {column.type}: {error}") from None


def whole_numbers(column: Any, declared: TypeInformation) -> memoryview | None:
    """Return the values of a column of whole numbers in memory, as 64 bits each.

    Args:
        column: An Array; it is cast if it has another type.
        declared: The type of the values.

    Returns:
        None if the values are not whole numbers, or some are null.

    Raises:
        ColumnMisfit: A value does not fit.
    """
    import pyarrow as pa

    is_whole = isinstance(declared, BasicTypeInfo) and declared.basic_type in _WHOLE
    if not is_whole or not pa.types.is_integer(column.type) or column.null_count:
        return None
    try:
        return numpy_values(column.cast(arrow_type(declared)).cast(pa.int64())).data
    except pa.ArrowInvalid as error:
        raise ColumnMisfit(declared, f"its column is of {column.type}: {error}") from None


def _plain(column: Any) -> Any:
    """Decode a column whose type only describes an encoding: an extension, a dictionary, runs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if pa.types.is_run_end_encoded(column.type):
        return pc.run_end_decode(column)
    return column


def _kind(column: Any, is_utc: bool) -> str:
    import pyarrow.types as at

    kind = column.type
    for name, checks in _KINDS.items():
        if any(getattr(at, check)(kind) for check in checks):
            if name == "timestamps" and (kind.tz is not None or is_utc):
                return "instants"
            return name
    return "others"


def _values(column: Any, declared: TypeInformation, is_utc: bool) -> list[Any]:
    import pyarrow.types as at

    if isinstance(declared, PickledBytesTypeInfo):
        return _any_values(column)
    column = _plain(column)
    if at.is_null(column.type):
        return [None] * len(column)
    kind = _kind(column, is_utc)
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)) and kind == "structs":
        return _rows(column, declared, is_utc)
    if isinstance(declared, MapTypeInfo) and kind == "maps":
        return _maps(column, declared, is_utc)
    if isinstance(declared, LISTS) and declared != BYTES and kind == "lists":
        return _lists(column, declared, is_utc)
    scalar: Any = type(declared)
    if isinstance(declared, BasicTypeInfo):
        scalar = declared.basic_type
    elif declared == BYTES:
        scalar = "bytes"
    if kind == "instants" and column.type.tz is None and scalar is TimestampTypeInfo:
        kind = "timestamps"
    if kind not in _TAKES.get(scalar, ()):
        is_moment = scalar in (BasicType.INSTANT, LocalZonedTimestampTypeInfo)
        hint = "; it has no zone" if is_moment and kind == "timestamps" else ""
        raise ColumnMisfit(
            declared, f"its column is of {column.type}, which is not read as this type{hint}"
        )
    return _READERS.get(scalar, _cast_values)(column, declared)


def _any_values(column: Any) -> list[Any]:
    """Return values of Python types, also in nested columns: microseconds, and instants in UTC."""
    import pyarrow as pa

    column = _cast(column, _python_type(column.type))
    if pa.types.is_timestamp(column.type):
        return _values(column, type_of_arrow(column.type), False)
    values: list[Any] = column.to_pylist()
    return values


def _python_type(kind: Any) -> Any:
    """Return the type with the units and the zone of Python's values."""
    import pyarrow as pa
    import pyarrow.types as at

    if at.is_dictionary(kind):
        return _python_type(kind.value_type)
    if at.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if at.is_time64(kind):
        return pa.time64("us")
    if at.is_duration(kind):
        return pa.duration("us")
    if at.is_struct(kind):
        return pa.struct([field.with_type(_python_type(field.type)) for field in kind])
    if at.is_map(kind):
        return pa.map_(_python_type(kind.key_type), _python_type(kind.item_type))
    if at.is_list(kind) or at.is_large_list(kind) or at.is_fixed_size_list(kind):
        element = kind.value_field.with_type(_python_type(kind.value_type))
        if at.is_fixed_size_list(kind):
            return pa.list_(element, kind.list_size)
        return (pa.large_list if at.is_large_list(kind) else pa.list_)(element)
    return kind


def _cast_values(column: Any, declared: TypeInformation) -> list[Any]:
    return _list_of(_cast(column, arrow_type(declared)))


def _cast(column: Any, kind: Any) -> Any:
    return column if column.type == kind else column.cast(kind)


def _list_of(column: Any) -> list[Any]:
    import pyarrow.types as at

    kind = column.type
    is_number = at.is_integer(kind) or at.is_floating(kind)
    values: list[Any]
    if column.null_count == 0 and is_number:
        values = numpy_values(column).tolist()
    else:
        values = column.to_pylist()
    return values


def _exact_values(column: Any, declared: TypeInformation) -> list[Any]:
    """Return floats of numbers that do not change when they are cast back."""
    import pyarrow as pa
    import pyarrow.compute as pc

    made = _cast(column, arrow_type(declared))
    if made.type.bit_width < column.type.bit_width or pa.types.is_decimal(column.type):
        differs = pc.not_equal(made.cast(column.type), column)
        if pa.types.is_floating(column.type):
            differs = pc.and_(differs, pc.invert(pc.is_nan(column)))
        place = pc.index(differs, value=True).as_py()
        if place >= 0:
            raise pa.ArrowInvalid(f"{column[place].as_py()} would change")
    return _list_of(made)


def _big_integers(column: Any, declared: TypeInformation) -> list[Any]:
    import pyarrow as pa

    del declared
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.decimal256(76, 0))
        return [None if value is None else int(value) for value in column.to_pylist()]
    return _list_of(column)


def _decimals(column: Any, declared: TypeInformation) -> list[Any]:
    import pyarrow as pa

    del declared
    if not pa.types.is_decimal(column.type):
        column = column.cast(pa.decimal128(38, 0))
    values: list[Any] = column.to_pylist()
    return values


def _texts(column: Any, declared: TypeInformation) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    column = _cast(column, pa.string())
    if declared == Types.CHAR() and pc.any(pc.not_equal(pc.utf8_length(column), 1)).as_py():
        raise pa.ArrowInvalid("a text is not one character")
    values: list[Any] = column.to_pylist()
    return values


def _dates(column: Any, declared: TypeInformation) -> list[Any]:
    import pyarrow as pa

    days = _cast(column, arrow_type(declared)).cast(pa.int32())
    _check_years(days, *_DAYS)
    return _moments(days.cast(pa.int64()), "datetime64[D]")


def _timestamps(column: Any, declared: TypeInformation) -> list[Any]:
    """Return datetimes: for instants in UTC, for others without a zone."""
    import pyarrow as pa

    kind = column.type
    is_instant = isinstance(declared, LocalZonedTimestampTypeInfo) or (
        pa.types.is_timestamp(kind) and kind.tz is not None
    )
    column = _cast(column, pa.timestamp("us", "UTC" if is_instant else None))
    micros = column.cast(pa.int64())
    _check_years(micros, *_MICROS)
    if is_instant:
        epoch, after = _EPOCH, datetime.timedelta
        if micros.null_count:
            return [
                None if value is None else epoch + after(0, 0, value)
                for value in micros.to_pylist()
            ]
        return [epoch + after(0, 0, value) for value in numpy_values(micros).tolist()]
    return _moments(micros, "datetime64[us]")


def _moments(counts: Any, unit: str) -> list[Any]:
    """Return 64-bit counts of a unit of NumPy since 1970 as dates or datetimes."""
    values: list[Any] = numpy_values(counts.fill_null(_NOT_A_TIME)).view(unit).tolist()
    return values


def _instants(column: Any, declared: TypeInformation) -> list[Any]:
    import pyarrow as pa

    del declared
    per_second = _UNITS_PER_SECOND[column.type.unit]
    nanos_each = 10**9 // per_second

    def instant(value: int | None) -> Instant | None:
        if value is None:
            return None
        seconds, rest = divmod(value, per_second)
        return Instant(seconds, rest * nanos_each)

    return [instant(value) for value in column.cast(pa.int64()).to_pylist()]


def _check_years(numbers: Any, first: int, last: int) -> None:
    """Reject values outside the years of Python's dates."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and not first <= found["min"] <= found["max"] <= last:
        raise pa.ArrowInvalid("a value lies outside of the years 1 to 9999")


#: Readers of scalar types that need more than a cast to Arrow's type.
_READERS: Final[dict[Any, Callable[[Any, TypeInformation], list[Any]]]] = {
    **dict.fromkeys(_REAL, _exact_values),
    **dict.fromkeys(_TEXTS, _texts),
    BasicType.BIG_INT: _big_integers,
    BasicType.BIG_DEC: _decimals,
    BasicType.INSTANT: _instants,
    DateTypeInfo: _dates,
    TimestampTypeInfo: _timestamps,
    LocalZonedTimestampTypeInfo: _timestamps,
}


def _rows(column: Any, declared: RowTypeInfo | TupleTypeInfo, is_utc: bool) -> list[Any]:
    """Return rows of a struct, whose fields are found by name; or tuples, in the struct's order."""
    types = declared.get_field_types()
    there = [column.type.field(number).name for number in range(column.type.num_fields)]
    is_row = isinstance(declared, RowTypeInfo)
    names = declared.get_field_names() if isinstance(declared, RowTypeInfo) else there
    if len(names) != len(types):
        raise ColumnMisfit(declared, f"its column is of {column.type}")
    parts = column.flatten()
    found = []
    for name, kind in zip(names, types, strict=True):
        if name not in there:
            raise ColumnMisfit(kind, f"the struct has no such field, it has {there}").within(name)
        try:
            found.append(column_values(parts[there.index(name)], kind, is_utc=is_utc))
        except ColumnMisfit as misfit:
            raise misfit.within(name) from None
    rows: list[Any] = rows_of_columns(names, found) if is_row else list(zip(*found, strict=True))
    return _with_nulls(rows, column)


def _lists(column: Any, declared: Any, is_utc: bool) -> list[Any]:
    import pyarrow.compute as pc

    elements = pc.list_flatten(column)
    if isinstance(declared, PrimitiveArrayTypeInfo) and elements.null_count:
        raise ColumnMisfit(declared, "an element is NULL, which a primitive array cannot have")
    values = column_values(elements, declared.element_type, is_utc=is_utc)
    found: list[Any] = []
    first = 0
    for length in pc.list_value_length(column).to_pylist():
        if length is None:
            found.append(None)
        else:
            found.append(values[first : first + length])
            first += length
    return found


def _maps(column: Any, declared: MapTypeInfo, is_utc: bool) -> list[Any]:
    offsets = column.offsets.to_pylist()
    first, last = offsets[0], offsets[-1]
    keys = column_values(column.keys[first:last], declared.key_type, is_utc=is_utc)
    items = column_values(column.items[first:last], declared.value_type, is_utc=is_utc)
    found = [
        dict(
            zip(keys[begin - first : end - first], items[begin - first : end - first], strict=True)
        )
        for begin, end in pairwise(offsets)
    ]
    return _with_nulls(found, column)


def _with_nulls(values: list[Any], column: Any) -> list[Any]:
    if not column.null_count:
        return values
    valid = column.is_valid().to_pylist()
    return [value if is_valid else None for value, is_valid in zip(values, valid, strict=True)]
