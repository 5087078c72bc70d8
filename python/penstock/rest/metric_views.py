"""The JSON of metrics, and of figures derived from them (internals M69, M71)."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.metrics.derived import job_metrics
from penstock.metrics.values import NO_VALUES, as_number
from penstock.rest.call import RestError
from penstock.rest.figures import NAN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.metrics.store import SubtaskMetrics
    from penstock.metrics.values import GaugeValue
    from penstock.rest.call import Call, Json

_RANGE: Final = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_LAST_SUBTASK: Final = (1 << 15) - 1
_LOW, _HIGH = 0.1, 0.5
"""Shares of time up to which a task counts as not back pressured, and as slightly."""

Values = dict[str, "GaugeValue"]


def driver_metrics(call: Call) -> Json:
    """Return the ids of the driver's metrics, or with ``get`` the values of some."""
    return _listed(call, call.driver.flat())


def job_metrics_of(call: Call) -> Json:
    """Return the ids of a job's metrics, or with ``get`` the values of some."""
    return _listed(call, job_metrics(call.job(), call.now_ms).flat())


def jobs_metrics(call: Call) -> Json:
    """Return metrics of all jobs, or of those in ``jobs``, aggregated.

    Without ``get`` only the ids are returned.  ``agg`` chooses among min, max, avg, sum and skew.
    """
    chosen = call.names("jobs")
    return _aggregated(
        call,
        [
            job_metrics(job, call.now_ms).flat()
            for job in call.cluster.jobs
            if chosen is None or job.id.hex() in chosen
        ],
    )


def worker_metrics(call: Call) -> Json:
    """Return the ids of a TaskExecutor's metrics, or with ``get`` the values of some."""
    executor_id = call.worker().executor_id
    return _listed(call, call.gateway.metrics.workers().get(executor_id, NO_VALUES).flat())


def workers_metrics(call: Call) -> Json:
    """Return metrics of all TaskExecutors, or of those in ``taskmanagers``, aggregated.

    Without ``get`` only the ids are returned.  ``agg`` chooses among min, max, avg, sum and skew.
    """
    chosen = call.names("taskmanagers")
    return _aggregated(
        call,
        [
            values.flat()
            for executor_id, values in call.gateway.metrics.workers().items()
            if chosen is None or executor_id in chosen
        ],
    )


def vertex_metrics(call: Call) -> Json:
    """Return the ids of a vertex's metrics, or with ``get`` the values of some.

    An id begins with the number of the subtask, as in ``0.numRecordsIn``.
    """
    values: Values = {}
    for index, metrics in sorted(_subtasks(call).items()):
        values |= {f"{index}.{name}": value for name, value in metrics.flat().items()}
    return _listed(call, values)


def subtask_metrics(call: Call) -> Json:
    """Return the ids of a subtask's metrics, or with ``get`` the values of some."""
    found = _subtasks(call).get(call.subtask().index)
    return _listed(call, {} if found is None else found.flat())


def subtasks_metrics(call: Call) -> Json:
    """Return metrics of all subtasks of a vertex, or of those in ``subtasks``, aggregated.

    ``subtasks`` lists numbers and ranges, as in ``0-2,5``.
    Without ``get`` only the ids are returned.  ``agg`` chooses among min, max, avg, sum and skew.
    """
    chosen = call.names("subtasks")
    indices = None if chosen is None else _indices(chosen)
    return _aggregated(
        call,
        [
            metrics.flat()
            for index, metrics in sorted(_subtasks(call).items())
            if indices is None or index in indices
        ],
    )


def coordinator_metrics(call: Call) -> Json:
    """Return an empty list: coordinators of operators have no metrics."""
    call.vertex()
    return []


def watermarks(call: Call) -> Json:
    """Return the input watermark of each subtask of a vertex, in ms, as a text."""
    name = "currentInputWatermark"
    return [
        {"id": f"{index}.{name}", "value": str(metrics.task.gauges[name])}
        for index, metrics in sorted(_subtasks(call).items())
        if name in metrics.task.gauges
    ]


def backpressure(call: Call) -> Json:
    """Return how much of its time each subtask of a vertex is back pressured, idle and busy.

    Ratios are from 0 to 1.  The level is ``ok`` up to 0.1, ``low`` up to 0.5, and ``high`` above.
    """
    vertex, known = call.vertex(), _subtasks(call)
    shown: list[dict[str, Any]] = []
    worst = 0.0
    for subtask in vertex.subtasks:
        metrics = known.get(subtask.index)
        if metrics is None or metrics.attempt != subtask.current.attempt:
            continue
        gauges = metrics.task.gauges
        ratio = _share(gauges, "backPressuredTimeMsPerSecond")
        worst = max(worst, 0.0 if math.isnan(ratio) else ratio)
        shown.append(
            {
                "subtask": subtask.index,
                "attempt-number": subtask.current.attempt,
                "backpressureLevel": level_of(ratio),
                "backpressure-level": level_of(ratio),
                "ratio": _or_nan(ratio),
                "idleRatio": _or_nan(_share(gauges, "idleTimeMsPerSecond")),
                "busyRatio": _or_nan(_share(gauges, "busyTimeMsPerSecond")),
            }
        )
    if not shown:
        return {"status": "deprecated", "subtasks": []}
    return {
        "status": "ok",
        "backpressureLevel": level_of(worst),
        "backpressure-level": level_of(worst),
        "end-timestamp": max(metrics.received_ms for metrics in known.values()),
        "subtasks": shown,
    }


def level_of(ratio: float) -> str:
    """Return the level of back pressure of a task, in one word."""
    if ratio > _HIGH:
        return "high"
    return "low" if ratio > _LOW else "ok"


def _share(gauges: Mapping[str, GaugeValue], name: str) -> float:
    return as_number(gauges.get(name)) / 1000


def _or_nan(value: float) -> float | str:
    return NAN if math.isnan(value) else value


def _subtasks(call: Call) -> dict[int, SubtaskMetrics]:
    return call.gateway.metrics.subtasks(call.job().id, call.vertex().id)


def _indices(chosen: Sequence[str]) -> set[int]:
    """Return numbers and ranges of subtasks, such as ``0-2,5``; invalid indices are left out."""
    found: set[int] = set()
    for part in chosen:
        match = _RANGE.fullmatch(part)
        if match is None:
            raise RestError(400, f"subtasks: {part!r} is neither a number nor a range of numbers")
        found.update(range(int(match[1]), min(int(match[2] or match[1]), _LAST_SUBTASK) + 1))
    return found


def _listed(call: Call, values: Values) -> Json:
    """Return ids alone, or the requested ones with values; ignore unknown ones, as in Flink."""
    wanted = call.names("get")
    if wanted is None:
        return [{"id": name} for name in sorted(values)]
    return [{"id": name, "value": _text(values[name])} for name in wanted if name in values]


def _text(value: GaugeValue) -> str:
    if isinstance(value, float) and math.isnan(value):
        return NAN
    return str(value)


_AGGREGATIONS: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    "min": min,
    "max": max,
    "avg": lambda values: math.fsum(values) / len(values),
    "sum": math.fsum,
    "skew": lambda values: skew_of(values),
}


def skew_of(values: Sequence[float]) -> float:
    """Return the deviation from the mean, in percent of the mean; 0 if the mean is 0."""
    mean = math.fsum(values) / len(values)
    if mean == 0:
        return 0.0
    return min(100.0, math.fsum(abs(value - mean) for value in values) / len(values) / mean * 100)


def _aggregated(call: Call, each: Sequence[Values]) -> Json:
    """Return ids alone, or aggregates over the parts that have the metric."""
    wanted = call.names("get")
    if wanted is None:
        return [{"id": name} for name in sorted({name for values in each for name in values})]
    kinds = call.names("agg")
    for kind in kinds or ():
        if kind not in _AGGREGATIONS:
            known = ", ".join(_AGGREGATIONS)
            raise RestError(400, f"agg must be one of {known}, got {kind[:100]!r}")
    found = []
    for name in wanted:
        numbers = [as_number(values[name]) for values in each if name in values]
        # JSON has no infinite numbers, and those of both signs have no sum.
        numbers = [value for value in numbers if math.isfinite(value)]
        if numbers:
            found.append(
                {
                    "id": name,
                    **{kind: _AGGREGATIONS[kind](numbers) for kind in kinds or _AGGREGATIONS},
                }
            )
    return found
