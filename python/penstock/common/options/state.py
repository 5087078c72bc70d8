"""Options of state backends."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import ChoiceType
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

BACKEND: Final = Option(
    "state.backend.type",
    ChoiceType(
        "hashmap",
        "rocksdb",
        aliases={
            "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory": "hashmap",
            "org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory": "rocksdb",
            "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory": (
                "rocksdb"
            ),
        },
        absent={
            name: f"penstock has no {name} state backend: set hashmap or rocksdb"
            for name in ("forst", "filesystem", "jobmanager")
        },
    ),
    "hashmap",
    "where state is kept while a job runs: in memory, or in RocksDB (`penstock-engine[rocksdb]`)",
    alternate_keys=("state.backend",),
)


def check_rocksdb(configuration: Mapping[str, str]) -> None:
    """Check that the package that the state backend needs is installed.

    Raises:
        ConfigurationError: The package is not installed; the message names the extra.
    """
    if BACKEND.read(configuration) == "rocksdb" and importlib.util.find_spec("rocksdict") is None:
        raise ConfigurationError(
            f"{BACKEND.key} is rocksdb, which needs the package rocksdict, for the driver and all "
            "workers: pip install 'penstock-engine[rocksdb]'"
        )
