"""Accumulators of a job: the values of its subtasks, merged by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import JobExecutionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def merge_accumulators(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Adds numbers, joins lists and texts in order, and merges dicts key by key.

    Raises:
        JobExecutionError: two subtasks use one name for values of different kinds.
    """
    merged: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            merged[name] = _merge(name, merged[name], value) if name in merged else value
    return merged


def _merge(name: str, one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        joined = dict(one)
        for key, value in other.items():
            joined[key] = _merge(name, joined[key], value) if key in joined else value
        return joined
    try:
        return one + other
    except TypeError:
        raise JobExecutionError(
            f"accumulator {name!r} is a {type(one).__name__} in one subtask and "
            f"a {type(other).__name__} in another"
        ) from None
