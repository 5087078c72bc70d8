"""Columns of JSON objects: msgspec decodes exact kinds of values, a column at a time."""

from __future__ import annotations

import decimal
import re
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from penstock.common.values.decoders import json_decoder
from penstock.formats.compiled_schema import CompiledSchema
from penstock.formats.json_members import members_struct
from penstock.table import types
from penstock.table.formats.text_columns import column_of_texts, is_read_from_text
from penstock.table.types.arrow_types import arrow_array, arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

#: A negative zero, whose sign floats keep, but msgspec does not.
_NEGATIVE_ZERO: Final = re.compile(rb"-0[\s,}]")


def _kind(data_type: types.DataType) -> Any:
    """Return the class with which msgspec decodes a type; None if it decodes none exactly."""
    match data_type:
        case types.BooleanType():
            return bool
        case types.IntegralType():
            return int
        case types.FloatType() | types.DoubleType():
            return float
        case types.DecimalType():
            return decimal.Decimal
    return str if is_read_from_text(data_type) else None


class JsonColumns(CompiledSchema):
    """Reads only objects whose members have exactly the kinds of the columns.

    Texts are texts, numbers are numbers, integers have no fraction.  The row reader reads the
    same values, and more: numbers as texts, texts as numbers, and fractions, which it truncates.

    Args:
        row_type: The columns.
        wanted: The positions of the columns to read; the others are NULL.
        between: The character between the date and the time of a timestamp.
        needs_fields: Whether the row reader must handle objects without a wanted member.
    """

    def __init__(
        self, row_type: types.RowType, wanted: Sequence[int], between: str, *, needs_fields: bool
    ) -> None:
        self._row_type = row_type
        self._wanted = frozenset(wanted)
        self._between = between
        self._needs_fields = needs_fields

    def inexact_field(self) -> str | None:
        """Return the name of a wanted column that msgspec cannot decode exactly, or None."""
        for position in sorted(self._wanted):
            field = self._row_type.fields[position]
            if _kind(field.data_type) is None:
                return field.name
        return None

    def read(self, messages: Sequence[bytes]) -> list[pa.Array] | None:
        """Return the columns of objects, one row each; None if the row reader must read them."""
        joined = b"\n".join(messages)
        try:
            # msgspec does not check the texts of members that it skips.
            if not joined.isascii():
                joined.decode()
            if self._has_floats and _NEGATIVE_ZERO.search(joined + b"\n"):
                return None
            rows = list(map(self._decode, messages))
            return [self._column(position, rows) for position in range(len(self._row_type))]
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            return None

    def _column(self, position: int, rows: Sequence[Any]) -> pa.Array:
        import pyarrow as pa

        data_type = self._row_type.fields[position].data_type
        if position not in self._wanted:
            return pa.nulls(len(rows), arrow_type(data_type))
        values = list(map(attrgetter(f"f{position}"), rows))
        if _kind(data_type) is not str:
            return arrow_array(values, data_type)
        return column_of_texts(pa.array(values, pa.string()), data_type, self._between)

    @cached_property
    def _has_floats(self) -> bool:
        return any(_kind(self._row_type.fields[i].data_type) is float for i in self._wanted)

    @cached_property
    def _decode(self) -> Callable[[bytes], Any]:
        members = [
            (position, field.name, _kind(field.data_type))
            for position, field in enumerate(self._row_type)
            if position in self._wanted
        ]
        return json_decoder(members_struct(members, missing_fails=self._needs_fields)).decode
