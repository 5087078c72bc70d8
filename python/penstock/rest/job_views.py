"""The JSON of jobs, their vertices and subtasks (internals M69)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options import adaptive, pipeline, restart_strategy
from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus
from penstock.rest.call import RestError
from penstock.rest.cluster_views import environment, shown_options
from penstock.rest.figures import io_metrics, spread, spread_of_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.jobmaster.scheduling.failure import Failure
    from penstock.jobmaster.snapshots import (
        AttemptSnapshot,
        JobSnapshot,
        SubtaskSnapshot,
        VertexSnapshot,
    )
    from penstock.metrics.store import SubtaskMetrics
    from penstock.rest.call import Call, Json

#: Statuses of Flink's jobs that no job has here; tools expect the key.
_NEVER: Final = ("RECONCILING",)


def jobs(call: Call) -> Json:
    """Return the id and the status of each job."""
    return {"jobs": [{"id": job.id.hex(), "status": job.status.value} for job in call.cluster.jobs]}


def jobs_overview(call: Call) -> Json:
    """Return each job with its name, status and times, and the number of tasks in each state.

    ``end-time`` is -1 while the job runs.
    """
    return {"jobs": [_overview(job, call.now_ms) for job in call.cluster.jobs]}


def _overview(job: JobSnapshot, now_ms: int) -> Json:
    states = _states(subtask for vertex in job.vertices for subtask in vertex.subtasks)
    last = [subtask.current.timestamps[subtask.current.state] for subtask in _subtasks(job)]
    return {
        "jid": job.id.hex(),
        "name": job.name,
        "jobType": _job_type(job),
        "schedulerType": adaptive.SCHEDULER.read(job.configuration),
        "start-time": job.start_ms,
        "end-time": job.end_ms,
        "duration": _duration_ms(job, now_ms),
        "state": job.status.value,
        "last-modification": max(last, default=job.start_ms),
        "tasks": {
            "total": sum(states.values()),
            **{state.lower(): count for state, count in states.items()},
        },
        "pending-operators": 0,
    }


def job(call: Call) -> Json:
    """Return a job: its status, its times, its plan, and a summary of each vertex.

    ``timestamps`` holds the time at which the job entered each status; 0 if it has not.
    """
    found = call.job()
    vertices = [_vertex_summary(vertex, found, call) for vertex in found.vertices]
    counts = [vertex.state for vertex in found.vertices]
    return {
        "jid": found.id.hex(),
        "application-id": found.id.hex(),
        "name": found.name,
        "isStoppable": False,
        "state": found.status.value,
        "job-type": _job_type(found),
        "schedulerType": adaptive.SCHEDULER.read(found.configuration),
        "start-time": found.start_ms,
        "end-time": found.end_ms,
        "duration": _duration_ms(found, call.now_ms),
        "maxParallelism": -1,
        "now": call.now_ms,
        "timestamps": {
            **{status.value: found.timestamps.get(status, 0) for status in JobStatus},
            **dict.fromkeys(_NEVER, 0),
        },
        "vertices": vertices,
        "status-counts": {state.value: counts.count(state) for state in ExecutionState},
        "plan": _plan(found),
        "pending-operators": 0,
    }


def status(call: Call) -> Json:
    """Return the status of a job."""
    return {"status": call.job().status.value}


def execution_result(call: Call) -> Json:
    """Return the outcome of a job that has ended, with the cause if it failed.

    The status is ``IN_PROGRESS`` while the job runs.
    """
    found = call.job()
    if found.end_ms < 0:
        return {"status": {"id": "IN_PROGRESS"}}
    outcome = {JobStatus.FINISHED: "SUCCEEDED", JobStatus.CANCELED: "CANCELED"}
    result: dict[str, Any] = {
        "id": found.id.hex(),
        "application-status": outcome.get(found.status, "FAILED"),
        "accumulator-results": {},
        "net-runtime": _duration_ms(found, call.now_ms),
    }
    if found.status is JobStatus.FAILED and found.exceptions:
        failure = found.exceptions[-1].failure
        result["failure-cause"] = {
            "class": failure.exception_name,
            "stack-trace": failure.stack_trace or str(failure),
        }
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


def resource_requirements(call: Call) -> Json:
    """Return the lower and upper bound of the parallelism of each vertex."""
    job = call.job()
    is_adaptive = adaptive.SCHEDULER.read(job.configuration) == "Adaptive"
    return {
        vertex.id.hex(): {
            "parallelism": {
                "lowerBound": 1 if is_adaptive else vertex.wanted_parallelism,
                "upperBound": vertex.wanted_parallelism,
            }
        }
        for vertex in job.vertices
    }


def plan(call: Call) -> Json:
    """Return the plan of a job: its vertices, and the edges that enter each of them."""
    return {"plan": _plan(call.job())}


def _plan(found: JobSnapshot) -> Json:
    return {
        "jid": found.id.hex(),
        "name": found.name,
        "type": _job_type(found),
        "nodes": [
            _plan_node(vertex, pipeline.DESCRIPTION_MODE.read(found.configuration))
            for vertex in reversed(found.vertices)
        ],
    }


def _plan_node(vertex: VertexSnapshot, mode: str) -> Json:
    first, *others = vertex.operator_names
    tree = f"{first}<br/>" + "".join(f"+- {name}<br/>" for name in others)
    node: dict[str, Any] = {
        "id": vertex.id.hex(),
        "operator": "",
        "parallelism": vertex.parallelism,
        "operator_strategy": "",
        "description": tree if mode == "TREE" else " -> ".join(vertex.operator_names),
        "optimizer_properties": {},
    }
    if vertex.inputs:
        node["inputs"] = [
            {
                "id": producer.hex(),
                "num": number,
                "exchange": exchange.lower(),
                "ship_strategy": strategy,
            }
            for number, (producer, strategy, exchange) in enumerate(vertex.inputs)
        ]
    return node


def config(call: Call) -> Json:
    """Return the execution settings of a job."""
    found = call.job()
    options = found.configuration
    return {
        "jid": found.id.hex(),
        "name": found.name,
        "execution-config": {
            "restart-strategy": restart_strategy.effective_type(options),
            "job-parallelism": pipeline.PARALLELISM.read(options),
            "object-reuse-mode": pipeline.OBJECT_REUSE.read(options),
            "user-config": pipeline.JOB_PARAMETERS.read(options),
        },
    }


def cluster_config(call: Call) -> Json:
    """Return the options of the job's cluster, as keys and values; secret values are hidden."""
    call.job()
    return shown_options(call.gateway.configuration)


def cluster_environment(call: Call) -> Json:
    """Return the Python environment of the job's driver, as ``/jobmanager/environment`` does."""
    call.job()
    return environment(call)


def exceptions(call: Call) -> Json:
    """Return the failures of a job, newest first.

    ``maxExceptions`` limits their number (default 20); ``truncated`` is true if there are more.
    A value that is not a number is answered with 400.
    """
    found = call.job()
    limit = call.query.get("maxExceptions", [""])[-1] or "20"
    if not limit.isdigit():
        raise RestError(400, f"maxExceptions must be a number, got {limit!r}")
    newest = list(reversed(found.exceptions))
    entries = []
    for entry in newest[: int(limit)]:
        shown: dict[str, Any] = _exception(entry.failure, entry.timestamp_ms, found)
        if entry.repetition:
            shown["failureLabels"]["repeated"] = entry.repetition
        shown["concurrentExceptions"] = [
            _exception(failure, at_ms, found) for at_ms, failure in entry.concurrent
        ]
        entries.append(shown)
    truncated = found.exceptions_truncated or len(newest) > int(limit)
    return {"exceptionHistory": {"entries": entries, "truncated": truncated}}


def _exception(failure: Failure, timestamp_ms: int, found: JobSnapshot) -> dict[str, Any]:
    endpoints = {
        one.executor_id: one.endpoint for one in (subtask.current for subtask in _subtasks(found))
    }
    return {
        "exceptionName": failure.exception_name,
        "stacktrace": failure.stack_trace or str(failure),
        "timestamp": timestamp_ms,
        "taskName": failure.task_name,
        "endpoint": endpoints.get(failure.executor_id),
        "taskManagerId": failure.executor_id,
        "failureLabels": dict(failure.labels),
    }


def vertex(call: Call) -> Json:
    """Return a vertex with its subtasks, and the distribution of figures over them.

    Byte counts are in bytes, accumulated times in ms.
    """
    found = call.vertex()
    metrics = _metrics(found, call)
    subtasks = [_subtask(one, one.current, metrics, call.now_ms) for one in found.subtasks]
    return {
        "id": found.id.hex(),
        "name": found.name,
        "parallelism": found.parallelism,
        "maxParallelism": found.max_parallelism,
        "now": call.now_ms,
        "subtasks": subtasks,
        "aggregated": _aggregated(subtasks),
    }


def subtask(call: Call) -> Json:
    """Return the current attempt of a subtask: its state, its times and its figures."""
    found = call.subtask()
    return _subtask(found, found.current, _metrics(call.vertex(), call), call.now_ms)


def attempt(call: Call) -> Json:
    """Return an attempt of a subtask, the current one or a former one.

    An unknown attempt is answered with 404.
    """
    found = call.subtask()
    return _subtask(found, _attempt(call), _metrics(call.vertex(), call), call.now_ms)


def _attempt(call: Call) -> AttemptSnapshot:
    found, number = call.subtask(), call.number("attempt")
    for one in (found.current, *found.prior):
        if one.attempt == number:
            return one
    raise RestError(404, f"Attempt {number} of subtask {found.index} is not known")


def subtask_times(call: Call) -> Json:
    """Return the time at which each subtask of a vertex entered each state; 0 if it has not.

    ``duration`` counts from SCHEDULED.
    """
    found = call.vertex()
    return {
        "id": found.id.hex(),
        "name": found.name,
        "now": call.now_ms,
        "subtasks": [
            {
                "subtask": one.index,
                "endpoint": one.current.endpoint,
                "duration": _scheduled_ms(one.current, call.now_ms),
                "timestamps": {
                    state.value: one.current.timestamps.get(state, 0) for state in ExecutionState
                },
            }
            for one in found.subtasks
        ],
    }


def _scheduled_ms(one: AttemptSnapshot, now_ms: int) -> int:
    start_ms = one.timestamps.get(ExecutionState.SCHEDULED, -1)
    return -1 if start_ms < 0 else (one.end_ms if one.end_ms >= 0 else now_ms) - start_ms


def vertex_workers(call: Call) -> Json:
    """Return the subtasks of a vertex, grouped by TaskExecutor, with the figures of each group."""
    found = call.vertex()
    metrics = _metrics(found, call)
    places: dict[str, list[SubtaskSnapshot]] = {}
    for one in found.subtasks:
        places.setdefault(one.current.executor_id or "(unassigned)", []).append(one)
    return {
        "id": found.id.hex(),
        "name": found.name,
        "now": call.now_ms,
        "taskmanagers": [
            _at_worker(executor_id, ones, metrics, call.now_ms)
            for executor_id, ones in places.items()
        ],
    }


def _at_worker(
    executor_id: str,
    ones: Sequence[SubtaskSnapshot],
    metrics: Mapping[int, SubtaskMetrics],
    now_ms: int,
) -> Json:
    from penstock.jobmaster.scheduling.execution_graph import aggregate_state

    shown = [_subtask(one, one.current, metrics, now_ms) for one in ones]
    start_ms, end_ms, duration_ms = _span(ones, now_ms)
    return {
        "endpoint": ones[0].current.endpoint,
        "status": aggregate_state([one.current.state for one in ones]).value,
        "start-time": start_ms,
        "end-time": end_ms,
        "duration": duration_ms,
        "metrics": io_metrics((one.current, metrics.get(one.index)) for one in ones),
        "status-counts": _states(ones),
        "taskmanager-id": executor_id,
        "aggregated": _aggregated(shown),
    }


async def accumulators(call: Call) -> Json:
    """Return the merged accumulators of a job, with values as texts.

    The answer is 500 if they cannot be merged.
    """
    found = call.job()
    values = await call.operations.accumulators(call.gateway, found)
    return {
        "job-accumulators": [],
        "user-task-accumulators": _accumulators(values),
        "serialized-user-task-accumulators": {},
    }


async def vertex_accumulators(call: Call) -> Json:
    """Return the merged accumulators of a vertex, with values as texts."""
    found = call.vertex()
    values = await call.operations.accumulators(call.gateway, call.job(), found.id)
    return {"id": found.id.hex(), "user-accumulators": _accumulators(values)}


async def attempt_accumulators(call: Call) -> Json:
    """Return the accumulators of an attempt; only the current attempt has any."""
    one = _attempt(call)
    is_current = one is call.subtask().current
    values = (
        await call.operations.accumulators(
            call.gateway, call.job(), call.vertex().id, call.subtask().index
        )
        if is_current
        else {}
    )
    return {
        "subtask": call.subtask().index,
        "attempt": one.attempt,
        "id": one.attempt_id.hex(),
        "user-accumulators": _accumulators(values),
    }


async def subtask_accumulators(call: Call) -> Json:
    """Return the accumulators of each subtask of a vertex, with values as texts."""
    found = call.vertex()
    shown = []
    for one in found.subtasks:
        values = await call.operations.accumulators(call.gateway, call.job(), found.id, one.index)
        shown.append(
            {
                "subtask": one.index,
                "attempt": one.current.attempt,
                "endpoint": one.current.endpoint,
                "user-accumulators": _accumulators(values),
            }
        )
    return {"id": found.id.hex(), "parallelism": found.parallelism, "subtasks": shown}


def _accumulators(values: Mapping[str, Any]) -> Json:
    return [
        {"name": name, "type": type(value).__name__, "value": str(value)}
        for name, value in sorted(values.items())
    ]


def _job_type(found: JobSnapshot) -> str:
    return "BATCH" if pipeline.RUNTIME_MODE.read(found.configuration) == "BATCH" else "STREAMING"


def _duration_ms(found: JobSnapshot, now_ms: int) -> int:
    return max(0, (found.end_ms if found.end_ms >= 0 else now_ms) - found.start_ms)


def _subtasks(found: JobSnapshot) -> list[SubtaskSnapshot]:
    return [one for vertex in found.vertices for one in vertex.subtasks]


def _states(subtasks: Iterable[SubtaskSnapshot]) -> dict[str, int]:
    found = [one.current.state for one in subtasks]
    return {state.value: found.count(state) for state in ExecutionState}


def _metrics(found: VertexSnapshot, call: Call) -> dict[int, SubtaskMetrics]:
    return call.gateway.metrics.subtasks(call.job().id, found.id)


def _span(ones: Sequence[SubtaskSnapshot], now_ms: int) -> tuple[int, int, int]:
    """Return when the first began, when the last ended, and the time between; -1 if unknown."""
    starts = [one.current.start_ms for one in ones if one.current.start_ms >= 0]
    ends = [one.current.end_ms for one in ones]
    start_ms = min(starts, default=-1)
    end_ms = max(ends) if all(end >= 0 for end in ends) else -1
    if start_ms < 0:
        return -1, end_ms, -1
    return start_ms, end_ms, max(0, (end_ms if end_ms >= 0 else now_ms) - start_ms)


def _vertex_summary(found: VertexSnapshot, of: JobSnapshot, call: Call) -> Json:
    metrics = call.gateway.metrics.subtasks(of.id, found.id)
    start_ms, end_ms, duration_ms = _span(found.subtasks, call.now_ms)
    group = hashlib.sha256(found.slot_sharing_group.encode()).digest()[:16]
    return {
        "id": found.id.hex(),
        "slotSharingGroupId": group.hex(),
        "name": found.name,
        "maxParallelism": found.max_parallelism,
        "parallelism": found.parallelism,
        "status": found.state.value,
        "start-time": start_ms,
        "end-time": end_ms,
        "duration": duration_ms,
        "tasks": _states(found.subtasks),
        "metrics": io_metrics((one.current, metrics.get(one.index)) for one in found.subtasks),
    }


def _subtask(
    one: SubtaskSnapshot,
    shown: AttemptSnapshot,
    metrics: Mapping[int, SubtaskMetrics],
    now_ms: int,
) -> dict[str, Any]:
    return {
        "subtask": one.index,
        "status": shown.state.value,
        "attempt": shown.attempt,
        "endpoint": shown.endpoint,
        "start-time": shown.start_ms,
        "start_time": shown.start_ms,
        "end-time": shown.end_ms,
        "duration": shown.duration_ms(now_ms),
        "metrics": io_metrics([(shown, metrics.get(one.index))]),
        "taskmanager-id": shown.executor_id or "(unassigned)",
        "status-duration": _durations(shown, now_ms),
    }


def _durations(shown: AttemptSnapshot, now_ms: int) -> dict[str, int]:
    """Return the time the attempt spent in each of its states."""
    entered = sorted(shown.timestamps.items(), key=lambda item: item[1])
    lefts = [at_ms for _, at_ms in entered[1:]] + [now_ms]
    return {
        state.value: max(0, left - at_ms)
        for (state, at_ms), left in zip(entered, lefts, strict=True)
        if not state.is_terminal
    }


def _aggregated(shown: Sequence[Mapping[str, Any]]) -> Json:
    durations: dict[str, list[int]] = {}
    for one in shown:
        for state, duration_ms in one["status-duration"].items():
            durations.setdefault(state, []).append(duration_ms)
    return {
        "metrics": spread_of_metrics([one["metrics"] for one in shown]),
        "status-duration": {state: spread(found) for state, found in durations.items()},
    }
