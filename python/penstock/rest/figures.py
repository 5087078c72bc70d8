"""Figures that several answers share: input and output of subtasks, and distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.jobmaster.snapshots import AttemptSnapshot
    from penstock.metrics.store import SubtaskMetrics
    from penstock.metrics.values import GaugeValue

_COUNTED: Final = {
    "read-bytes": "numBytesIn",
    "write-bytes": "numBytesOut",
    "read-records": "numRecordsIn",
    "write-records": "numRecordsOut",
}
_TIMED: Final = {
    "accumulated-backpressured-time": "accumulateBackPressuredTimeMs",
    "accumulated-idle-time": "accumulateIdleTimeMs",
    "accumulated-busy-time": "accumulateBusyTimeMs",
}
NAN: Final = "NaN"


def number(value: float) -> float | str:
    """Return a number as in Flink's JSON, where NaN is a text."""
    return NAN if math.isnan(value) else value


def io_metrics(
    attempts: Iterable[tuple[AttemptSnapshot, SubtaskMetrics | None]],
) -> dict[str, Any]:
    """Return the total bytes, records and times of attempts.

    A count is complete if every attempt has reported it.

    Args:
        attempts: Each with the last report of its subtask.
    """
    known: list[Mapping[str, GaugeValue]] = []
    complete = True
    for attempt, metrics in attempts:
        values = _values_of(attempt, metrics)
        complete &= values is not None
        known.append(values or {})
    found: dict[str, Any] = {}
    for field, name in _COUNTED.items():
        found[field] = sum(int(values.get(name, 0)) for values in known)
        found[f"{field}-complete"] = complete
    for field, name in _TIMED.items():
        found[field] = sum(int(values.get(name, 0)) for values in known)
    if not any(known):
        found["accumulated-busy-time"] = NAN
    return found


def _values_of(
    attempt: AttemptSnapshot, metrics: SubtaskMetrics | None
) -> Mapping[str, GaugeValue] | None:
    if metrics is None or metrics.attempt != attempt.attempt:
        return None
    return metrics.task.flat()


def spread(values: Sequence[float]) -> dict[str, int]:
    """Return the distribution of figures over subtasks, as whole numbers; all zero if empty."""
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("min", "max", "avg", "sum", "median", "p25", "p75", "p95"), 0)

    def quantile(share: float) -> int:
        # The position in Flink's statistics: between two values, rounded down here.
        position = share * (len(ordered) + 1) - 1
        low = min(max(math.floor(position), 0), len(ordered) - 1)
        high = min(low + 1, len(ordered) - 1)
        part = min(max(position - low, 0.0), 1.0)
        return int(ordered[low] + part * (ordered[high] - ordered[low]))

    return {
        "min": int(ordered[0]),
        "max": int(ordered[-1]),
        "avg": int(sum(ordered) / len(ordered)),
        "sum": int(sum(ordered)),
        "median": quantile(0.5),
        "p25": quantile(0.25),
        "p75": quantile(0.75),
        "p95": quantile(0.95),
    }


def spread_of_metrics(each: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the distribution of each figure of `io_metrics` over subtasks."""
    return {
        name: spread([one[name] for one in each if one[name] != NAN])
        for name in (*_COUNTED, *_TIMED)
    }
