"""Split of a configuration into the cluster's part and a job's part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.options.metrics import is_reporter_key
from penstock.common.options.registry import options_by_key
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_of_cluster(key: str) -> bool:
    """Return whether a key is an option of the cluster, or of a metrics reporter."""
    option = options_by_key().get(key)
    return is_reporter_key(key) if option is None else option.scope == "cluster"


def job_part(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the part that a job may set; the rest is set by the cluster."""
    return {key: text for key, text in configuration.items() if not is_of_cluster(key)}


def check_job(configuration: Mapping[str, str], running: Mapping[str, str]) -> None:
    """Check that a job sets no cluster option to another value than the running cluster.

    Args:
        configuration: The job's configuration.
        running: The cluster's configuration.

    Raises:
        ConfigurationError: The job sets such an option; the message names it, and both values.
    """
    options = options_by_key()
    others = []
    for key, text in sorted(configuration.items()):
        if not is_of_cluster(key):
            continue
        option = options.get(key)
        if option is None:
            differs, found = running.get(key) != text, running.get(key, "not set")
        else:
            # Options by effect: a key may be set beside an older key of the same option.
            differs = option.read(configuration) != option.read(running)
            found = next((running[name] for name in option.keys if name in running), "not set")
        if differs:
            others.append(f"{key} (the job: {text!r}, the cluster: {found!r})")
    if others:
        raise ConfigurationError(
            "these options belong to the cluster, which is already running: "
            + ", ".join(others)
            + "; leave them out of the job, or set them where the cluster is started"
        )
