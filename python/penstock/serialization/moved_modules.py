"""Modules that were moved, by their former names in checkpoints and savepoints.

A stored value names the module of its class.  This table holds modules whose classes checkpoints
may contain: splits of sources, enumerator state, and committables.
"""

from __future__ import annotations

from typing import Final

_CONNECTORS: Final = "penstock.datastream.connectors"
_PACKAGES: Final = {
    f"{_CONNECTORS}.delta": "penstock.connectors.delta",
    f"{_CONNECTORS}.dynamic_kafka": "penstock.connectors.dynamic_kafka",
    f"{_CONNECTORS}.file_system": "penstock.connectors.files",
    f"{_CONNECTORS}.iceberg": "penstock.connectors.iceberg",
    f"{_CONNECTORS}.kafka": "penstock.connectors.kafka",
    f"{_CONNECTORS}.mqtt": "penstock.connectors.mqtt",
    f"{_CONNECTORS}.postgres_cdc": "penstock.connectors.postgres_cdc",
    f"{_CONNECTORS}.rabbitmq": "penstock.connectors.rabbitmq",
    "penstock.datastream.formats": "penstock.formats",
}
"""Packages all of whose modules were moved."""

_MODULES: Final = {
    f"{_CONNECTORS}.committer": "penstock.connectors.committer",
    f"{_CONNECTORS}.http_source": "penstock.connectors.http.source",
    f"{_CONNECTORS}.hybrid_splits": "penstock.connectors.hybrid.splits",
    f"{_CONNECTORS}.messages": "penstock.connectors.messages",
    f"{_CONNECTORS}.queues": "penstock.connectors.queues",
    f"{_CONNECTORS}.single_split": "penstock.connectors.single_split",
    f"{_CONNECTORS}.split_source": "penstock.connectors.split_source",
    "penstock.taskexecutor.sinks.part_file": "penstock.connectors.files.part_file",
    "penstock.taskexecutor.sources.file_splits": "penstock.connectors.files.splits",
}


def present_name(module: str) -> str:
    """Return the current name of a module, which is the given name if it was not moved."""
    package, _, name = module.rpartition(".")
    moved = _PACKAGES.get(package)
    return _MODULES.get(module, module) if moved is None else f"{moved}.{name}"
