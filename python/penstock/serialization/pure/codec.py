"""Codecs in plain Python: the reference for, and twin of, ``penstock._native.codecs.codec``.

A declared type is compiled into a tree of nodes, one per field.  docs/formats/codec.md has the
byte tables.  The native codec writes the same bytes.  If it rejects a value, this codec creates the
error, so both runtimes have the same messages.
"""

import math
import operator
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.common.exception_deadline import text_in_time
from penstock.common.types import Row, RowKind, values_in_order
from penstock.errors import CorruptStreamError, PenstockError, SerializationError
from penstock.serialization.conversions import whole_number
from penstock.serialization.loaded_numpy import is_numpy_bool
from penstock.serialization.pure.codec_node import Misfit, Node
from penstock.serialization.pure.dynamic_codec import (
    decode_dynamic,
    encode_dynamic,
    read_big_int,
    write_big_int,
)
from penstock.serialization.pure.uncopied import Uncopied
from penstock.serialization.pure.value_bytes import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    Reader,
    decode_text,
    encode_text,
    write_sized,
    write_varint,
)
from penstock.serialization.type_schema import Conversion, TypeSchema

#: Bits of the first byte of a TUPLE or ROW, and of a LIST or MAP after its count.
KIND_BITS = 0x03
HAS_NULLS = 0x04


class _DynamicNode(Node):
    """ANY: the value describes itself."""

    def encode_into(self, out: bytearray, value: Any) -> None:
        try:
            encode_dynamic(out, value)
        except SerializationError as error:
            raise Misfit(value, "value that can travel", str(error)) from error

    def decode_from(self, reader: Reader) -> Any:
        return decode_dynamic(reader)


class _StringNode(Node):
    """STRING: length and UTF-8."""

    def encode_into(self, out: bytearray, value: Any) -> None:
        if not isinstance(value, str):
            raise Misfit(value, self.name, "not a str")
        write_sized(out, encode_text(value))

    def decode_from(self, reader: Reader) -> str:
        return decode_text(reader.take(reader.varint()))


class _BooleanNode(Node):
    """BOOLEAN: one byte; a number becomes its truth value."""

    def encode_into(self, out: bytearray, value: Any) -> None:
        if not isinstance(value, (int, float)) and not is_numpy_bool(value):
            raise Misfit(value, self.name, "neither True nor False, and no number")
        if not 0 <= value < 256:
            raise Misfit(value, self.name, "a number not within 0 and 255")
        out.append(1 if value else 0)

    def decode_from(self, reader: Reader) -> bool:
        byte = reader.byte()
        if byte > 1:
            raise CorruptStreamError(f"BOOLEAN of byte 0x{byte:02x}")
        return byte == 1


_INTEGER_FORMS = {"BYTE": I8, "SHORT": I16, "INT": I32, "LONG": I64}


class _IntegerNode(Node):
    """BYTE, SHORT, INT, LONG: two's complement big-endian of fixed width."""

    def __init__(self, schema: TypeSchema) -> None:
        super().__init__(schema)
        self.form = _INTEGER_FORMS[schema.kind]

    def encode_into(self, out: bytearray, value: Any) -> None:
        try:
            number = operator.index(value)
        except TypeError:
            try:
                number = whole_number(value)
            except SerializationError as error:
                raise Misfit(value, self.name, str(error)) from None
        limit = 1 << 8 * self.form.size - 1
        if not -limit <= number < limit:
            raise Misfit(value, self.name, f"not within {-limit} and {limit - 1}")
        out += self.form.pack(number)

    def decode_from(self, reader: Reader) -> Any:
        return reader.unpack(self.form)


class _BigIntNode(Node):
    """BIG_INT: length and two's complement big-endian."""

    def encode_into(self, out: bytearray, value: Any) -> None:
        try:
            write_big_int(out, operator.index(value))
        except TypeError:
            raise Misfit(value, self.name, "not an int") from None

    def decode_from(self, reader: Reader) -> int:
        return read_big_int(reader)


class _FloatNode(Node):
    """FLOAT and DOUBLE: IEEE 754 big-endian; FLOAT rounds to 32 bits, and overflows to infinity."""

    def __init__(self, schema: TypeSchema) -> None:
        super().__init__(schema)
        self.form = F32 if schema.kind == "FLOAT" else F64

    def encode_into(self, out: bytearray, value: Any) -> None:
        try:
            out += self.form.pack(value)
        except struct.error:
            raise Misfit(value, self.name, "not a number") from None
        except OverflowError:
            if isinstance(value, int) and not _fits_double(value):
                raise Misfit(value, self.name, "not within the range of a float") from None
            out += self.form.pack(math.copysign(math.inf, value))

    def decode_from(self, reader: Reader) -> Any:
        return reader.unpack(self.form)


def _fits_double(value: int) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


class _BytesNode(Node):
    """PRIMITIVE_ARRAY(BYTE): length and bytes."""

    def encode_into(self, out: bytearray, value: Any) -> None:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise Misfit(value, self.name, "not bytes, bytearray or memoryview")
        write_sized(out, bytes(value))

    def decode_from(self, reader: Reader) -> bytes:
        return reader.take(reader.varint())


class _ConvertedNode(Node):
    """A type that travels as a simpler type."""

    def __init__(self, schema: TypeSchema) -> None:
        super().__init__(schema)
        assert schema.conversion is not None
        self.conversion: Conversion = schema.conversion
        self.wire = compile_node(schema.fields[0])

    def encode_into(self, out: bytearray, value: Any) -> None:
        try:
            wire_value = self.conversion.to_wire(value)
        except SerializationError as error:
            raise Misfit(value, self.name, str(error)) from error
        try:
            self.wire.encode_into(out, wire_value)
        except Misfit as misfit:
            raise Misfit(value, self.name, misfit.reason) from None

    def decode_from(self, reader: Reader) -> Any:
        wire_value = self.wire.decode_from(reader)
        try:
            return self.conversion.from_wire(wire_value)
        except PenstockError:
            raise
        except Exception as error:
            raise CorruptStreamError(
                f"{self.name} of {wire_value!r}: {text_in_time(error)}"
            ) from error


class _FieldsNode(Node):
    """The common part of TUPLE and ROW: a header byte, a bit per None, then the other fields."""

    def __init__(self, schema: TypeSchema) -> None:
        super().__init__(schema)
        self.fields = [compile_node(field) for field in schema.fields]

    def encode_fields(self, out: bytearray, values: Any, kind: int) -> None:
        """Append header, null bits and fields."""
        if len(values) != len(self.fields):
            raise Misfit(values, self.name, f"{len(values)} fields, not {len(self.fields)}")
        write_null_bits(out, kind, values)
        for i, (field, item) in enumerate(zip(self.fields, values, strict=True)):
            if item is not None:
                try:
                    field.encode_into(out, item)
                except Misfit as misfit:
                    raise misfit.within(self.step(i)) from misfit.__cause__

    def step(self, index: int) -> str:
        """Return the notation of a field in a path."""
        return f"[{index}]"

    def decode_fields(self, reader: Reader) -> tuple[int, list[Any]]:
        """Return the row kind and the fields."""
        kind, nulls = read_null_bits(reader, len(self.fields))
        return kind, [
            None if _is_null(nulls, i) else field.decode_from(reader)
            for i, field in enumerate(self.fields)
        ]


def write_null_bits(out: bytearray, kind: int, values: Any) -> None:
    """Append a header byte, and a bit for each value if one of them is None."""
    if None not in map(_none_or_ellipsis, values):
        out.append(kind)
        return
    out.append(kind | HAS_NULLS)
    bits = bytearray((len(values) + 7) // 8)
    for i, value in enumerate(values):
        if value is None:
            bits[i >> 3] |= 1 << (i & 7)
    out += bits


def _none_or_ellipsis(value: Any) -> Any:
    # Identity, not equality: numpy arrays and user classes may override ==.
    return None if value is None else ...


def read_null_bits(reader: Reader, count: int) -> tuple[int, bytes | None]:
    """Return the kind in the header byte, and the null bits if there are any."""
    header = reader.byte()
    if header & ~(KIND_BITS | HAS_NULLS):
        raise CorruptStreamError(f"header byte 0x{header:02x}")
    nulls = reader.take((count + 7) // 8) if header & HAS_NULLS else None
    return header & KIND_BITS, nulls


def _is_null(nulls: bytes | None, index: int) -> bool:
    return nulls is not None and bool(nulls[index >> 3] >> (index & 7) & 1)


class _TupleNode(_FieldsNode):
    """TUPLE: a tuple with the declared number of fields."""

    def encode_into(self, out: bytearray, value: Any) -> None:
        if not isinstance(value, tuple):
            raise Misfit(value, self.name, "not a tuple")
        self.encode_fields(out, value, 0)

    def decode_from(self, reader: Reader) -> tuple[Any, ...]:
        kind, values = self.decode_fields(reader)
        if kind:
            raise CorruptStreamError(f"TUPLE of row kind {kind}")
        return tuple(values)


class _RowNode(_FieldsNode):
    """ROW: a Row, whose fields are matched by name if it has names."""

    def __init__(self, schema: TypeSchema) -> None:
        super().__init__(schema)
        self.field_names = list(schema.field_names)
        self.kinds = list(RowKind)

    def step(self, index: int) -> str:
        return f".{self.field_names[index]}"

    def encode_into(self, out: bytearray, value: Any) -> None:
        kind, values = row_values(value, self.field_names, self.name)
        self.encode_fields(out, values, kind)

    def decode_from(self, reader: Reader) -> Row:
        kind, values = self.decode_fields(reader)
        row = Row(*values)
        row.set_field_names(self.field_names)
        if kind:
            row.set_row_kind(self.kinds[kind])
        return row


def row_values(value: Any, field_names: list[str], type_name: str) -> tuple[int, list[Any]]:
    """Return the row kind and the fields of a row, in declared order.

    Raises:
        Misfit: The value is not a row, or lacks a declared name.
    """
    if not isinstance(value, Row):
        raise Misfit(value, type_name, "not a Row")
    try:
        return value.get_row_kind().value, values_in_order(value, field_names)
    except ValueError as error:
        raise Misfit(value, type_name, str(error)) from None


class _ListNode(Node):
    """LIST, BASIC_ARRAY, OBJECT_ARRAY (elements may be None) and PRIMITIVE_ARRAY (ARRAY)."""

    def __init__(self, schema: TypeSchema) -> None:
        super().__init__(schema)
        self.element = compile_node(schema.fields[0])
        self.nullable = schema.kind == "LIST"

    def encode_into(self, out: bytearray, value: Any) -> None:
        values = list_values(value, self.name)
        write_varint(out, len(values))
        if self.nullable:
            write_null_bits(out, 0, values)
        for i, item in enumerate(values):
            if item is None and self.nullable:
                continue
            try:
                if item is None:
                    raise Misfit(item, self.element.name, "None is not allowed here")
                self.element.encode_into(out, item)
            except Misfit as misfit:
                raise misfit.within(f"[{i}]") from misfit.__cause__

    def decode_from(self, reader: Reader) -> list[Any]:
        count = reader.count()
        nulls = None
        if self.nullable:
            kind, nulls = read_null_bits(reader, count)
            if kind:
                raise CorruptStreamError(f"list header of kind {kind}")
        decode = self.element.decode_from
        if nulls is None:
            return [decode(reader) for _ in range(count)]
        return [None if _is_null(nulls, i) else decode(reader) for i in range(count)]


def list_values(value: Any, type_name: str) -> Any:
    """Return the elements of a list.

    Raises:
        Misfit: The value is not a list.
    """
    if not isinstance(value, list):
        raise Misfit(value, type_name, "not a list")
    return value


class _MapNode(Node):
    """MAP: count, header with null bits of the values, then key and value in turn."""

    def __init__(self, schema: TypeSchema) -> None:
        super().__init__(schema)
        self.key, self.value = map(compile_node, schema.fields)

    def encode_into(self, out: bytearray, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise Misfit(value, self.name, "not a dict")
        items = list(value.items())
        write_varint(out, len(items))
        write_null_bits(out, 0, [item for _, item in items])
        for key, item in items:
            try:
                if key is None:
                    raise Misfit(key, self.key.name, "a key must not be None")
                self.key.encode_into(out, key)
            except Misfit as misfit:
                raise misfit.within(".keys()") from misfit.__cause__
            if item is not None:
                try:
                    self.value.encode_into(out, item)
                except Misfit as misfit:
                    raise misfit.within(f"[{key!r}]") from misfit.__cause__

    def decode_from(self, reader: Reader) -> dict[Any, Any]:
        count = reader.count()
        kind, nulls = read_null_bits(reader, count)
        if kind:
            raise CorruptStreamError(f"map header of kind {kind}")
        result = {}
        for i in range(count):
            key = self.key.decode_from(reader)
            item = None if _is_null(nulls, i) else self.value.decode_from(reader)
            try:
                result[key] = item
            except TypeError as error:
                raise CorruptStreamError(
                    f"a key that cannot be one: {text_in_time(error)}"
                ) from error
        return result


_NODES: dict[str, type[Node]] = {
    "ANY": _DynamicNode,
    "STRING": _StringNode,
    "BOOLEAN": _BooleanNode,
    "BYTE": _IntegerNode,
    "SHORT": _IntegerNode,
    "INT": _IntegerNode,
    "LONG": _IntegerNode,
    "BIG_INT": _BigIntNode,
    "FLOAT": _FloatNode,
    "DOUBLE": _FloatNode,
    "BYTES": _BytesNode,
    "CONVERTED": _ConvertedNode,
    "TUPLE": _TupleNode,
    "ROW": _RowNode,
    "LIST": _ListNode,
    "ARRAY": _ListNode,
    "MAP": _MapNode,
}


def compile_node(schema: TypeSchema) -> Node:
    """Return the node of a schema, with the nodes of its fields."""
    return _NODES[schema.kind](schema)


class Codec(Uncopied):
    """Encodes and decodes values of one type."""

    def __init__(self, schema: TypeSchema) -> None:
        self.schema = schema
        self.root = compile_node(schema)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value.

        Raises:
            SerializationError: The value is not of the type; names value, type and field.
        """
        out = bytearray()
        self.encode_into(out, value)
        return bytes(out)

    def certainly_writes(self, value: Any) -> bool:  # noqa: ARG002
        """Return False: only the native codec can tell without encoding a value."""
        return False

    def encode_into(self, out: bytearray, value: Any) -> None:
        """Append the bytes of a value; ignore bytes that were appended before an error."""
        try:
            if value is None and self.schema.kind != "ANY":
                raise Misfit(value, self.schema.name, "None is not allowed here")
            self.root.encode_into(out, value)
        except Misfit as misfit:
            raise SerializationError(misfit.message(self.schema.name)) from misfit.__cause__

    def encode_batch(self, values: Iterable[Any]) -> bytes:
        """Return the values, each with its length as in a record buffer (M8)."""
        out = bytearray()
        for value in values:
            start = len(out)
            out += bytes(4)
            self.encode_into(out, value)
            I32.pack_into(out, start, len(out) - start - 4)
        return bytes(out)

    def decode_batch(self, data: bytes | bytearray | memoryview) -> list[Any]:
        """Return the values that :meth:`encode_batch` wrote.

        Raises:
            CorruptStreamError: the bytes are not those of whole values of the type.
        """
        view, values, position = memoryview(data), [], 0
        while position < len(view):
            if len(view) - position < 4:
                raise CorruptStreamError("a value's length is cut off")
            size = int.from_bytes(view[position : position + 4], "big")
            position += 4
            if size > len(view) - position:
                raise CorruptStreamError(
                    f"a value of {size} bytes, {len(view) - position} are left"
                )
            values.append(self.decode_at(view[position : position + size], 0))
            position += size
        return values

    def decode(self, data: bytes | bytearray | memoryview) -> Any:
        """Return the value of exactly these bytes.

        Raises:
            CorruptStreamError: The bytes are not those of one value of the type.
        """
        return self.decode_at(data, 0)

    def decode_at(self, data: bytes | bytearray | memoryview, position: int) -> Any:
        """Decode as :meth:`decode`, from ``position`` on."""
        reader = Reader(data, position)
        value = self.root.decode_from(reader)
        if reader.position != reader.end:
            raise CorruptStreamError(
                f"{reader.end - reader.position} bytes are left after a {self.schema.name}"
            )
        return value
