"""Conversion of state values to values that need no user class."""

from __future__ import annotations

from enum import Enum
from typing import Any

from penstock.common.types import Row
from penstock.common.values.records import names_in
from penstock.taskexecutor.state.time_to_live import Aged


def plain(value: Any) -> object:
    """Convert a value to classes that Arrow knows.

    Rows, records and tuples become dictionaries, dictionaries become lists of their pairs, members
    of enums their values, and windows their start and end.
    """
    if isinstance(value, Aged):
        return plain(value.value)
    if isinstance(value, Row):
        names = value._field_names() or [f"f{i}" for i in range(len(value))]
        return {name: plain(field) for name, field in zip(names, value, strict=True)}
    fields = names_in(value)
    if isinstance(value, tuple):
        fields = fields or tuple(f"f{i}" for i in range(len(value)))
        return {name: plain(field) for name, field in zip(fields, value, strict=True)}
    if fields is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, dict):
        return [{"key": plain(key), "value": plain(held)} for key, held in value.items()]
    if isinstance(value, (list, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "max_timestamp") and hasattr(value, "start"):
        return {"start": value.start, "end": value.end}
    return value
