"""Conversion of text columns to columns of other types: by Arrow's kernels, or value by value."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.formats import scalar_text
from penstock.table.types.arrow_types import arrow_array, arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

#: The years of Python's dates; Arrow also accepts the year 0.
_DATE: Final = r"(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-\d\d-\d\d"

_TIMESTAMPS: Final = (types.TimestampType, types.LocalZonedTimestampType)


def is_read_from_text(data_type: types.DataType) -> bool:
    """Return whether `column_of_texts` supports a type."""
    return isinstance(data_type, _TIMESTAMPS) or type(data_type) in scalar_text.READERS


def column_of_texts(texts: pa.Array, data_type: types.DataType, between: str = " ") -> pa.Array:
    """Parse the values of a text column.

    Args:
        texts: An array of strings.
        data_type: The type of the values, which is not nested.
        between: The character between the date and the time of a timestamp.

    Raises:
        ValueError: A text is not a value of the type.
    """
    if isinstance(data_type, (types.CharType, types.VarCharType)):
        return texts
    pattern = _pattern(data_type, between)
    if pattern is not None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False:
            if isinstance(data_type, types.BooleanType):
                return pc.equal(pc.ascii_lower(texts), "true")
            try:
                return texts.cast(arrow_type(data_type))
            except pa.ArrowInvalid:
                pass  # The value reader explains the error, or accepts what Arrow does not.
    read = _reader(data_type, between)
    values = [None if text is None else read(text) for text in texts.to_pylist()]
    return arrow_array(values, data_type)


def _pattern(data_type: types.DataType, between: str) -> str | None:
    """Return the pattern of texts that Arrow reads like `scalar_text`; None without one."""
    if isinstance(data_type, types.BooleanType):
        return "^(?i:true|false)$"
    if isinstance(data_type, types.DateType):
        return f"^{_DATE}$"
    if not isinstance(data_type, _TIMESTAMPS) or data_type.precision > 6:
        return None  # Arrow's nanoseconds do not cover all years
    digits = 3 if data_type.precision <= 3 else 6
    zone = "Z" if isinstance(data_type, types.LocalZonedTimestampType) else ""
    return rf"^{_DATE}{between}\d\d:\d\d:\d\d(?:\.\d{{1,{digits}}})?{zone}$"


def _reader(data_type: types.DataType, between: str) -> Callable[[str], Any]:
    if isinstance(data_type, types.TimestampType):
        return partial(scalar_text.timestamp_of, between=between)
    if isinstance(data_type, types.LocalZonedTimestampType):
        return partial(scalar_text.instant_of, between=between)
    read = scalar_text.READERS[type(data_type)]
    return lambda text: read(text, data_type)
