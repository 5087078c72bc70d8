"""LiveFeed: pushes the changes of a job to its watchers, as server-sent events.

However many clients watch a job, its state is collected and encoded as JSON once per turn; a slow
client misses turns and blocks no other one.
"""

from __future__ import annotations

import asyncio
import json
import math
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options import rest
from penstock.metrics.values import as_number
from penstock.rest import cluster_views, job_views
from penstock.rest.figures import io_metrics
from penstock.rest.metric_views import level_of, skew_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from penstock.jobmaster.snapshots import JobSnapshot, VertexSnapshot
    from penstock.metrics.store import SubtaskMetrics
    from penstock.rest.call import Call

MAX_WATCHERS: Final = 200
_ANSWERS_S: Final = 0.5
_NO_WATERMARK: Final = -(2**63)


class TooManyWatchersError(Exception):
    """The number of watching clients has reached its limit."""


class LiveFeed:
    """Sends updates to watchers; used by the server's thread only."""

    def __init__(self, new_call: Callable[[dict[str, str]], Awaitable[Call]]) -> None:
        """Create the feed; nothing runs while nobody watches.

        Args:
            new_call: Creates a call with a fresh snapshot of the cluster, given the path's parts.
        """
        self._new_call = new_call
        self._watchers: dict[str, set[asyncio.Queue[str | None]]] = {}
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    def watch(self, job_id: str) -> AsyncIterator[str]:
        """Return events about the cluster and one of its jobs, the first one at once.

        Args:
            job_id: In hexadecimal; empty for none.

        Raises:
            TooManyWatchersError: There are `MAX_WATCHERS` already.
        """
        if self._closed or sum(map(len, self._watchers.values())) >= MAX_WATCHERS:
            raise TooManyWatchersError
        queue: asyncio.Queue[str | None] = asyncio.Queue(1)
        self._watchers.setdefault(job_id, set()).add(queue)
        turn = self._turns.get(job_id)
        if turn is not None:
            turn.cancel()  # the new watcher needs an event at once
        self._turns[job_id] = asyncio.create_task(self._run(job_id))
        return self._events(job_id, queue)

    async def close(self) -> None:
        """Send a last update to all watchers."""
        self._closed = True
        for job_id, watchers in list(self._watchers.items()):
            self._turns[job_id].cancel()
            last = await self._event(job_id)
            for queue in watchers:
                _put(queue, last + "event: end\ndata: {}\n\n")
        await asyncio.sleep(0)
        for watchers in list(self._watchers.values()):
            for queue in watchers:
                if queue.empty():
                    queue.put_nowait(None)

    async def _events(self, job_id: str, queue: asyncio.Queue[str | None]) -> AsyncIterator[str]:
        try:
            while (event := await queue.get()) is not None:
                yield event
                if event.endswith("event: end\ndata: {}\n\n"):
                    return
        finally:
            watchers = self._watchers.get(job_id, set())
            watchers.discard(queue)
            if not watchers:
                self._watchers.pop(job_id, None)
                turn = self._turns.pop(job_id, None)
                if turn is not None:
                    turn.cancel()

    async def _run(self, job_id: str) -> None:
        # The first snapshot has metrics from before the first request; the second follows soon,
        # when workers have answered.
        pause_s = _ANSWERS_S
        while True:
            event = await self._event(job_id)
            for queue in self._watchers.get(job_id, ()):
                _put(queue, event)
            await asyncio.sleep(min(pause_s, self._interval_s))
            pause_s = self._interval_s

    _interval_s: float = 3.0

    async def _event(self, job_id: str) -> str:
        try:
            call = await self._new_call({"jobid": job_id})
        except TimeoutError:
            return ": the driver is busy\n\n"
        self._interval_s = rest.REFRESH_INTERVAL.read(call.gateway.configuration) / 1000
        call.gateway.inspections.have_metrics_sent()
        return f"data: {json.dumps(picture(call), separators=(',', ':'), default=str)}\n\n"


def _put(queue: asyncio.Queue[str | None], event: str) -> None:
    if queue.full():
        queue.get_nowait()  # the client has not read it in time; the next event includes everything
    queue.put_nowait(event)


def picture(call: Call) -> dict[str, Any]:
    """Return everything that a first view of a cluster and one of its jobs needs."""
    jobs: Any = job_views.jobs_overview(call)
    found: dict[str, Any] = {
        "now": call.now_ms,
        "cluster": cluster_views.overview(call),
        "jobs": jobs["jobs"],
    }
    job_id = call.path["jobid"]
    job = next((one for one in call.cluster.jobs if one.id.hex() == job_id), None)
    if job is not None:
        counts = job.checkpoints.counts
        latest = job.checkpoints.latest.get("completed")
        found["job"] = {
            "jid": job_id,
            "name": job.name,
            "state": job.status.value,
            "start-time": job.start_ms,
            "duration": max(0, (job.end_ms if job.end_ms >= 0 else call.now_ms) - job.start_ms),
            "restarts": job.num_restarts,
            "checkpoints": {
                **counts,
                "last-duration": None if latest is None else latest.duration_ms,
                "last-size": None if latest is None else latest.total("full_bytes"),
            },
            "exceptions": len(job.exceptions),
            "vertices": [vertex_figures(call, job, vertex) for vertex in job.vertices],
        }
    return found


def vertex_figures(call: Call, job: JobSnapshot, vertex: VertexSnapshot) -> dict[str, Any]:
    """Return a vertex's figures: state, rates, shares of time, event time, skew."""
    metrics = call.gateway.metrics.subtasks(job.id, vertex.id)
    current = [
        found
        for one in vertex.subtasks
        if (found := metrics.get(one.index)) is not None and found.attempt == one.current.attempt
    ]
    states: dict[str, int] = {}
    for one in vertex.subtasks:
        state = one.current.state.value
        states[state] = states.get(state, 0) + 1
    back_pressured = _shares(current, "backPressuredTimeMsPerSecond")
    totals = io_metrics((one.current, metrics.get(one.index)) for one in vertex.subtasks)
    moved = "numRecordsIn" if vertex.inputs else "numRecordsOut"
    return {
        "id": vertex.id.hex(),
        "status": vertex.state.value,
        "tasks": states,
        "in-rate": _rate(current, "numRecordsInPerSecond"),
        "out-rate": _rate(current, "numRecordsOutPerSecond"),
        "bytes-in-rate": _rate(current, "numBytesInPerSecond"),
        "bytes-out-rate": _rate(current, "numBytesOutPerSecond"),
        "busy": max(_shares(current, "busyTimeMsPerSecond"), default=None),
        "idle": min(_shares(current, "idleTimeMsPerSecond"), default=None),
        "back-pressured": max(back_pressured, default=None),
        "level": level_of(max(back_pressured)) if back_pressured else None,
        "watermark": watermark_of(current),
        "has-event-time": any(one.task.gauges.get("hasEventTime") == 1 for one in current),
        "event-time-held": next(
            (str(held) for one in current if (held := one.task.gauges.get("eventTimeHeldBackBy"))),
            "",
        ),
        "skew": _skew([float(one.task.counters.get(moved, 0)) for one in current]),
        **{name: totals[name] for name in _TOTALS},
    }


_TOTALS: Final = ("read-records", "write-records", "read-bytes", "write-bytes")


def _rate(current: Sequence[SubtaskMetrics], name: str) -> float | None:
    rates = [one.task.meters[name].rate for one in current if name in one.task.meters]
    return round(math.fsum(rates), 1) if rates else None


def _shares(current: Sequence[SubtaskMetrics], name: str) -> list[float]:
    shares = [as_number(one.task.gauges.get(name)) / 1000 for one in current]
    return [share for share in shares if not math.isnan(share)]


def watermark_of(current: Sequence[SubtaskMetrics]) -> int | None:
    """Return the event time of the slowest subtask; None before event time has begun.

    It is the time of the subtask's input, or of a source's output.
    """
    found: list[int] = []
    for one in current:
        own = one.task.gauges.get("currentInputWatermark")
        if own is None:
            own = max(
                (
                    int(values.gauges["currentOutputWatermark"])
                    for values in one.operators.values()
                    if "currentOutputWatermark" in values.gauges
                ),
                default=_NO_WATERMARK,
            )
        found.append(int(own))
    least = min(found, default=_NO_WATERMARK)
    return None if least == _NO_WATERMARK else least


def _skew(values: Sequence[float]) -> float | None:
    return round(skew_of(values), 1) if len(values) > 1 else None
