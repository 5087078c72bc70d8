"""Creation of relational operators by kind."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import PenstockError
from penstock.taskexecutor.operators.relational.base import ExchangedBatches

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.compiled import StreamOperator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_PACKAGE: Final = "penstock.taskexecutor.operators.relational."

#: By kind, the module and the class, which takes the context and the settings.
KINDS: Final = {
    "calc": ("calc", "CalcOperator"),
    "watermarks": ("watermarks", "WatermarkAssigner"),
    "partition": ("exchange", "PartitionOperator"),
    "aggregate": ("aggregates.aggregate", "GroupAggregateOperator"),
    "final_aggregate": ("aggregates.aggregate", "FinalAggregateOperator"),
    "table_aggregate": ("aggregates.table_aggregate", "TableAggregateOperator"),
    "count_window": ("windows.count_window", "CountWindowOperator"),
    "windows": ("windows.windows", "WindowAssigner"),
    "sessions": ("windows.sessions", "SessionAssigner"),
    "session_aggregate": ("windows.session_aggregate", "SessionAggregateOperator"),
    "processing_time_windows": ("windows.processing_time_windows", "ProcessingTimeWindowAssigner"),
    "processing_time_sessions": (
        "windows.processing_time_windows",
        "ProcessingTimeSessionAssigner",
    ),
    "processing_time_window_aggregate": (
        "windows.processing_time_windows",
        "ProcessingTimeWindowAggregateOperator",
    ),
    "window_aggregate": ("windows.windows", "WindowAggregateOperator"),
    "local_window_aggregate": ("windows.local_window_aggregate", "LocalWindowAggregateOperator"),
    "window_extremes": ("windows.window_extremes", "WindowExtremesOperator"),
    "sliced_window_aggregate": ("windows.sliced_window_aggregate", "SlicedWindowAggregateOperator"),
    "drop_update_before": ("drop_update_before", "DropUpdateBeforeOperator"),
    "to_changelog": ("changelog_codes", "ToChangelogOperator"),
    "from_changelog": ("changelog_codes", "FromChangelogOperator"),
    "expand": ("expand", "ExpandOperator"),
    "correlate": ("joins.correlate", "CorrelateOperator"),
    "join": ("joins.join", "JoinOperator"),
    "final_join": ("joins.final_join", "FinalJoinOperator"),
    "interval_join": ("joins.interval_join", "IntervalJoinOperator"),
    "window_join": ("joins.final_join", "WindowJoinOperator"),
    "temporal_join": ("joins.temporal_join", "TemporalJoinOperator"),
    "lookup_join": ("joins.lookup_join", "LookupJoinOperator"),
    "rank": ("ranks.rank", "RankOperator"),
    "window_rank": ("ranks.rank", "WindowRankOperator"),
    "deduplicate": ("ranks.deduplicate", "DeduplicateOperator"),
    "over": ("over", "OverOperator"),
    "sorted_over": ("over", "SortedOverOperator"),
    "sort": ("sort", "SortOperator"),
    "time_sort": ("sort", "TimeSortOperator"),
    "limit": ("sort", "LimitOperator"),
    "set_operation": ("set_operation", "SetOperator"),
    "upsert_materialize": ("upsert_materialize", "UpsertMaterializeOperator"),
    "match": ("match", "MatchOperator"),
}


def create_relational(context: OperatorContext, descriptor: operators.Relational) -> StreamOperator:
    """Return the operator of a descriptor.

    Raises:
        PenstockError: This worker does not know the kind of operator.
    """
    if descriptor.kind not in KINDS:
        raise PenstockError(f"{context.name!r} is of the unknown kind {descriptor.kind!r}")
    module, name = KINDS[descriptor.kind]
    cls: Any = getattr(import_module(_PACKAGE + module), name)
    made: Any = cls(context, **descriptor.settings)
    if isinstance(made, ExchangedBatches):
        made.exchanged = descriptor.exchanged
    return made  # type: ignore[no-any-return]
