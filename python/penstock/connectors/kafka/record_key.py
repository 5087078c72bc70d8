"""Keys of change rows on their way to a topic."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.common.serialization import SerializationSchema
from penstock.common.types import Row
from penstock.connectors.change_rows import ChangeKey
from penstock.errors import FormatError


class RecordKey(ChangeKey):
    """Reads the key columns of change rows, for a schema of keys."""

    def row(self, element: Any) -> Row:
        """Return the key as a row."""
        made = Row(*self(element))
        made.set_field_names(self.names)
        return made

    def as_json(self) -> SerializationSchema:
        """Return the schema that serializes the key as a JSON object."""
        return _JsonKey(self.names)


class _JsonKey(SerializationSchema):
    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._names = names

    def serialize(self, value: Any) -> bytes:
        """Return the JSON object.

        Raises:
            FormatError: A value has no form in JSON.
        """
        try:
            return msgspec.json.encode(dict(zip(self._names, value, strict=True)))
        except TypeError as error:
            raise FormatError(
                f"set_upsert_key: {error} in the key {tuple(value)!r:.200}; call "
                "set_key_serialization_schema with a schema that can write it"
            ) from None
