"""All options of penstock, and their lookup by key."""

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
from penstock.common.options.flink_keys import flink_keys
from penstock.common.options.option import Option

if TYPE_CHECKING:
    from types import ModuleType

_SURELY: Final = 0.8
"""Minimum similarity of a key and an option's key that counts as a misspelling."""

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
    """Return the options that a module declares, in their order."""
    return [value for value in vars(module).values() if isinstance(value, Option)]


@cache
def options_by_key() -> dict[str, Option[Any]]:
    """Return all options by their keys, alternate keys included."""
    return {
        key: option
        for _, module in SECTIONS
        for option in options_of(module)
        for key in option.keys
    }


def mistyped(key: str) -> str | None:
    """Return the option that an unknown key certainly misspells; None if there is none."""
    begun = [one for one in options_by_key() if one.startswith(f"{key}.")]
    if len(begun) == 1:
        return begun[0]
    if "." in key:
        for one in options_by_key():
            if one.endswith(f".{key}"):
                return one
    names = {one.lower(): one for one in (*options_by_key(), *flink_keys())}
    found = difflib.get_close_matches(key.lower(), names, 1, _SURELY)
    return names[found[0]] if found else None


def nearest_key(key: str) -> str | None:
    """Return the key of an option that a mistyped key probably means."""
    keys = {option.key.lower(): option.key for option in options_by_key().values()}
    found = difflib.get_close_matches(key.lower(), keys, 1)
    return keys[found[0]] if found else None
