"""Conversions between rows of tables and documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.mongodb.collection import bson_library
from penstock.connectors.mongodb.sink import deletion, upsert
from penstock.connectors.mongodb.values import DocumentReader
from penstock.formats.json_values import plain_json
from penstock.table.connectors.batches import rows_of
from penstock.table.plan.nodes import ADDED
from penstock.table.types.stream_types import type_info_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.table.types import RowType


def document_reader(place: str, row_type: RowType, read: Sequence[int]) -> DocumentReader:
    """Return the function that converts documents to the values of some columns."""
    names, kinds = row_type.field_names(), row_type.field_types()
    return DocumentReader(place, {names[i]: type_info_of(kinds[i]) for i in read})


def bson_id(value: Any) -> Any:
    """Return the value of an ``_id``: an ObjectId for the text of one, as in Flink."""
    object_id = bson_library("connector 'mongodb'").ObjectId
    if isinstance(value, str) and object_id.is_valid(value):
        return object_id(value)
    return plain_json(value)


class RowOperations:
    """Converts record batches to operations: upserts and deletions by the primary key.

    Args:
        row_type: The columns.
        key: The positions of the primary key; empty for new documents only.
    """

    def __init__(self, row_type: RowType, key: Sequence[int]) -> None:
        self._row_type = row_type
        self._names = row_type.field_names()
        self.key = tuple(key)

    def __call__(self, batch: Any) -> Iterator[Any]:
        """Yield an operation for each row."""
        for kind, row in rows_of(batch, self._row_type, named_rows=True):
            document_id = self._id_of(row)
            if kind not in ADDED:
                yield deletion(document_id)
            else:
                fields = zip(self._names, map(plain_json, row), strict=True)
                yield upsert(document_id, dict(fields))

    def _id_of(self, row: Sequence[Any]) -> Any:
        """Return the key's value, the values of several columns by name, or a new ``_id``."""
        match self.key:
            case ():
                place = self._names.index("_id") if "_id" in self._names else None
                given = None if place is None else row[place]
                return (
                    bson_library("connector 'mongodb'").ObjectId()
                    if given is None
                    else bson_id(given)
                )
            case (place,):
                return bson_id(row[place])
        return {self._names[i]: plain_json(row[i]) for i in self.key}
