"""The options of the control plane, read once and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError
from penstock.jobmaster.durations import parse_duration_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

DURATION_KEYS = (
    "taskmanager.slot.timeout",
    "task.cancellation.interval",
    "task.cancellation.timeout",
    "security.ssl.internal.handshake-timeout",
    "taskmanager.network.memory.buffer-debloat.target",
    "taskmanager.network.memory.buffer-debloat.period",
)
"""Durations that reach the TaskExecutors; normalised here, so that they need no parser."""

FLAG_KEYS = (
    "taskmanager.network.memory.buffer-debloat.enabled",
    "taskmanager.network.same-host.enabled",
)
"""Booleans that reach the TaskExecutors; normalised here to "true" or "false"."""


@dataclass(frozen=True)
class ClusterSettings:
    """Options of one cluster; all durations in milliseconds.

    Attributes:
        slots_per_executor: ``taskmanager.numberOfTaskSlots``; None when it was not set: see
            ``worker_sizes`` in `penstock.jobmaster.resource_manager`.
        slot_request_timeout_ms: ``slot.request.timeout``.
        heartbeat_interval_ms: ``heartbeat.interval``.
        heartbeat_timeout_ms: ``heartbeat.timeout``.
        shutdown_grace_ms: ``cluster.shutdown.grace``: time that workers get to end by themselves,
            and a cancelled job to be cancelled, before workers are killed.
        bind_host: ``jobmanager.bind-host``.
        tls_enabled: ``security.ssl.internal.enabled``: the data plane's connections between hosts
            are encrypted.
        runtime: ``penstock.runtime``, "native" or "pure"; that of the driver when not set.
        temp_dirs: ``io.tmp.dirs``: folders for what exceeds memory; the system's, or Spark's, when
            there are none.
    """

    slots_per_executor: int | None
    slot_request_timeout_ms: int
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    shutdown_grace_ms: int
    bind_host: str
    tls_enabled: bool
    runtime: str
    temp_dirs: tuple[str, ...]

    @staticmethod
    def from_configuration(configuration: Mapping[str, str]) -> ClusterSettings:
        """Reads the options.

        Raises:
            ConfigurationError: a value is malformed; names key and value.
        """
        from penstock.network import runtime

        settings = ClusterSettings(
            slots_per_executor=_positive(configuration, "taskmanager.numberOfTaskSlots"),
            slot_request_timeout_ms=_duration(configuration, "slot.request.timeout", 300_000),
            heartbeat_interval_ms=_duration(configuration, "heartbeat.interval", 10_000),
            heartbeat_timeout_ms=_duration(configuration, "heartbeat.timeout", 50_000),
            shutdown_grace_ms=_duration(configuration, "cluster.shutdown.grace", 5_000),
            bind_host=configuration.get("jobmanager.bind-host", "127.0.0.1"),
            tls_enabled=_flag(configuration, "security.ssl.internal.enabled", default=False),
            runtime=configuration.get("penstock.runtime") or runtime(),
            temp_dirs=tuple(filter(None, re.split(r"[,:|]", configuration.get("io.tmp.dirs", "")))),
        )
        if settings.runtime not in ("native", "pure"):
            raise ConfigurationError(
                f"penstock.runtime is 'native' or 'pure', not {settings.runtime!r}"
            )
        if settings.heartbeat_interval_ms >= settings.heartbeat_timeout_ms:
            raise ConfigurationError(
                f"heartbeat.interval ({settings.heartbeat_interval_ms} ms) must be shorter than "
                f"heartbeat.timeout ({settings.heartbeat_timeout_ms} ms)"
            )
        return settings


def worker_configuration(configuration: Mapping[str, str]) -> dict[str, str]:
    """The configuration as TaskExecutors get it: durations as whole milliseconds, flags checked.

    Raises:
        ConfigurationError: a value is malformed; names key and value.
    """
    result = dict(configuration)
    for key in DURATION_KEYS:
        if key in result:
            result[key] = str(_duration(configuration, key, 0))
    for key in FLAG_KEYS:
        if key in result:
            result[key] = "true" if _flag(configuration, key, default=False) else "false"
    return result


def _duration(configuration: Mapping[str, str], key: str, default_ms: int) -> int:
    text = configuration.get(key)
    return default_ms if text is None else parse_duration_ms(text, key)


def _flag(configuration: Mapping[str, str], key: str, *, default: bool) -> bool:
    text = configuration.get(key)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise ConfigurationError(f"{key} is true or false, not {text!r}")
    return text.lower() == "true"


def _positive(configuration: Mapping[str, str], key: str) -> int | None:
    text = configuration.get(key)
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ConfigurationError(f"{key} must be a whole number from 1, not {text!r}")
    return value
