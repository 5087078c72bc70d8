"""The self-describing codec: values of undeclared type, in plain Python.

Byte-identical with ``penstock._native.codecs.dynamic_codec``; docs/formats/codec.md has the table.
"""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.exception_deadline import text_in_time
from penstock.errors import CorruptStreamError, SerializationError
from penstock.serialization.class_reference import reference_of
from penstock.serialization.extended_values import ENUM as ENUM
from penstock.serialization.extended_values import rebuild_value, reduce_value
from penstock.serialization.former_layouts import FORMER
from penstock.serialization.instance_fields import fields_of, known_layout
from penstock.serialization.models import set_rest
from penstock.serialization.pure.value_bytes import (
    F64,
    I8,
    I16,
    I32,
    I64,
    MAX_DEPTH,
    U32,
    JobBytes,
    Reader,
    decode_text,
    encode_text,
    write_sized,
    write_varint,
)
from penstock.serialization.standard_collections import REBUILDERS as COLLECTIONS
from penstock.serialization.value_layouts import (
    BUILTIN,
    MODEL,
    NAMED_TUPLE,
    Layout,
    layout_numbered,
    layout_signed,
    made_of_builtin,
)

NONE, FALSE, TRUE = 0x00, 0x01, 0x02
INT8, INT16, INT32, INT64, BIG_INT = 0x03, 0x04, 0x05, 0x06, 0x07
FLOAT, STR, BYTES, BYTEARRAY = 0x08, 0x09, 0x0A, 0x0B
TUPLE, LIST, DICT, SET, FROZENSET = 0x0C, 0x0D, 0x0E, 0x0F, 0x20
EXTENDED_FIRST, EXTENDED_LAST = 0x10, 0x1F
NUMBERED, SIGNED, UUID = 0x21, 0x22, 0x23
SHORT_STR = 0x40  # … 0x7F: 0 to 63 bytes
SHORT_TUPLE = 0x80  # … 0x8F: 0 to 15 elements
SHORT_LIST = 0x90  # … 0x9F: 0 to 15 elements
SMALL_INT = 0xC0  # 0xA0 … 0xFF: -32 to 63


def encode_dynamic(out: bytearray, value: Any, depth: int = 0) -> None:
    """Append a value of any type.

    Raises:
        SerializationError: The value nests too deep or cannot be pickled.
    """
    encoder = _ENCODERS.get(type(value))
    if encoder is not None:
        encoder(out, value, depth)
        return
    _check_depth(depth)
    layout = known_layout(type(value))
    if layout is not None:
        fields = fields_of(value, layout)
        if fields is not None:
            _encode_instance(out, layout, fields, depth)
            return
    tag, parts = reduce_value(value)
    out.append(tag)
    encode_dynamic(out, parts, depth + 1)


def decode_dynamic(reader: Reader) -> Any:
    """Return the next value.

    Raises:
        CorruptStreamError: the bytes are not those of a value.
    """
    tag = reader.byte()
    if tag >= 0xA0:
        return tag - SMALL_INT
    if tag >= SHORT_LIST:
        return _read_list(reader, tag - SHORT_LIST)
    if tag >= SHORT_TUPLE:
        return tuple(_read_list(reader, tag - SHORT_TUPLE))
    if tag >= SHORT_STR:
        return decode_text(reader.take(tag - SHORT_STR))
    decoder = _DECODERS.get(tag)
    if decoder is not None:
        return decoder(reader)
    if tag in (NUMBERED, SIGNED):
        return _read_instance(reader, tag)
    if EXTENDED_FIRST <= tag <= EXTENDED_LAST or tag in COLLECTIONS:
        reader.descend()
        parts = decode_dynamic(reader)
        reader.depth -= 1
        return rebuild_value(tag, parts)
    raise CorruptStreamError(f"unknown value tag 0x{tag:02x}")


def instance_header(layout: Layout, numbered: bool) -> bytes:
    """Return the bytes that precede an instance's fields."""
    if numbered:
        assert layout.number is not None, "the job knows the class"
        return bytes((NUMBERED,)) + U32.pack(layout.number)
    out = bytearray((SIGNED,))
    write_sized(out, encode_text(layout.signature))
    return bytes(out)


def extended_bytes(tag: int, parts: Any) -> bytes:
    """Return the bytes of an extended value."""
    out = bytearray((tag,))
    encode_dynamic(out, parts)
    return bytes(out)


def _encode_instance(out: bytearray, layout: Layout, fields: Sequence[Any], depth: int) -> None:
    numbered = layout.number is not None and isinstance(out, JobBytes)
    if layout.is_own and not numbered:
        reference_of(layout.cls)  # the class must be shipped, so record it
    out += instance_header(layout, numbered)
    for field in fields:
        encode_dynamic(out, field, depth + 1)


def _read_instance(reader: Reader, tag: int) -> Any:
    if tag == NUMBERED:
        layout = layout_numbered(reader.unpack(U32))
    else:
        layout = layout_signed(decode_text(reader.take(reader.varint())))
    reader.descend()
    fields = [decode_dynamic(reader) for _ in layout.names]
    reader.depth -= 1
    if layout.kind == FORMER:
        return layout.cls(fields)
    if layout.kind == NAMED_TUPLE:
        return tuple.__new__(layout.cls, fields)
    if layout.kind == BUILTIN:
        return made_of_builtin(layout, fields[0])
    # As in unpickling, __init__ and __post_init__ are not called again.
    value: Any = object.__new__(layout.cls)
    names = layout.names
    if layout.kind == MODEL:
        names = names[:-1]
        set_rest(value, names, fields.pop())
    for name, field in zip(names, fields, strict=True):
        object.__setattr__(value, name, field)
    return value


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise SerializationError(f"a value nests deeper than {MAX_DEPTH}; is it recursive?")


def _encode_none(out: bytearray, value: None, depth: int) -> None:  # noqa: ARG001
    out.append(NONE)


def _encode_bool(out: bytearray, value: bool, depth: int) -> None:  # noqa: ARG001
    out.append(TRUE if value else FALSE)


def _encode_int(out: bytearray, value: int, depth: int) -> None:  # noqa: ARG001
    if -32 <= value <= 63:
        out.append(SMALL_INT + value)
    elif -0x80 <= value <= 0x7F:
        out.append(INT8)
        out += I8.pack(value)
    elif -0x8000 <= value <= 0x7FFF:
        out.append(INT16)
        out += I16.pack(value)
    elif -0x80000000 <= value <= 0x7FFFFFFF:
        out.append(INT32)
        out += I32.pack(value)
    elif -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        out.append(INT64)
        out += I64.pack(value)
    else:
        out.append(BIG_INT)
        write_big_int(out, value)


def write_big_int(out: bytearray, value: int) -> None:
    """Append an integer of any size: length, two's complement big-endian."""
    write_sized(out, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def read_big_int(reader: Reader) -> int:
    """Return the integer that :func:`write_big_int` wrote."""
    size = reader.varint()
    if size == 0:
        raise CorruptStreamError("an integer of 0 bytes")
    return int.from_bytes(reader.take(size), "big", signed=True)


def _encode_float(out: bytearray, value: float, depth: int) -> None:  # noqa: ARG001
    out.append(FLOAT)
    out += F64.pack(value)


def _encode_str(out: bytearray, value: str, depth: int) -> None:  # noqa: ARG001
    data = encode_text(value)
    if len(data) < 64:
        out.append(SHORT_STR + len(data))
        out += data
    else:
        out.append(STR)
        write_sized(out, data)


def _encode_bytes(out: bytearray, value: bytes, depth: int) -> None:  # noqa: ARG001
    out.append(BYTES)
    write_sized(out, value)


def _encode_bytearray(out: bytearray, value: bytearray, depth: int) -> None:  # noqa: ARG001
    out.append(BYTEARRAY)
    write_sized(out, value)


def _encode_tuple(out: bytearray, value: tuple[Any, ...], depth: int) -> None:
    _check_depth(depth)
    if len(value) < 16:
        out.append(SHORT_TUPLE + len(value))
    else:
        out.append(TUPLE)
        write_varint(out, len(value))
    for item in value:
        encode_dynamic(out, item, depth + 1)


def _encode_list(out: bytearray, value: list[Any], depth: int) -> None:
    _check_depth(depth)
    if len(value) < 16:
        out.append(SHORT_LIST + len(value))
    else:
        out.append(LIST)
        write_varint(out, len(value))
    for item in value:
        encode_dynamic(out, item, depth + 1)


def _encode_dict(out: bytearray, value: dict[Any, Any], depth: int) -> None:
    _check_depth(depth)
    out.append(DICT)
    write_varint(out, len(value))
    for key, item in value.items():
        encode_dynamic(out, key, depth + 1)
        encode_dynamic(out, item, depth + 1)


def _encode_set(out: bytearray, value: set[Any] | frozenset[Any], depth: int) -> None:
    _check_depth(depth)
    out.append(SET if type(value) is set else FROZENSET)
    write_varint(out, len(value))
    for item in value:
        encode_dynamic(out, item, depth + 1)


def _encode_uuid(out: bytearray, value: uuid.UUID, depth: int) -> None:
    _check_depth(depth)
    if value.is_safe is uuid.SafeUUID.unknown:
        out.append(UUID)
        out += value.bytes
    else:
        tag, parts = reduce_value(value)
        out.append(tag)
        encode_dynamic(out, parts, depth + 1)


def _read_list(reader: Reader, count: int) -> list[Any]:
    reader.descend()
    values = [decode_dynamic(reader) for _ in range(count)]
    reader.depth -= 1
    return values


def _read_dict(reader: Reader) -> dict[Any, Any]:
    count = reader.count()
    reader.descend()
    result = {}
    for _ in range(count):
        key = decode_dynamic(reader)
        try:
            result[key] = decode_dynamic(reader)
        except TypeError as error:
            raise CorruptStreamError(f"a key that cannot be one: {text_in_time(error)}") from error
    reader.depth -= 1
    return result


def _read_set(reader: Reader) -> set[Any]:
    try:
        return set(_read_list(reader, reader.count()))
    except TypeError as error:
        raise CorruptStreamError(
            f"an element that a set cannot have: {text_in_time(error)}"
        ) from error


_ENCODERS: dict[type, Callable[[bytearray, Any, int], None]] = {
    type(None): _encode_none,
    bool: _encode_bool,
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    bytes: _encode_bytes,
    bytearray: _encode_bytearray,
    tuple: _encode_tuple,
    list: _encode_list,
    dict: _encode_dict,
    set: _encode_set,
    frozenset: _encode_set,
    uuid.UUID: _encode_uuid,
}

_DECODERS: dict[int, Callable[[Reader], Any]] = {
    NONE: lambda _: None,
    FALSE: lambda _: False,
    TRUE: lambda _: True,
    INT8: lambda reader: reader.unpack(I8),
    INT16: lambda reader: reader.unpack(I16),
    INT32: lambda reader: reader.unpack(I32),
    INT64: lambda reader: reader.unpack(I64),
    BIG_INT: read_big_int,
    FLOAT: lambda reader: reader.unpack(F64),
    STR: lambda reader: decode_text(reader.take(reader.varint())),
    BYTES: lambda reader: reader.take(reader.varint()),
    BYTEARRAY: lambda reader: bytearray(reader.take(reader.varint())),
    TUPLE: lambda reader: tuple(_read_list(reader, reader.count())),
    LIST: lambda reader: _read_list(reader, reader.count()),
    DICT: _read_dict,
    SET: _read_set,
    FROZENSET: lambda reader: frozenset(_read_set(reader)),
    UUID: lambda reader: uuid.UUID(bytes=reader.take(16)),
}
