"""Changes of rows, converted to Redis commands: a hash for each key."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.composite_types import RowTypeInfo
from penstock.common.record_types import as_row_type
from penstock.common.time import Instant
from penstock.common.values.instant_text import instant_text
from penstock.connectors.change_rows import ChangeKey, is_deletion
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.json_values import field_values, plain_json
from penstock.formats.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class RedisHashes:
    """Converts changes of rows to commands on hashes.

    Args:
        schema: The type of the rows.
        key: The key columns.
        prefix: The prefix of the Redis keys.

    Raises:
        InvalidProgramError: The schema is not a row type, or lacks a key column.
    """

    def __init__(self, schema: Any, key: Sequence[str], prefix: str) -> None:
        row_type = as_row_type(schema)
        if not isinstance(row_type, RowTypeInfo):
            raise InvalidProgramError(f"RedisSink.upsert takes a row type, got {schema!r}")
        self._names = row_type.get_field_names()
        self._prefix = prefix
        self.key = ChangeKey("RedisSink.upsert", key, self._names)

    def commands(self, key: Sequence[Any], element: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the commands for a row; repeating them changes nothing.

        Args:
            key: The values of the key columns.
            element: The row.

        Raises:
            FormatError: The row lacks a column.
        """
        *before, last = (str(_text(part)) for part in key)
        name = self._prefix + "".join(f"{_escaped(part)}:" for part in before) + last
        if is_deletion(element):
            yield "DEL", name
            return
        try:
            values = field_values(element, self._names)
        except Misfit as misfit:
            raise FormatError(f"RedisSink: {misfit}") from None
        pairs = list(zip(self._names, values, strict=True))
        # The key columns are not None, so there is a field to set.  It is set before others are
        # deleted: a reader never finds the hash empty.
        yield "HSET", name, *(part for k, v in pairs if v is not None for part in (k, _text(v)))
        missing = [k for k, v in pairs if v is None]
        if missing:
            yield "HDEL", name, *missing


def _escaped(text: str) -> str:
    """Return a part of a name without a colon, so that different keys have different names."""
    return text.replace("%", "%25").replace(":", "%3A")


def _text(value: Any) -> str | bytes | int | float:
    """Return a value as Redis stores it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Instant):
        return instant_text(value)
    plain = plain_json(value)
    if isinstance(plain, dict | list):
        return msgspec.json.encode(plain, enc_hook=_text).decode()
    return str(value)
