"""raw: unchanged messages in the single column of a table."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.errors import FormatError
from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.formats.row_format import KindedRow, RowFormat
from penstock.table.options.connector_options import OptionSpec, choice, text
from penstock.table.plan.nodes import INSERT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_CODES: Final[dict[type[types.DataType], str]] = {
    types.TinyIntType: "b",
    types.SmallIntType: "h",
    types.IntType: "i",
    types.BigIntType: "q",
    types.FloatType: "f",
    types.DoubleType: "d",
    types.BooleanType: "?",
}


class RawFormat(RowFormat):
    """Messages in one column: texts, bytes, numbers or booleans."""

    identifier = "raw"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "charset": OptionSpec(text, "UTF-8"),
        "endianness": OptionSpec(choice("big-endian", "little-endian"), "big-endian"),
    }

    def __init__(self, row_type: types.RowType, options: Mapping[str, Any]) -> None:
        super().__init__(row_type, options)
        if len(row_type) != 1:
            raise ValidationException(
                "The format 'raw' has exactly one physical column, the table has "
                f"{len(row_type)}: {', '.join(row_type.field_names())}"
            )
        kind = row_type.field_types()[0]
        self._charset: str = options["charset"]
        self._is_text = isinstance(kind, (types.CharType, types.VarCharType))
        self._is_bytes = isinstance(kind, (types.BinaryType, types.VarBinaryType))
        code = _CODES.get(type(kind))
        if code is None and not self._is_text and not self._is_bytes:
            raise ValidationException(f"The format 'raw' has no {kind.summary()}")
        order = ">" if options["endianness"] == "big-endian" else "<"
        self._layout = f"{order}{code or 'b'}"

    def decode(self, message: bytes) -> Iterable[KindedRow]:
        """Return the row of a message."""
        if self._is_bytes:
            return ((INSERT, (message,)),)
        try:
            if self._is_text:
                return ((INSERT, (message.decode(self._charset),)),)
            return ((INSERT, struct.unpack(self._layout, message)),)
        except (UnicodeDecodeError, struct.error) as error:
            raise FormatError(f"Invalid raw message {message!r:.200}: {error}") from None

    def encode(self, kind: int, row: Sequence[Any]) -> bytes:
        """Return the message of a row; empty for NULL."""
        del kind
        (value,) = row
        if value is None:
            return b""
        if self._is_bytes:
            return bytes(value)
        return value.encode(self._charset) if self._is_text else struct.pack(self._layout, value)
