"""Options that Flink 2.3 has and penstock has not.

Most are about what does not exist here (a JVM's memory, YARN, RocksDB's tuning, tables): they are
ignored with a warning.  Some ask for something without which a job would do another thing than
its author wants: they are refused.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

_FAMILIES: Final = (
    "metrics.reporter.", "metrics.scope.", "traces.reporter.", "events.reporter.",
    "external-resource.", "security.delegation.token.provider.", "security.kerberos.",
    "env.", "containerized.", "flink.hadoop.", "flink.yarn.", "kubernetes.", "yarn.",
    "fs.", "gs.", "oss.", "azure.", "hive.", "table.", "akka.", "zookeeper.",
)  # fmt: skip
"""What keys begin with that hold a name of the user's choice, or are another system's."""

_NO_JAVA: Final = "penstock runs no Java classes: ship Python modules with add_python_file"


REFUSED: Final = {
    "execution.checkpointing.interval-during-backlog": (
        "no source tells that it works off a backlog, so that checkpoints keep their interval: "
        "set execution.checkpointing.interval"
    ),
    "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file": (
        "each subtask writes what was in flight to a file of its own; leave the option out"
    ),
    "fs.default-scheme": "a path without a scheme is one of the machine: write URLs as a whole",
    "state.backend.rocksdb.options-factory": (
        f"{_NO_JAVA}; set the options of RocksDB, or state.backend.rocksdb.predefined-options"
    ),
}
"""Keys that are errors, with why."""


_REFUSED_FAMILIES: Final = ("s3.", "s3a.", "fs.s3.", "fs.s3a.")
"""What the keys of options begin with that would change how files are reached."""


def refusal_of(key: str) -> str | None:
    """Why a key is refused that no option has; None when it is not."""
    if key.startswith(_REFUSED_FAMILIES):
        return (
            "penstock reaches S3 by pyarrow, which has no such setting: docs/options.md lists "
            "what there is (s3.endpoint, s3.region, s3.access-key, …)"
        )
    return REFUSED.get(key)


def is_flink_key(key: str) -> bool:
    """Whether Flink has an option of that key."""
    return key in _keys() or key.startswith(_FAMILIES)


@cache
def _keys() -> frozenset[str]:
    return frozenset(Path(__file__).with_name("flink_keys.txt").read_text("utf-8").split())
