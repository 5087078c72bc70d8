"""All options of penstock, and how one is found by its key."""

from __future__ import annotations

import difflib
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options import (
    adaptive,
    changelog,
    checkpointing,
    cluster,
    file_systems,
    high_availability,
    history,
    metrics,
    network,
    pipeline,
    rest,
    restart_strategy,
    rocksdb,
    security,
    state,
    state_recovery,
    user_code,
)
from penstock.common.options.option import Option

if TYPE_CHECKING:
    from types import ModuleType

SECTIONS: Final[tuple[tuple[str, ModuleType], ...]] = (
    ("Jobs", pipeline),
    ("Restarts", restart_strategy),
    ("Adaptive jobs", adaptive),
    ("State", state),
    ("State in RocksDB", rocksdb),
    ("Checkpoints", checkpointing),
    ("Changelog of state", changelog),
    ("Starting from a savepoint", state_recovery),
    ("File systems", file_systems),
    ("High availability", high_availability),
    ("Cluster", cluster),
    ("Network", network),
    ("Security", security),
    ("REST interface", rest),
    ("History", history),
    ("Metrics", metrics),
    ("User code", user_code),
)
"""The modules that declare options, with their titles in the table."""


def options_of(module: ModuleType) -> list[Option[Any]]:
    """What a module declares, in the order in which it does."""
    return [value for value in vars(module).values() if isinstance(value, Option)]


@cache
def options_by_key() -> dict[str, Option[Any]]:
    """All options by their keys, alternate keys included."""
    return {
        key: option
        for _, module in SECTIONS
        for option in options_of(module)
        for key in option.keys
    }


def nearest_key(key: str) -> str | None:
    """The key of an option that a mistyped key probably means."""
    keys = {option.key.lower(): option.key for option in options_by_key().values()}
    found = difflib.get_close_matches(key.lower(), keys, 1)
    return keys[found[0]] if found else None
