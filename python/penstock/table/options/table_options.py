"""Options of tables: supported ones, ignored ones, and checks of values."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from penstock.common.options.check import check_values
from penstock.common.options.refused import refusal_of, refused_keys
from penstock.common.options.value_types import (
    BooleanType,
    ChoiceType,
    DurationType,
    IntegerType,
    TextType,
)
from penstock.errors import ConfigurationError
from penstock.table.options.time_zones import is_session_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LOCAL_TIME_ZONE: Final = "table.local-time-zone"
STATE_TTL: Final = "table.exec.state.ttl"
PARALLELISM: Final = "table.exec.resource.default-parallelism"
IDLE_TIMEOUT: Final = "table.exec.source.idle-timeout"
SOURCE_IDLE_TIMEOUT: Final = "scan.watermark.idle-timeout"
"""The same for one table, an option of any connector."""

WATERMARK_EMIT_STRATEGY: Final = "scan.watermark.emit.strategy"
ALIGNMENT_GROUP: Final = "scan.watermark.alignment.group"
ALIGNMENT_MAX_DRIFT: Final = "scan.watermark.alignment.max-drift"
ALIGNMENT_UPDATE_INTERVAL: Final = "scan.watermark.alignment.update-interval"
"""Further options of watermarks that any connector has."""

MINI_BATCH: Final = "table.exec.mini-batch.enabled"
AGGREGATE_PHASES: Final = "table.optimizer.agg-phase-strategy"
REUSE_SUB_PLAN: Final = "table.optimizer.reuse-sub-plan-enabled"
REUSE_SOURCE: Final = "table.optimizer.reuse-source-enabled"
UID_GENERATION: Final = "table.exec.uid.generation"
NOT_NULL_ENFORCER: Final = "table.exec.sink.not-null-enforcer"
MAX_COLUMN_WIDTH: Final = "table.display.max-column-width"
CODE_LENGTH: Final = "table.generated-code.max-length"
DYNAMIC_OPTIONS: Final = "table.dynamic-table-options.enabled"
DML_SYNC: Final = "table.dml-sync"
PLAN_COMPILED_OBJECTS: Final = "table.plan.compile.catalog-objects"
PLAN_RECOMPILE: Final = "table.plan.force-recompile"
PLAN_RESTORED_OBJECTS: Final = "table.plan.restore.catalog-objects"

RESULT_MODE: Final = "sql-client.execution.result-mode"
MAX_ROWS: Final = "sql-client.execution.max-table-result.rows"
VERBOSE: Final = "sql-client.verbose"
COLUMN_WIDTH: Final = "sql-client.display.max-column-width"
"""Options of the SQL shell; the last one is a former name of `MAX_COLUMN_WIDTH`."""

_EFFECTIVE: Final[dict[str, Callable[[str], object]]] = {
    LOCAL_TIME_ZONE: lambda text: _check_zone(text),
    STATE_TTL: DurationType().parse,
    PARALLELISM: IntegerType(-1).parse,
    MINI_BATCH: BooleanType().parse,
    NOT_NULL_ENFORCER: ChoiceType("ERROR", "DROP").parse,
    AGGREGATE_PHASES: ChoiceType("AUTO", "ONE_PHASE", "TWO_PHASE").parse,
    REUSE_SUB_PLAN: BooleanType().parse,
    REUSE_SOURCE: BooleanType().parse,
    UID_GENERATION: ChoiceType("PLAN_ONLY", "ALWAYS", "DISABLED").parse,
    IDLE_TIMEOUT: DurationType().parse,
    "table.exec.legacy-cast-behaviour": ChoiceType("DISABLED").parse,
    "table.builtin-catalog-name": TextType().parse,
    "table.builtin-database-name": TextType().parse,
    DML_SYNC: BooleanType().parse,
    DYNAMIC_OPTIONS: BooleanType().parse,
    MAX_COLUMN_WIDTH: IntegerType(1).parse,
    PLAN_COMPILED_OBJECTS: ChoiceType("ALL", "SCHEMA", "IDENTIFIER").parse,
    PLAN_RECOMPILE: BooleanType().parse,
    PLAN_RESTORED_OBJECTS: ChoiceType("ALL", "ALL_ENFORCED", "IDENTIFIER").parse,
}
"""The supported options of Flink, with their parsers."""

_IDLE: Final = frozenset(
    """
    table.exec.mini-batch.allow-latency table.exec.mini-batch.size table.generated-code.max-length
    table.optimizer.distinct-agg.split.enabled
    table.optimizer.join-reorder-enabled
    table.optimizer.reuse-optimize-block-with-digest-enabled
    table.optimizer.source.predicate-pushdown-enabled
    table.optimizer.distinct-agg.split.bucket-num
    table.exec.async-lookup.buffer-capacity table.exec.async-lookup.timeout
    table.exec.spill-compression.enabled
    table.exec.disabled-operators table.optimizer.multiple-input-enabled
    table.exec.window-agg.buffer-size-limit
    table.exec.sink.upsert-materialize table.exec.sink.keyed-shuffle
    table.exec.shuffle-mode
    table.exec.simplify-operator-name-enabled table.exec.uid.format
    """.split()  # noqa: SIM905 - the lines read better than a hundred quotes
)
"""Options of Flink without effect: they change no result and have no counterpart."""

_PREFIX: Final = "table."


def check_table_option(key: str, value: str) -> None:
    """Check an option and its value.

    Raises:
        ConfigurationError: No table option has the key, or the value is invalid or rejected.
    """
    if not key.startswith(_PREFIX):
        check_values({key: value})
        return
    if refusal := refusal_of(key, value):
        raise ConfigurationError(f"{key}: {value!r}: {refusal}")
    if key in _IDLE or key in refused_keys():
        return
    parse = _EFFECTIVE.get(key)
    if parse is None:
        near = difflib.get_close_matches(key, [*_EFFECTIVE, *_IDLE], 1)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"penstock has no option {key!r}{hint}")
    try:
        parse(value)
    except ValueError as error:
        raise ConfigurationError(f"Invalid value {value!r} for {key!r}: {error}") from None


def check_inherited_options(options: Mapping[str, str]) -> None:
    """Check the values of the table options of a stream environment.

    Raises:
        ConfigurationError: A value is invalid or rejected.
    """
    for key, value in options.items():
        if key in _EFFECTIVE or (key.startswith(_PREFIX) and refusal_of(key, value)):
            check_table_option(key, value)


def _check_zone(text: str) -> None:
    if text == "default":
        return
    if not is_session_zone(text):
        raise ValueError(
            "expected the name of a time zone such as 'Europe/Berlin', 'UTC' or 'GMT+03:00'"
        )
