"""Texts that stand for the keys of rows in state and in exchanges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.record_batches import selected_rows, values_of
from penstock.common.values.number_text import double_text

if TYPE_CHECKING:
    from collections.abc import Sequence

#: For fewer rows, the calls of kernels cost more than they save.
LEAST_ROWS: Final = 16

_encoder: Final = msgspec.json.Encoder(enc_hook=str)

#: Types of which the encoder writes each distinct value.  Nanoseconds have no form in Python.
_DISTINCT: Final = (
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_decimal,
    pa.types.is_time,
    pa.types.is_timestamp,
)

_NESTED: Final = frozenset((list, tuple, dict))

#: With a type: to find one, pyarrow imports pandas.
_OPEN, _CLOSE, _COMMA, _QUOTE, _NOTHING = (
    pa.scalar(text, pa.string()) for text in ("[", "]", ",", '"', "")
)

#: By byte of UTF-8, whether JSON escapes the character.
_ESCAPED: Final = np.zeros(256, bool)
_ESCAPED[[*range(0x20), ord('"'), ord("\\")]] = True


def key_text(values: Sequence[Any]) -> str:
    """Return a text that is equal for equal values: the key of a row in state."""
    for value in values:
        kind = type(value)
        if kind in _NESTED or (kind is float and (not math.isfinite(value) or value == 0)):
            values = [_plain(v) for v in values]
            break
    return _encoder.encode(values).decode()


def _plain(value: Any) -> object:
    """Return a value with texts for NaN and infinity, which the encoder would write as null."""
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else double_text(value)
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value


def key_texts(batch: pa.RecordBatch, keys: Sequence[int]) -> list[str]:
    """Return the key of each row of a batch."""
    if not keys:
        return [""] * batch.num_rows
    if are_groupable([batch.schema.field(key).type for key in keys]):
        # JSON escapes newlines in texts.  Kernels cost more than to encode all rows at once.
        return _encoder.encode_lines(selected_rows(batch, keys)).decode().split("\n")[:-1]
    column = key_column(batch, keys)
    if column is None:
        return texts_of(selected_rows(batch, keys))
    return values_of(column)


def are_groupable(kinds: Sequence[object]) -> bool:
    """Return whether kernels group columns of Arrow types by equal `key_text`."""
    return bool(kinds) and all(
        pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind)
        for kind in kinds
    )


def key_column(batch: pa.RecordBatch, keys: Sequence[int]) -> pa.Array | None:
    """Return the `key_text` of each row as an array of texts.

    Returns:
        None if kernels cannot write a part as the encoder of `key_text` does, such as a float.
    """
    if not keys or batch.num_rows < LEAST_ROWS:
        return None
    parts: list[Any] = []
    for key in keys:
        part = _json_column(batch.column(key))
        if part is None:
            return None
        parts.append(part)
    joined = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _COMMA)
    return pc.binary_join_element_wise(_OPEN, joined, _CLOSE, _NOTHING)


def _json_column(column: pa.Array) -> pa.Array | None:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pc.fill_null(column.cast(pa.string()), "null")
    if pa.types.is_string(kind) and not _has_escaped(column):
        texts = pc.binary_join_element_wise(_QUOTE, column, _QUOTE, _NOTHING)
    elif any(is_kind(kind) for is_kind in _DISTINCT) and getattr(kind, "unit", "") != "ns":
        # Such columns repeat their values, such as the bounds of windows.
        encoded = column.dictionary_encode()
        distinct = [_encoder.encode(value).decode() for value in values_of(encoded.dictionary)]
        texts = pa.array(distinct, pa.string()).take(encoded.indices)
    else:
        return None
    return pc.fill_null(texts, "null") if column.null_count else texts


def _has_escaped(column: pa.Array) -> bool:
    """Return whether JSON escapes a character of an array of texts."""
    _, offsets, data = column.buffers()
    if data is None:
        return False
    bounds = np.frombuffer(offsets, np.int32)[[column.offset, column.offset + len(column)]]
    codes = np.frombuffer(data, np.uint8)[bounds[0] : bounds[1]]
    return bool(_ESCAPED[codes].any())


def texts_of(keys: Sequence[tuple[object, ...]]) -> list[str]:
    """Return the `key_text` of each key; equal ones are encoded once."""
    texts: dict[tuple[Any, ...], str] = {}
    found = []
    try:
        for values in keys:
            text = texts.get(values)
            if text is None:
                text = texts[values] = key_text(values)
            found.append(text)
    except TypeError:  # a part cannot be hashed
        return [key_text(values) for values in keys]
    return found
