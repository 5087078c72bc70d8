"""Options of the changelog of state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    BooleanType,
    ChoiceType,
    DurationType,
    FolderType,
    IntegerType,
)
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.options.value_types import ValueType

T = TypeVar("T")


def _changelog(name: str, value_type: ValueType[T], default: T, meaning: str) -> Option[T]:
    return Option(
        f"state.changelog.{name}",
        value_type,
        default,
        meaning,
        alternate_keys=(f"state.backend.changelog.{name}",),
    )


def _dstl(name: str, value_type: ValueType[T], default: T, meaning: str) -> Option[T]:
    return Option(
        f"state.changelog.dstl.dfs.{name}",
        value_type,
        default,
        meaning,
        alternate_keys=(f"dstl.dfs.{name}",),
    )


ENABLED: Final = _changelog(
    "enabled",
    BooleanType(),
    False,
    "let checkpoints write a log of changes, and write full snapshots of keyed state beside "
    "them; see [A log of changes](checkpoints.md#a-log-of-changes)",
)
STORAGE: Final = _changelog(
    "storage",
    ChoiceType("memory", "filesystem"),
    "memory",
    "where the log is: with the metadata of checkpoints, or in files",
)
MATERIALIZE: Final = _changelog(
    "periodic-materialize.enabled",
    BooleanType(),
    True,
    "write a full snapshot of keyed state periodically, so that the log starts again",
)
MATERIALIZE_INTERVAL: Final = _changelog(
    "periodic-materialize.interval", DurationType(1), 600_000, "interval of full snapshots"
)
MAX_FAILURES: Final = _changelog(
    "max-failures-allowed",
    IntegerType(0),
    3,
    "number of full snapshots in a row that may fail before the task does",
)
BASE_PATH: Final[Option[str | None]] = _dstl(
    "base-path", FolderType(), None, "directory of the files of the log"
)
COMPRESSION: Final = _dstl("compression.enabled", BooleanType(), False, "compress the log by zlib")
RETRY_POLICY: Final = _dstl(
    "upload.retry-policy",
    ChoiceType("fixed", "none"),
    "fixed",
    "whether a failed write of the log is retried",
)
MAX_ATTEMPTS: Final = _dstl(
    "upload.max-attempts", IntegerType(1), 3, "number of attempts to write a part of the log"
)
ATTEMPT_DELAY: Final = _dstl(
    "upload.next-attempt-delay", DurationType(), 500, "delay between two attempts"
)


_ABSENT: Final = (
    "preemptive-persist-threshold",
    "batch.",
    "upload.",
    "discard.",
    "download.",
)
"""Prefixes of Flink's other options for log files."""


def check_changelog(configuration: Mapping[str, str]) -> None:
    """Check that the changelog has a folder, and only supported settings.

    Raises:
        ConfigurationError: It has no folder, or a setting is not supported.
    """
    if not ENABLED.read(configuration):
        return
    known = {key for option in (RETRY_POLICY, MAX_ATTEMPTS, ATTEMPT_DELAY) for key in option.keys}
    for key in sorted(configuration.keys() - known):
        _, is_of_log, name = key.rpartition("dstl.dfs.")
        if is_of_log and name.startswith(_ABSENT):
            raise ConfigurationError(
                f"{key} has no effect: each task writes its changes when a checkpoint begins, in "
                "one piece and by one thread, and nothing ahead of it; leave the option out"
            )
    if STORAGE.read(configuration) != "filesystem":
        return
    if not BASE_PATH.read(configuration):
        raise ConfigurationError(
            f"{STORAGE.key} is filesystem: set {BASE_PATH.key} to a directory or URL that all "
            "workers reach"
        )
