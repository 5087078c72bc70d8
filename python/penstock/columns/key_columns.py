"""The columns that make up the key of a record, and the hash of such keys.

A key has the same hash as an object and in columns, so it belongs to the same key group.
``penstock.serialization.pure.key_hash`` has the table of hashes.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock import network
from penstock.columns.batch_schema import fields_of
from penstock.formats.arrow_columns import column_values
from penstock.serialization.pure.key_hash import key_hash, signed32

if TYPE_CHECKING:
    from penstock.columns.column_batch import ColumnBatch
    from penstock.common.typeinfo import TypeInformation

#: Declared kinds of keys whose hash depends on the declaration.
_BY_DECLARATION: Final = frozenset({"LONG", "FLOAT", "DOUBLE", "BOOLEAN"})


@dataclass(frozen=True)
class KeyColumns:
    """The fields of a record that form its key.

    Attributes:
        positions: The positions of the fields.
        is_tuple: True if the key is a tuple or a row of the fields; else it is the single value.
        kind: The declared kind of the key, as in ``KeyType``; None if it is undeclared or a tuple.
    """

    positions: tuple[int, ...]
    is_tuple: bool = False
    kind: str | None = None

    def __post_init__(self) -> None:
        """Check the parts.

        Raises:
            ValueError: The fields do not form a key.
        """
        if not self.is_tuple and len(self.positions) != 1:
            raise ValueError(f"a key of one value of {len(self.positions)} fields")
        if self.is_tuple and self.kind is not None:
            raise ValueError("the hash of a tuple depends on its values alone")


def key_hashes(batch: ColumnBatch, key: KeyColumns) -> array[int]:
    """Return the canonical hash of each record's key: signed, of 32 bits.

    Raises:
        SerializationError: A key cannot be serialised.
    """
    fields = fields_of(batch.declared)
    hashes = array("i", bytes(4 * len(batch)))
    if network.runtime() == "native":
        for position in key.positions:
            declared = fields[position][1]
            column, form = _hashed_form(batch.column(position), declared, key.kind)
            _native().hash_column(column, form, hashes, key.is_tuple)
        return hashes
    hash_of = key_hash(key.kind)
    columns = [column_values(batch.column(at), fields[at][1]) for at in key.positions]
    for i, values in enumerate(zip(*columns, strict=True)):
        hashes[i] = hash_of(values if key.is_tuple else values[0])
    return hashes


def json_hashes(columns: list[Any]) -> array[int] | None:
    """Return the canonical hashes of texts: JSON lists of an item of each column.

    Args:
        columns: Arrow arrays of equal length, at least one.

    Returns:
        None without a native loop for the types, or for characters of a text.
    """
    import pyarrow as pa
    import pyarrow.types as at

    if network.runtime() != "native":
        return None
    forms = []
    for column in columns:
        if at.is_signed_integer(column.type):
            forms.append(column if at.is_int64(column.type) else column.cast(pa.int64()))
        elif at.is_string(column.type):
            forms.append(column)
        else:
            return None
    hashes = array("i", bytes(4 * len(columns[0])))
    return hashes if _native().hash_json(forms, hashes) else None


def _native() -> Any:
    from penstock._native.keys import column_hash

    return column_hash


def _hashed_form(column: Any, declared: TypeInformation, kind: str | None) -> tuple[Any, str]:
    """Return a column in one of the forms that the native loops hash, and the form's name."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as at

    of = column.type
    if kind not in _BY_DECLARATION:
        kind = None
    if at.is_boolean(of) and kind in (None, "BOOLEAN"):
        codes = pc.if_else(column, pa.scalar(1231, pa.int64()), pa.scalar(1237, pa.int64()))
        return codes, "integers"
    if at.is_signed_integer(of) and kind in (None, "LONG"):
        form = "integers" if kind is None else "longs"
        return (column if at.is_int64(of) else column.cast(pa.int64())), form
    if at.is_floating(of) and not at.is_float16(of) and kind in (None, "DOUBLE"):
        return (column if at.is_float64(of) else column.cast(pa.float64())), "doubles"
    if at.is_float32(of) and kind == "FLOAT":
        return column, "floats"
    if at.is_string(of) and kind is None:
        return column, "texts"
    if at.is_binary(of) and kind is None:
        return column, "bytes"
    return _by_value(column, declared, kind), "integers"


def _by_value(column: Any, declared: TypeInformation, kind: str | None) -> Any:
    """Return the hashes of a column of any type, each of its distinct values hashed once."""
    import pyarrow as pa
    import pyarrow.types as at

    hash_of = key_hash(kind)
    if at.is_nested(column.type):
        hashes = [hash_of(value) for value in column_values(column, declared)]
        return pa.array(hashes, pa.int64())
    encoded = column.dictionary_encode()
    values = column_values(encoded.dictionary, declared)
    return pa.array([signed32(hash_of(value)) for value in values], pa.int64()).take(
        encoded.indices
    )
