"""Conversions between Arrow's types and the types of records, and of values to Arrow columns."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from penstock.common.basic_types import BasicType, BasicTypeInfo
from penstock.common.composite_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    as_type_information,
)
from penstock.common.packages.optional_library import optional_library
from penstock.common.record_types import as_row_type
from penstock.common.temporal_types import (
    DateTypeInfo,
    LocalZonedTimestampTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.values.instants import instant_micros
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

BYTES: Final = Types.PRIMITIVE_ARRAY(Types.BYTE())

LISTS: Final = (BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)

#: The names of Arrow's types for basic types.
_BASIC: Final = {
    BasicType.STRING: "string",
    BasicType.CHAR: "string",
    BasicType.BOOLEAN: "bool_",
    BasicType.BYTE: "int8",
    BasicType.SHORT: "int16",
    BasicType.INT: "int32",
    BasicType.LONG: "int64",
    BasicType.FLOAT: "float32",
    BasicType.DOUBLE: "float64",
}


def arrow_library(used_by: str) -> Any:
    """Import the module ``pyarrow``.

    Raises:
        DependencyError: The package is not installed.
    """
    return optional_library("pyarrow", "pyarrow", "storage", used_by)


def arrow_type(declared: TypeInformation) -> Any:
    """Return the Arrow type for values of a type.

    Raises:
        InvalidProgramError: Arrow has none.
    """
    pa = arrow_library("a columnar format")
    if isinstance(declared, BasicTypeInfo):
        kind = declared.basic_type
        if kind in _BASIC:
            return getattr(pa, _BASIC[kind])()
        if kind is BasicType.BIG_DEC:
            return pa.decimal128(38, 18)
        if kind is BasicType.BIG_INT:
            return pa.decimal128(38, 0)
        if kind is BasicType.INSTANT:
            return pa.timestamp("us", "UTC")
    if declared == BYTES:
        return pa.binary()
    if isinstance(declared, DateTypeInfo):
        return pa.date32()
    if isinstance(declared, TimeTypeInfo):
        return pa.time64("us")
    if isinstance(declared, LocalZonedTimestampTypeInfo):
        return pa.timestamp("us", "UTC")
    if isinstance(declared, TimestampTypeInfo):
        return pa.timestamp("us")
    if isinstance(declared, LISTS):
        return pa.list_(arrow_type(declared.element_type))
    if isinstance(declared, MapTypeInfo):
        return pa.map_(arrow_type(declared.key_type), arrow_type(declared.value_type))
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        return pa.struct(_fields(declared))
    raise InvalidProgramError(f"Arrow has no type for {declared!r}")


def _fields(declared: RowTypeInfo | TupleTypeInfo) -> list[tuple[str, Any]]:
    types = declared.get_field_types()
    names = (
        declared.get_field_names()
        if isinstance(declared, RowTypeInfo)
        else [f"f{i}" for i in range(len(types))]
    )
    return list(zip(names, map(arrow_type, types), strict=True))


def arrow_schema(declared: RowTypeInfo) -> Any:
    """Return the Arrow schema for rows of a type.

    Raises:
        InvalidProgramError: Arrow has no type for a field.
    """
    return arrow_library("a columnar format").schema(_fields(declared))


def type_of_arrow(kind: Any) -> TypeInformation:
    """Return the type of the values of an Arrow type; any Python value if there is none."""
    import pyarrow.types as at

    for is_kind, declared in (
        (at.is_boolean, Types.BOOLEAN),
        (at.is_int8, Types.BYTE),
        (at.is_int16, Types.SHORT),
        (lambda k: at.is_int32(k) or at.is_uint8(k) or at.is_uint16(k), Types.INT),
        (lambda k: at.is_int64(k) or at.is_uint32(k), Types.LONG),
        (at.is_uint64, Types.BIG_INT),
        (lambda k: at.is_float16(k) or at.is_float32(k), Types.FLOAT),
        (at.is_float64, Types.DOUBLE),
        (lambda k: at.is_string(k) or at.is_large_string(k) or at.is_string_view(k), Types.STRING),
        (at.is_decimal, Types.BIG_DEC),
        (at.is_date, Types.SQL_DATE),
        (at.is_time, Types.SQL_TIME),
        (lambda k: at.is_timestamp(k) and k.tz is not None, Types.TIMESTAMP_LTZ),
        (at.is_timestamp, Types.SQL_TIMESTAMP),
    ):
        if is_kind(kind):
            return declared()
    if at.is_binary(kind) or at.is_large_binary(kind) or at.is_fixed_size_binary(kind):
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if at.is_dictionary(kind):
        return type_of_arrow(kind.value_type)
    if at.is_list(kind) or at.is_large_list(kind) or at.is_fixed_size_list(kind):
        return Types.LIST(type_of_arrow(kind.value_type))
    if at.is_map(kind):
        return Types.MAP(type_of_arrow(kind.key_type), type_of_arrow(kind.item_type))
    if at.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return Types.ROW_NAMED([f.name for f in fields], [type_of_arrow(f.type) for f in fields])
    return Types.PICKLED_BYTE_ARRAY()


def of_instants(declared: Any) -> Any:
    """Return a type whose timestamps, also nested ones, are instants."""
    if isinstance(declared, TimestampTypeInfo):
        return Types.TIMESTAMP_LTZ()
    if isinstance(declared, RowTypeInfo):
        types = list(map(of_instants, declared.get_field_types()))
        return Types.ROW_NAMED(declared.get_field_names(), types)
    if isinstance(declared, TupleTypeInfo):
        return Types.TUPLE(list(map(of_instants, declared.get_field_types())))
    if isinstance(declared, MapTypeInfo):
        return Types.MAP(of_instants(declared.key_type), of_instants(declared.value_type))
    if isinstance(declared, LISTS) and declared != BYTES:
        return Types.LIST(of_instants(declared.element_type))
    return declared


def row_type_of(given: Any, where: str) -> RowTypeInfo:
    """Return the row type that a program describes by a type or an Arrow schema.

    Raises:
        InvalidProgramError: The argument is neither.
    """
    if hasattr(type(given), "__type_information__"):
        given = as_type_information(given, where)
    given = as_row_type(given)
    if isinstance(given, RowTypeInfo):
        return given
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(given).__mro__}
    if ("pyarrow", "Schema") in kinds:
        return Types.ROW_NAMED(given.names, [type_of_arrow(kind) for kind in given.types])
    raise InvalidProgramError(
        f"{where} takes a row, as Types.ROW_NAMED describes it, or a schema of Arrow: {given!r}"
    )


def _wall_clock(value: Any) -> Any:
    """Return a datetime without a zone; reject others, because Arrow would drop the zone."""
    if getattr(value, "tzinfo", None) is not None:
        raise ValueError(
            "it has a zone, and a column of this type has none; declare Types.TIMESTAMP_LTZ() or "
            "Types.INSTANT()"
        )
    return value


def _each(element: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: [element(value) for value in values]


def _same(value: Any) -> Any:
    return value


def table_schema(given: Any, row_type: RowTypeInfo) -> Any:
    """Return the Arrow schema for a table: the program's, or that of the row type.

    Its instants are in UTC, the only zone in the formats of tables.
    """
    pa = arrow_library("a table")
    if not isinstance(given, pa.Schema):
        return arrow_schema(row_type)
    return pa.schema([field.with_type(_of_utc(pa, field.type)) for field in given])


def _of_utc(pa: Any, kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([field.with_type(_of_utc(pa, field.type)) for field in fields])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_of_utc(pa, kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_of_utc(pa, kind.key_type), _of_utc(pa, kind.item_type))
    return kind


def column_of(values: Iterable[Any], declared: TypeInformation) -> Any:
    """Return the values of one field as an Arrow column.

    Raises:
        pyarrow.ArrowInvalid, pyarrow.ArrowTypeError: A value does not fit.
    """
    import pyarrow as pa

    convert = value_writer(declared)
    shown = list(values) if convert is None else [convert(value) for value in values]
    return pa.array(shown, arrow_type(declared))


#: The errors of invalid values; pyarrow's errors are subclasses.
_UNFIT: Final = (ArithmeticError, AttributeError, LookupError, Misfit, TypeError, ValueError)


def _unfit(value: Any, declared: TypeInformation) -> Exception | None:
    """Return the reason why a value is not of a type, or None."""
    try:
        column_of([value], declared)
    except _UNFIT as error:
        return error
    return None


def _misfit(value: Any, declared: TypeInformation) -> tuple[list[str], TypeInformation, Any]:
    """Return the path to the part of a value with the wrong type, the type, and the reason."""
    parts: list[tuple[str, TypeInformation, Any]] = []
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        names, types = [name for name, _ in _fields(declared)], declared.get_field_types()
        with suppress(Misfit):  # then the value as a whole is reported
            parts = list(zip(names, types, field_values(value, names), strict=True))
    elif isinstance(declared, MapTypeInfo) and isinstance(value, dict):
        parts = [(str(key), declared.value_type, each) for key, each in value.items()]
    elif isinstance(declared, LISTS) and isinstance(value, (list, tuple)):
        parts = [(str(n), declared.element_type, each) for n, each in enumerate(value)]
    for name, of, each in parts:
        if _unfit(each, of):
            path, found, reason = _misfit(each, of)
            return [name, *path], found, reason
    return [], declared, _unfit(value, declared)


def columns_of(rows: Sequence[Sequence[Any]], row_type: RowTypeInfo, schema: Any) -> Any:
    """Return a RecordBatch of rows, each given as the values of its fields.

    Args:
        rows: The rows, at least one.
        row_type: The type of the rows.
        schema: The Arrow schema to which the columns are cast.

    Raises:
        FormatError: A value does not fit; the message names the field and its row.
    """
    pa = arrow_library("a columnar format")
    columns = []
    fields = zip(schema, row_type.get_field_types(), zip(*rows, strict=True), strict=True)
    for field, kind, values in fields:
        try:
            columns.append(column_of(values, kind).cast(field.type))
        except _UNFIT as error:
            wrong = (row for row, value in zip(rows, values, strict=True) if _unfit(value, kind))
            row = next(wrong, None)
            if row is None:  # the column as a whole does not fit the schema's type
                path, of, reason = list[str](), kind, error
            else:
                path, of, reason = _misfit(row[len(columns)], kind)
            name = ".".join([field.name, *path])
            where = "" if row is None else f"; the row is {row!r:.200}"
            raise FormatError(f"the field {name!r} does not fit {of!r}: {reason}{where}") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def value_writer(declared: TypeInformation) -> Callable[[Any], Any] | None:
    """Return the conversion of a type's values to Arrow's; None if it is the identity."""
    convert: Callable[[Any], Any] | None = None
    if isinstance(declared, LISTS) and declared != BYTES:
        element = value_writer(declared.element_type)
        if element is not None:
            convert = _each(element)
    elif isinstance(declared, MapTypeInfo):
        of_key = value_writer(declared.key_type) or _same
        of_value = value_writer(declared.value_type) or _same

        def convert(mapping: Any) -> Any:
            return [(of_key(key), of_value(value)) for key, value in mapping.items()]
    elif isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        names = [name for name, _ in _fields(declared)]
        fields = [value_writer(kind) or _same for kind in declared.get_field_types()]

        def convert(row: Any) -> Any:
            members = zip(names, fields, field_values(row, names), strict=True)
            return {name: write(value) for name, write, value in members}

    elif declared == Types.INSTANT() or isinstance(declared, LocalZonedTimestampTypeInfo):
        convert = instant_micros
    elif isinstance(declared, TimestampTypeInfo):
        return _wall_clock
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)
