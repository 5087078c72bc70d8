"""Checks a configuration before anything starts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options import (
    changelog,
    checkpointing,
    cluster,
    metrics,
    network,
    restart_strategy,
    rocksdb,
    state,
    user_code,
)
from penstock.common.options.flink_keys import is_flink_key, is_of_tables
from penstock.common.options.idle import idle_options
from penstock.common.options.refused import refusal_of
from penstock.common.options.registry import mistyped, nearest_key, options_by_key
from penstock.common.options.s3_settings import S3Settings
from penstock.common.packages.jars import notes_on_jars
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.common.options.option import Option

logger = logging.getLogger(__name__)

_SINKS_NEVER_COMMIT: Final = (
    "sinks commit with checkpoints, which need execution.checkpointing.interval, or at the end of "
    "their input, which never ends"
)

_OVERTAKING_IS_EXACTLY_ONCE: Final = (
    f"barriers overtake data only with {checkpointing.MODE.key} EXACTLY_ONCE"
)

SPARK_PREFIX: Final = "spark."
"""Prefix of Spark's keys."""

PREFIX: Final = "penstock."
"""Prefix of keys that exist only in penstock."""


def check_values(configuration: Mapping[str, str]) -> None:
    """Check only the values of options, also of those that may be overridden later.

    Raises:
        ConfigurationError: A value is invalid; names key and value.
    """
    options = options_by_key()
    for key, text in configuration.items():
        if key in options:
            options[key].parse(text, key)


def check_options(configuration: Mapping[str, str]) -> None:
    """Check that keys are options or the program's own, and that values are valid.

    Raises:
        ConfigurationError: A key misspells an option, or a value is invalid; names key and value.
    """
    check_values(configuration)
    for key, value in configuration.items():
        if key in options_by_key():
            continue
        if refusal := refusal_of(key, value):
            raise ConfigurationError(f"{key}: {value!r}: {refusal}")
        if not is_own(key):
            continue
        nearest = mistyped(key) or (nearest_key(key) if key.startswith(PREFIX) else None)
        if nearest is not None or key.startswith(PREFIX):
            raise no_such_option(key, nearest)
    cluster.check_folders(cluster.TEMPORARY_FOLDERS.read(configuration))
    _check_heartbeats(configuration)
    _check_backoff(configuration)
    _check_debloating(configuration)
    _check_checkpoint_storage(configuration)
    changelog.check_changelog(configuration)
    _check_write_buffers(configuration)
    S3Settings.of(configuration)
    state.check_rocksdb(configuration)
    metrics.reporters_of(configuration, metrics.REPORTERS.read(configuration))
    _check_unaligned(configuration)


def is_own(key: str) -> bool:
    """Return whether a key is an option neither of penstock, nor of Flink, nor of Spark."""
    foreign = key.startswith(SPARK_PREFIX) or is_flink_key(key)
    return not foreign and key not in options_by_key()


def no_such_option(key: str, nearest: str | None = None) -> ConfigurationError:
    """Return the error of a key that is not an option.

    Args:
        key: The key.
        nearest: The option that may be meant.
    """
    hint = f"did you mean {nearest}?" if nearest else "docs/options.md lists all options"
    return ConfigurationError(f"there is no option {key!r}: {hint}")


def _check_write_buffers(configuration: Mapping[str, str]) -> None:
    merged, count = rocksdb.WRITE_BUFFERS_MERGED, rocksdb.WRITE_BUFFER_COUNT
    if not merged.is_set(configuration):
        return
    many = rocksdb.PREDEFINED.read(configuration) == "SPINNING_DISK_OPTIMIZED_HIGH_MEM"
    buffers = 4 if many and not count.is_set(configuration) else count.read(configuration)
    if 1 < merged.read(configuration) >= buffers:
        raise ConfigurationError(
            f"{merged.key} is {merged.read(configuration)}, but of {buffers} write buffers "
            f"({count.key}) only {buffers - 1} can be merged, since one is being filled: set a "
            f"smaller number, or a larger {count.key}"
        )


def warn_of_idle_options(
    configuration: Mapping[str, str], target: str, never_committing: Iterable[str] = ()
) -> None:
    """Log the options that are set without effect: one line for each reason.

    Args:
        configuration: The options, which are already checked.
        target: The target of the job.
        never_committing: The sinks that commit with checkpoints, of an unbounded job that takes
            none.
    """
    options = options_by_key()
    awaiting: dict[str, list[str]] = {}
    if sinks := list(never_committing):
        awaiting[_SINKS_NEVER_COMMIT] = sinks
    for key in sorted(configuration):
        if key in options and options[key].awaits and _deviates(options[key], configuration[key]):
            awaiting.setdefault(options[key].awaits, []).append(key)
    if (
        checkpointing.UNALIGNED.read(configuration)
        and checkpointing.MODE.read(configuration) != "EXACTLY_ONCE"
    ):
        awaiting.setdefault(_OVERTAKING_IS_EXACTLY_ONCE, []).append(checkpointing.UNALIGNED.key)
    for why, idle in idle_options(configuration):
        keys = [
            key
            for option in idle
            for key in option.keys
            if key in configuration and _deviates(option, configuration[key])
        ]
        if keys:
            awaiting[why] = keys
    for why, keys in awaiting.items():
        logger.warning("%s; without effect: %s", why, ", ".join(keys))
    jars = (*user_code.JARS.read(configuration), *user_code.CLASSPATHS.read(configuration))
    for note in notes_on_jars(jars):
        logger.warning("%s", note)
    reporters = metrics.REPORTERS.read(configuration)
    idle_reporters = metrics.idle_reporter_keys(configuration, reporters)
    unknown = [
        key
        for key in sorted(configuration)
        if key not in options and (not metrics.is_reporter_key(key) or key in idle_reporters)
    ]
    spark = [key for key in unknown if key.startswith(SPARK_PREFIX)]
    if spark and target != "spark":
        logger.warning("options of Spark without effect on target %s: %s", target, ", ".join(spark))
    own = [key for key in unknown if is_own(key) and not metrics.is_reporter_key(key)]
    flink = [
        key for key in unknown if key not in spark and key not in own and not is_of_tables(key)
    ]
    if flink:
        logger.warning("options of Flink that have no effect in penstock: %s", ", ".join(flink))
    if own:
        logger.warning(
            "options of neither penstock nor Flink, left to the program: %s",
            ", ".join(key + _hint(key) for key in own),
        )


def _hint(key: str) -> str:
    nearest = nearest_key(key)
    return f" (unless {nearest} is meant)" if nearest else ""


def _deviates(option: Option[Any], text: str) -> bool:
    return bool(option.parse(text) != option.default)


def _check_unaligned(configuration: Mapping[str, str]) -> None:
    where = checkpointing.BARRIER_BUFFER.read(configuration)
    aligns = checkpointing.MODE.read(configuration) == "EXACTLY_ONCE"
    if where != "NONE" and (checkpointing.UNALIGNED.read(configuration) or not aligns):
        raise ConfigurationError(
            f"{checkpointing.BARRIER_BUFFER.key} is {where}, but no data waits for barriers "
            f"with {checkpointing.UNALIGNED.key}, or without {checkpointing.MODE.key} EXACTLY_ONCE"
        )
    if not checkpointing.is_unaligned(configuration):
        return
    concurrent = checkpointing.MAX_CONCURRENT.read(configuration)
    if concurrent > 1:
        raise ConfigurationError(
            f"{checkpointing.MAX_CONCURRENT.key} is {concurrent}, but with "
            f"{checkpointing.UNALIGNED.key} one checkpoint is under way at a time: leave one of "
            "the two out"
        )


def _check_heartbeats(configuration: Mapping[str, str]) -> None:
    interval_ms = cluster.HEARTBEAT_INTERVAL.read(configuration)
    timeout_ms = cluster.HEARTBEAT_TIMEOUT.read(configuration)
    if interval_ms >= timeout_ms:
        raise ConfigurationError(
            f"{cluster.HEARTBEAT_INTERVAL.key} ({interval_ms} ms) must be shorter than "
            f"{cluster.HEARTBEAT_TIMEOUT.key} ({timeout_ms} ms)"
        )


def _check_checkpoint_storage(configuration: Mapping[str, str]) -> None:
    storage, folder = checkpointing.STORAGE, checkpointing.FOLDER
    if storage.read(configuration) == "filesystem" and folder.read(configuration) is None:
        raise ConfigurationError(
            f"{storage.key} is filesystem: set {folder.key} to a directory or URL that all "
            "workers reach"
        )


def _check_backoff(configuration: Mapping[str, str]) -> None:
    initial_ms = restart_strategy.INITIAL_BACKOFF.read(configuration)
    max_ms = restart_strategy.MAX_BACKOFF.read(configuration)
    if max_ms < initial_ms:
        raise ConfigurationError(
            f"{restart_strategy.MAX_BACKOFF.key} ({max_ms} ms) must not be below "
            f"{restart_strategy.INITIAL_BACKOFF.key} ({initial_ms} ms)"
        )


def _check_debloating(configuration: Mapping[str, str]) -> None:
    smallest = network.MIN_SEGMENT_SIZE.read(configuration)
    segment_size = network.SEGMENT_SIZE.read(configuration)
    if network.DEBLOAT_ENABLED.read(configuration) and smallest > segment_size:
        raise ConfigurationError(
            f"{network.MIN_SEGMENT_SIZE.key} ({smallest} bytes) must not be above "
            f"{network.SEGMENT_SIZE.key} ({segment_size} bytes)"
        )
