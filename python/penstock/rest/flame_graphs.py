"""Flame graphs: where tasks spend their time, by sampling their threads (internals M72).

Threads are sampled on request, and one sample serves all clients for a while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options import rest
from penstock.jobmaster.scheduling.states import ExecutionState
from penstock.jobmaster.workers.inspections import InspectionError
from penstock.rest.call import RestError
from penstock.rpc.inspection_messages import SampleStacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.jobmaster.cluster_gateway import ClusterGateway
    from penstock.jobmaster.snapshots import SubtaskSnapshot
    from penstock.rest.call import Call, Json
    from penstock.rpc.inspection_messages import StackCount

logger = logging.getLogger(__name__)

TERMINATED: Final = -1
DISABLED: Final = -2
WAITING: Final = -3
"""Flink's end times if there is nothing to show, and why."""

MAX_GRAPHS: Final = 200
_KINDS: Final = {"FULL": None, "ON_CPU": True, "OFF_CPU": False}


@dataclass
class _Seen:
    """Samples of some subtasks.

    Attributes:
        ended_ms: When the sampling ended, wall clock; None while the first one runs.
        stacks: The last samples.
        look: The running sampling.
        asked_s: When a client last asked, monotonic.
        note: What is missing, and why.
    """

    ended_ms: int | None = None
    stacks: Sequence[StackCount] = ()
    look: asyncio.Task[None] | None = None
    asked_s: float = 0.0
    note: str = ""


class FlameGraphs:
    """Recent samples; used by the server's thread only."""

    def __init__(self, configuration: Mapping[str, str]) -> None:
        """Read the options.

        Args:
            configuration: The cluster's options.
        """
        self.is_enabled = rest.FLAME_GRAPHS.read(configuration)
        self._samples = rest.FLAME_GRAPH_SAMPLES.read(configuration)
        self._delay_ms = rest.FLAME_GRAPH_DELAY.read(configuration)
        self._depth = rest.FLAME_GRAPH_DEPTH.read(configuration)
        self._native = rest.FLAME_GRAPH_NATIVE.read(configuration)
        self._refresh_ms = rest.FLAME_GRAPH_REFRESH.read(configuration)
        self._cleanup_s = rest.FLAME_GRAPH_CLEANUP.read(configuration) / 1000
        self._seen: dict[tuple[Any, ...], _Seen] = {}

    def of(
        self, key: tuple[Any, ...], gateway: ClusterGateway, subtasks: Sequence[SubtaskSnapshot]
    ) -> tuple[int, Sequence[StackCount], str]:
        """Return time, stacks and note of the last samples; sample again if due.

        Args:
            key: Identifies the subtasks.
            gateway: The cluster.
            subtasks: The running ones.
        """
        now_s = time.monotonic()
        for old in [k for k, one in self._seen.items() if now_s - one.asked_s > self._cleanup_s]:
            del self._seen[old]
        while len(self._seen) > MAX_GRAPHS:
            del self._seen[min(self._seen, key=lambda one: self._seen[one].asked_s)]
        seen = self._seen.setdefault(key, _Seen())
        seen.asked_s = now_s
        age_ms = None if seen.ended_ms is None else time.time() * 1000 - seen.ended_ms
        if (seen.look is None or seen.look.done()) and (
            age_ms is None or age_ms >= self._refresh_ms
        ):
            seen.look = asyncio.create_task(self._look(seen, gateway, list(subtasks)))
        return WAITING if seen.ended_ms is None else seen.ended_ms, seen.stacks, seen.note

    async def _look(
        self, seen: _Seen, gateway: ClusterGateway, subtasks: Sequence[SubtaskSnapshot]
    ) -> None:
        places: dict[str, list[bytes]] = {}
        for one in subtasks:
            if one.current.executor_id is not None:
                places.setdefault(one.current.executor_id, []).append(one.current.attempt_id)
        answers = await asyncio.gather(
            *(
                asyncio.wrap_future(
                    gateway.inspections.ask(executor_id, self._request(tuple(attempts)))
                )
                for executor_id, attempts in places.items()
            ),
            return_exceptions=True,
        )
        found: list[StackCount] = []
        notes: set[str] = set()
        for answer in answers:
            if isinstance(answer, InspectionError):
                logger.info("a flame graph is without the tasks of one worker: %s", answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer.stacks
                notes.add(answer.note)
        seen.stacks = found
        seen.note = "; ".join(sorted(notes - {""}))
        seen.ended_ms = time.time_ns() // 1_000_000

    def _request(self, attempts: tuple[bytes, ...]) -> Any:
        return lambda number: SampleStacks(
            number, attempts, self._samples, self._delay_ms, self._depth, self._native
        )


def flame_graph(call: Call) -> Json:
    """Return a flame graph of a vertex: a tree of functions with the number of samples of each.

    ``type`` is ``full``, ``on_cpu`` or ``off_cpu``; ``subtaskindex`` chooses a subtask.
    ``endTimestamp`` is negative if there is no graph: it is disabled, nothing runs, or the first
    samples are being taken.
    """
    vertex = call.vertex()
    kind = (call.query.get("type", [""])[-1] or "FULL").upper()
    if kind not in _KINDS:
        raise RestError(400, f"type must be full, on_cpu or off_cpu, got {kind[:100]!r}")
    chosen = list(vertex.subtasks)
    index = call.query.get("subtaskindex", [""])[-1]
    if index:
        if not index.isascii() or not index.isdigit() or int(index[:9]) >= vertex.parallelism:
            raise RestError(404, f"Invalid subtask index for vertex {vertex.id.hex()}")
        chosen = [vertex.subtasks[int(index[:9])]]
    if not call.flame_graphs.is_enabled:
        return {"endTimestamp": DISABLED}
    running = [one for one in chosen if one.current.state is ExecutionState.RUNNING]
    if not running:
        return {"endTimestamp": TERMINATED}
    attempts = tuple(one.current.attempt_id for one in running)
    ended_ms, stacks, note = call.flame_graphs.of(attempts, call.gateway, running)
    if ended_ms < 0:
        return {"endTimestamp": ended_ms}
    on_cpu = _KINDS[kind]
    wanted = (one for one in stacks if on_cpu is None or one.on_cpu is on_cpu)
    found = {"endTimestamp": ended_ms, "data": merged(wanted)}
    return found | {"note": note} if note else found


def merged(stacks: Iterable[StackCount]) -> dict[str, Any]:
    """Merge stacks into one tree: equal prefixes are one node, with the sum of the counts."""
    root: dict[str, Any] = {"name": "root", "value": 0, "children": {}}
    for stack in stacks:
        node = root
        node["value"] += stack.count
        for frame in stack.frames:
            node = node["children"].setdefault(frame, {"name": frame, "value": 0, "children": {}})
            node["value"] += stack.count
    return _listed(root)


def _listed(node: dict[str, Any]) -> dict[str, Any]:
    children = sorted(node["children"].values(), key=lambda child: -child["value"])
    return {
        "name": node["name"],
        "value": node["value"],
        "children": [_listed(child) for child in children],
    }
