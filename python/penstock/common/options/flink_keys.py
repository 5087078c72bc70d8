"""Options that Flink 2.3 has and penstock has not, and that mean nothing here.

They are about what does not exist here (a JVM's memory, YARN, Kubernetes, tables) or about how
Flink goes about its work, not about what a job does: they are ignored with a warning.
`refused` has those under which a job would do something else.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from penstock.common.options.refused import refused_keys

_FAMILIES: Final = (
    "$internal.", "internal.", "metrics.reporter.", "traces.reporter.", "events.reporter.",
    "external-resource.", "security.delegation.token.provider.", "env.", "containerized.",
    "flink.hadoop.", "flink.yarn.", "kubernetes.", "yarn.", "fs.", "gs.", "oss.", "azure.", "hive.",
    "table.", "sql-client.", "sql-gateway.", "akka.", "pekko.", "zookeeper.",
)  # fmt: skip
"""Prefixes of keys that hold a name of the user's choice, or belong to another system."""


def is_flink_key(key: str) -> bool:
    """Return whether Flink has an option of that key, and penstock has none."""
    return key in flink_keys() or key.startswith(_FAMILIES)


def flink_keys() -> frozenset[str]:
    """Return the keys of all options that Flink has and penstock has not."""
    return meaningless_keys() | refused_keys()


@cache
def meaningless_keys() -> frozenset[str]:
    """Return the keys of Flink's options without effect on what a job does, older ones included."""
    path = Path(__file__).with_name("meaningless_keys.txt")
    return frozenset(path.read_text("utf-8").split())
