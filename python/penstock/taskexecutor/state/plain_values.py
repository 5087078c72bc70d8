"""Conversion of state values to values that need no user class."""

from __future__ import annotations

import dataclasses
from typing import Any

from penstock.common.types import Row
from penstock.taskexecutor.state.time_to_live import Aged


def plain(value: Any) -> Any:
    """Convert a value to classes that Arrow knows.

    Rows, dataclasses and tuples become dictionaries, dictionaries become lists of their pairs, and
    windows their start and end.
    """
    if isinstance(value, Aged):
        return plain(value.value)
    if isinstance(value, Row):
        names = value._field_names() or [f"f{i}" for i in range(len(value))]
        return {name: plain(field) for name, field in zip(names, value, strict=True)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None) or [f"f{i}" for i in range(len(value))]
        return {name: plain(field) for name, field in zip(names, value, strict=True)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, dict):
        return [{"key": plain(key), "value": plain(held)} for key, held in value.items()]
    if isinstance(value, (list, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "max_timestamp") and hasattr(value, "start"):
        return {"start": value.start, "end": value.end}
    return value
