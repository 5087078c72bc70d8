"""The text of records in sinks that write lines.

Records of a declared type have Flink's text, as Java writes it.  Records of a declared ROW have it
in files only: `print()` shows them by a PyFlink function, which writes fields as Python does.
"""

from __future__ import annotations

from datetime import datetime
from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any

from penstock.common.time import Instant
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from penstock.common.types import Row
from penstock.common.values.instant_text import instant_text
from penstock.common.values.number_text import double_text, float_text
from penstock.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_LISTS = (ListTypeInfo, PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)


def printed_text(context: OperatorContext) -> Callable[[Any], str]:
    """Return the function that formats the records of `print()`."""
    if isinstance(_declared_type(context), RowTypeInfo):
        return row_text
    return text_of_elements(context)


def text_of_elements(context: OperatorContext) -> Callable[[object], str]:
    """Return the function that formats the records of a sink.

    Records without a declared type are any Python values, and have Python's text.
    """
    declared = _declared_type(context)
    if not isinstance(declared, TypeInformation) or isinstance(declared, PickledBytesTypeInfo):
        return python_text
    if declared == Types.STRING():
        return python_text
    if not _holds_floats(declared):
        return flink_text
    return lambda value: flink_text(_with_float_texts(declared, value))


def _declared_type(context: OperatorContext) -> object | None:
    input_types = context.config.input_types
    return input_types[0] if input_types else None


def _holds_floats(declared: TypeInformation) -> bool:
    return declared == Types.FLOAT() or any(map(_holds_floats, _parts_of(declared)))


def _parts_of(declared: TypeInformation) -> list[TypeInformation]:
    """Return the types of a type's fields, of its elements, or of its keys and values."""
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        return declared.get_field_types()
    if isinstance(declared, MapTypeInfo):
        return [declared._key_type_info, declared._value_type_info]
    if isinstance(declared, _LISTS):
        return [declared._element_type]
    return []


def _with_float_texts(declared: TypeInformation, value: Any) -> object:
    """Return the value with its 32-bit numbers as texts, since Python's floats have 64 bits."""
    if value is None:
        return None
    if isinstance(value, float) and declared == Types.FLOAT():
        return float_text(value)
    parts = _parts_of(declared)
    if isinstance(declared, RowTypeInfo):
        fields = map(_with_float_texts, parts, value)
        return Row.of_kind(value.get_row_kind(), *fields)
    if isinstance(declared, TupleTypeInfo):
        return tuple(map(_with_float_texts, parts, value))
    if isinstance(declared, MapTypeInfo):
        key, item = parts
        return {_with_float_texts(key, k): _with_float_texts(item, v) for k, v in value.items()}
    if isinstance(declared, _LISTS):
        return [_with_float_texts(parts[0], element) for element in value]
    return value


def python_text(value: object) -> str:
    """Return a value as Python shows it.

    Raises:
        TypeError: The value is a coroutine, whose result would be lost.
    """
    if type(value) is CoroutineType or type(value) is AsyncGeneratorType:
        if type(value) is CoroutineType:
            value.close()
        raise TypeError(
            f"a record to write is the coroutine {value.__qualname__}, which nobody awaits; "
            "only functions of AsyncDataStream may be written with async def"
        )
    return str(value)


def row_text(row: Row) -> str:
    """Return a row as PyFlink prints it: ``+I[oslo,True,None]``.

    Raises:
        SerializationError: The argument is not a row.
    """
    given: Any = row
    if not isinstance(given, Row):
        raise SerializationError(f"{given!r:.200} is not a Row, the declared type of the stream")
    return f"{row.get_row_kind()}[{','.join(map(python_text, row))}]"


def flink_text(value: object) -> str:
    """Return a value of a declared type as Java shows it: ``(oslo,true,null)``."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, datetime):
        return _timestamp_text(value)
    if isinstance(value, Instant):
        return instant_text(value)
    if isinstance(value, Row):
        return f"{value.get_row_kind()}[{', '.join(map(flink_text, value))}]"
    if isinstance(value, tuple):
        return f"({','.join(map(flink_text, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(flink_text, value))}]"
    if isinstance(value, (bytes, bytearray)):
        signed = (byte - 256 if byte > 127 else byte for byte in value)
        return f"[{', '.join(map(str, signed))}]"
    if isinstance(value, dict):
        pairs = (f"{flink_text(k)}={flink_text(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    return python_text(value)


def _timestamp_text(value: datetime) -> str:
    """Return a moment as `java.sql.Timestamp` writes it, with at least one digit of a second."""
    text = value.replace(tzinfo=None).isoformat(" ", "microseconds").rstrip("0")
    return f"{text}0" if text.endswith(".") else text
