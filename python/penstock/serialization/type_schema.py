"""Schema of a declared type for the codecs: its wire kind, without TypeInformation.

Both runtimes compile a codec from the same :class:`TypeSchema`, so that neither needs to know
the public ``Types`` and both refuse the same values.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.common import typeinfo
from penstock.errors import SerializationError
from penstock.serialization import conversions


@dataclass(frozen=True)
class Conversion:
    """The mapping between a type's values and those of its simpler wire type."""

    to_wire: Callable[[Any], Any]
    from_wire: Callable[[Any], Any]


@dataclass(frozen=True)
class TypeSchema:
    """A node of a compiled type.

    Attributes:
        kind: ANY, STRING, BOOLEAN, BYTE, SHORT, INT, LONG, BIG_INT, FLOAT, DOUBLE, BYTES,
            CONVERTED, TUPLE, ROW, LIST (elements may be None), ARRAY (they may not) or MAP.
        name: the type as the user wrote it, for error messages.
        fields: the fields of TUPLE and ROW, the element of LIST and ARRAY, key and value of MAP,
            the wire type of CONVERTED.
        field_names: of ROW.
        named: whether the user named the fields of a ROW.
        conversion: of CONVERTED.
    """

    kind: str
    name: str
    fields: tuple["TypeSchema", ...] = ()
    field_names: tuple[str, ...] = ()
    named: bool = False
    conversion: Conversion | None = None


ANY = TypeSchema("ANY", "PICKLED_BYTE_ARRAY")
STRING = TypeSchema("STRING", "STRING")
BOOLEAN = TypeSchema("BOOLEAN", "BOOLEAN")
BYTE = TypeSchema("BYTE", "BYTE")
SHORT = TypeSchema("SHORT", "SHORT")
INT = TypeSchema("INT", "INT")
LONG = TypeSchema("LONG", "LONG")
BIG_INT = TypeSchema("BIG_INT", "BIG_INT")
FLOAT = TypeSchema("FLOAT", "FLOAT")
DOUBLE = TypeSchema("DOUBLE", "DOUBLE")
BYTES = TypeSchema("BYTES", "PRIMITIVE_ARRAY(BYTE)")


def _converted(
    name: str, wire: TypeSchema, to_wire: Callable[[Any], Any], from_wire: Callable[[Any], Any]
) -> TypeSchema:
    conversion = Conversion(to_wire, from_wire)
    return TypeSchema("CONVERTED", name, (wire,), conversion=conversion)


def tuple_of(*fields: TypeSchema) -> TypeSchema:
    """Return the schema of ``Types.TUPLE``."""
    return TypeSchema("TUPLE", f"TUPLE({', '.join(f.name for f in fields)})", fields)


def row_of(
    fields: tuple[TypeSchema, ...], field_names: tuple[str, ...], *, named: bool
) -> TypeSchema:
    """Return the schema of ``Types.ROW`` (``named`` false) or ``Types.ROW_NAMED``."""
    names = [f"{n}: {f.name}" for n, f in zip(field_names, fields, strict=True)]
    shown = names if named else [f.name for f in fields]
    return TypeSchema("ROW", f"ROW({', '.join(shown)})", fields, field_names, named)


def list_of(element: TypeSchema, name: str = "LIST") -> TypeSchema:
    """Return the schema of ``Types.LIST``, ``BASIC_ARRAY`` or ``OBJECT_ARRAY``."""
    return TypeSchema("LIST", f"{name}({element.name})", (element,))


def array_of(element: TypeSchema) -> TypeSchema:
    """Return the schema of ``Types.PRIMITIVE_ARRAY``; an array of bytes travels as bytes."""
    if element == BYTE:
        return BYTES
    return TypeSchema("ARRAY", f"PRIMITIVE_ARRAY({element.name})", (element,))


def map_of(key: TypeSchema, value: TypeSchema) -> TypeSchema:
    """Return the schema of ``Types.MAP``."""
    return TypeSchema("MAP", f"MAP({key.name}, {value.name})", (key, value))


CHAR = _converted("CHAR", STRING, conversions.character, conversions.character_from)
BIG_DEC = _converted("BIG_DEC", STRING, conversions.decimal_text, conversions.decimal_from)
SQL_DATE = _converted("SQL_DATE", INT, conversions.epoch_day, conversions.date_from)
SQL_TIME = _converted("SQL_TIME", LONG, conversions.micros_of_day, conversions.time_from)
SQL_TIMESTAMP = _converted(
    "SQL_TIMESTAMP", LONG, conversions.timestamp_micros, conversions.timestamp_from
)
TIMESTAMP_LTZ = _converted(
    "TIMESTAMP_LTZ", LONG, conversions.moment_micros, conversions.moment_from
)
INSTANT = _converted(
    "INSTANT", tuple_of(LONG, INT), conversions.instant_parts, conversions.instant_from
)

_BASIC = {
    s.name: s
    for s in (
        STRING, BOOLEAN, BYTE, SHORT, INT, LONG, BIG_INT, FLOAT, DOUBLE, CHAR, BIG_DEC, INSTANT,
    )
}  # fmt: skip

_LOCAL_TIME = {"LOCAL_DATE": SQL_DATE, "LOCAL_TIME": SQL_TIME, "LOCAL_DATE_TIME": SQL_TIMESTAMP}


def schema_of(type_info: typeinfo.TypeInformation | None) -> TypeSchema:
    """Return the schema of a declared type; values of ``None`` (undeclared) describe themselves.

    Raises:
        SerializationError: the type has no codec.
    """
    match type_info:
        case None | typeinfo.PickledBytesTypeInfo():
            return ANY
        case typeinfo.DateTypeInfo():
            return SQL_DATE
        case typeinfo.TimeTypeInfo():
            return SQL_TIME
        case typeinfo.LocalZonedTimestampTypeInfo():
            return TIMESTAMP_LTZ
        case typeinfo.TimestampTypeInfo():
            return SQL_TIMESTAMP
        case typeinfo.LocalTimeTypeInfo():
            return _LOCAL_TIME[type_info.time_type.name]
        case typeinfo.BasicTypeInfo():
            return _BASIC[type_info.basic_type.name]
        case typeinfo.TupleTypeInfo():
            return tuple_of(*map(schema_of, type_info.get_field_types()))
        case typeinfo.RowTypeInfo():
            fields = tuple(map(schema_of, type_info.get_field_types()))
            names = tuple(type_info.get_field_names())
            unnamed = tuple(f"f{i}" for i in range(len(fields)))
            return row_of(fields, names, named=names != unnamed)
        case typeinfo.ListTypeInfo():
            return list_of(schema_of(type_info.element_type))
        case typeinfo.MapTypeInfo():
            return map_of(schema_of(type_info.key_type), schema_of(type_info.value_type))
        case typeinfo.PrimitiveArrayTypeInfo():
            return array_of(schema_of(type_info.element_type))
        case typeinfo.BasicArrayTypeInfo():
            return list_of(schema_of(type_info.element_type), "BASIC_ARRAY")
        case typeinfo.ObjectArrayTypeInfo():
            return list_of(schema_of(type_info.element_type), "OBJECT_ARRAY")
    raise SerializationError(f"no codec for {type_info} ({type(type_info).__name__})")
