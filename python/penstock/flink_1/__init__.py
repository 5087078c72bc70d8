"""Names of PyFlink 1 that PyFlink 2 removed, built on their replacements.

A name is imported when a program accesses it.  Its replacement is logged once, when the program
uses it: ``import *`` imports many names that a program does not use.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any, Final

logger = logging.getLogger(__name__)

_NAMES: Final = {
    "BatchTableEnvironment": f"{__name__}.batch_table_environment",
    **dict.fromkeys(
        ("CsvTableSink", "CsvTableSource", "TableSink", "TableSource", "WriteMode"),
        f"{__name__}.table_sources",
    ),
    "ExecutionMode": f"{__name__}.execution_mode",
    "ExternalizedCheckpointCleanup": f"{__name__}.checkpoints",
    **{
        f"FlinkKafka{kind}{version}": f"{__name__}.kafka"
        for kind in ("Consumer", "Producer")
        for version in ("", "010", "011", "Base")
    },
    **dict.fromkeys(
        ("FsStateBackend", "MemoryStateBackend", "RocksDBStateBackend"),
        f"{__name__}.state_backends",
    ),
    "Semantic": f"{__name__}.kafka",
    "SimpleStringEncoder": f"{__name__}.files",
    "TimeCharacteristic": f"{__name__}.time_characteristic",
    **{
        f"{kind}Row{direction}Schema": f"penstock.datastream.formats.{kind.lower()}"
        for kind in ("Avro", "Csv", "Json")
        for direction in ("Deserialization", "Serialization")
    },
}
"""The module of each name."""

_said: set[str] = set()


def say_once(name: str, instead: str) -> None:
    """Log once that a name is of Flink 1, and its replacement.

    Args:
        name: The name as programs write it.
        instead: The replacement, as a clause.
    """
    if name not in _said:
        _said.add(name)
        logger.warning("%s is of Flink 1 and deprecated: %s", name, instead)


def is_used() -> bool:
    """Return whether the program has used a name of Flink 1."""
    return bool(_said)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _NAMES[name]
    if not module.startswith(__name__):
        say_once(name, f"import it from {module}")
    return getattr(import_module(module), name)
