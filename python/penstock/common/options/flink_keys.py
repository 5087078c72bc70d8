"""Options that Flink 2.3 has and penstock does not have, without effect here.

They concern things that do not exist here (a JVM's memory, YARN, Kubernetes, tables) or how Flink
works internally, not the results of a job: they are ignored with a warning.  `refused` has the
options that would change a job's results.
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
    "sql-client.", "sql-gateway.", "akka.", "pekko.", "zookeeper.",
)  # fmt: skip
"""Prefixes of keys that hold a name of the user's choice, or belong to another system."""

_OF_TABLES: Final = frozenset(
    {
        "table.builtin-catalog-name",
        "table.builtin-database-name",
        "table.display.max-column-width",
        "table.dml-sync",
        "table.dynamic-table-options.enabled",
        "table.exec.legacy-cast-behaviour",
        "table.exec.mini-batch.enabled",
        "table.exec.resource.default-parallelism",
        "table.exec.sink.not-null-enforcer",
        "table.exec.source.idle-timeout",
        "table.exec.state.ttl",
        "table.exec.uid.generation",
        "table.local-time-zone",
        "table.optimizer.agg-phase-strategy",
        "table.optimizer.reuse-source-enabled",
        "table.optimizer.reuse-sub-plan-enabled",
        "table.plan.compile.catalog-objects",
        "table.plan.force-recompile",
        "table.plan.restore.catalog-objects",
    }
)
"""Options that have an effect on tables, and none on streams."""


def is_flink_key(key: str) -> bool:
    """Return whether Flink has an option with that key, and penstock does not."""
    return key in flink_keys() or key.startswith(_FAMILIES)


def flink_keys() -> frozenset[str]:
    """Return the keys of all options that Flink has and penstock does not have."""
    return meaningless_keys() | refused_keys()


def is_of_tables(key: str) -> bool:
    """Return whether a key is an option that tables read; `penstock.table` checks its value."""
    return key in _OF_TABLES


@cache
def meaningless_keys() -> frozenset[str]:
    """Return the keys of Flink's options without effect on a job's results, older ones included."""
    path = Path(__file__).with_name("meaningless_keys.txt")
    return frozenset(path.read_text("utf-8").split())
