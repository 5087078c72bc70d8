"""Allocates slots to subtasks: bulks of subtasks that wait for slots and get them together.

A bulk is served when the pool has a free slot for each of its groups that has none yet, and never
in part, so that two bulks cannot each hold slots that the other one needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.jobmaster.scheduling.slot_sharing import (
    LocalInputPreferredSlotSharingStrategy,
)
from penstock.jobmaster.slots.shared_slot import SharedSlot, SimpleSlot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph, SubtaskID
    from penstock.jobmaster.slots.slot_pool import SlotPool
    from penstock.jobmaster.slots.slots import SlotOffer

#: A subtask with more producers than this is placed near none of them.
MAX_PREFERRED_PRODUCERS: Final = 8


@dataclass(frozen=True)
class SlotRequestBulk:
    """Subtasks that are deployed together.

    Attributes:
        subtasks: In topological order, each with its version when the bulk was created.
        requested_ms: When it started to wait.
        groups: The indices of their slot sharing groups, each of which needs a slot.
    """

    subtasks: tuple[tuple[SubtaskID, int], ...]
    requested_ms: int
    groups: tuple[int, ...]


class SlotAllocator:
    """Slots of one job's subtasks.

    Args:
        graph: The job.
        pool: Its slots.
        request_timeout_ms: Longest wait of a bulk.
    """

    def __init__(
        self, graph: ExecutionGraph, pool: SlotPool, *, request_timeout_ms: int = 300_000
    ) -> None:
        self._graph = graph
        self._pool = pool
        self._request_timeout_ms = request_timeout_ms
        self._sharing = LocalInputPreferredSlotSharingStrategy(graph)
        self._roots: dict[int, SharedSlot] = {}
        self._leaves: dict[SubtaskID, SimpleSlot] = {}
        self._last_slot: dict[int, SlotOffer] = {}
        self._bulks: list[SlotRequestBulk] = []
        self._has_blocking = any(result.is_blocking for result in graph.results.values())

    def request(self, subtasks: Iterable[SubtaskID], now_ms: int) -> None:
        """Add a bulk that waits for slots."""
        versions = tuple((id_, self._graph.subtask(id_).version) for id_ in subtasks)
        groups = dict.fromkeys(self._sharing.group_of(id_).index for id_, _ in versions)
        self._bulks.append(SlotRequestBulk(versions, now_ms, tuple(groups)))

    def drop_stale_bulks(self) -> None:
        """Drop the bulks with a subtask that was cancelled, failed or restarted meanwhile."""
        self._bulks = [bulk for bulk in self._bulks if self._is_current(bulk)]

    def declare(self, restarting: Iterable[SubtaskID]) -> int:
        """Set the number of slots that the pool requires and return it.

        Args:
            restarting: Subtasks that will request slots again soon; their slots are kept.
        """
        needed = set(self._roots)
        for bulk in self._bulks:
            needed.update(bulk.groups)
        needed.update(self._sharing.group_of(id_).index for id_ in restarting)
        self._pool.required = len(needed)
        return len(needed)

    def fulfil(self) -> list[tuple[SlotRequestBulk, dict[SubtaskID, SlotOffer]]]:
        """Serve the bulks for which there are slots; return each with the slots of its subtasks."""
        served = []
        waiting = []
        for bulk in self._bulks:
            slots = self._serve(bulk)
            if slots is None:
                waiting.append(bulk)
            else:
                served.append((bulk, slots))
        self._bulks = waiting
        return served

    def release(self, subtask_id: SubtaskID, now_ms: int) -> bool:
        """Release a subtask's place; return True if that returned the slot to the pool."""
        leaf = self._leaves.pop(subtask_id, None)
        if leaf is None or not leaf.release():
            return False
        root = self._roots.pop(self._sharing.group_of(subtask_id).index)
        self._pool.free(root.slot.allocation_id, now_ms)
        return True

    def lose(self, lost: Iterable[SlotOffer]) -> list[SubtaskID]:
        """Remove slots that have left the pool; return the subtasks that were in them."""
        allocations = {offer.allocation_id for offer in lost}
        subtasks: list[SubtaskID] = []
        for index, root in list(self._roots.items()):
            if root.slot.allocation_id not in allocations:
                continue
            del self._roots[index]
            for leaf in root.leaves():
                subtask_id = leaf.payload
                if isinstance(subtask_id, tuple):
                    del self._leaves[subtask_id]
            subtasks.extend(p for p in root.release() if isinstance(p, tuple))
        return subtasks

    def timed_out(self, now_ms: int) -> list[SlotRequestBulk]:
        """Remove and return the bulks whose wait has timed out."""
        late = [b for b in self._bulks if now_ms >= self._deadline_ms(b, now_ms)]
        self._bulks = [b for b in self._bulks if b not in late]
        return late

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """Return when the next bulk times out, or None."""
        return min((self._deadline_ms(bulk, now_ms) for bulk in self._bulks), default=None)

    def slots_needed(self, bulk: SlotRequestBulk) -> int:
        """Return how many slots the subtasks of a bulk need in all."""
        return len(bulk.groups)

    def _deadline_ms(self, bulk: SlotRequestBulk, now_ms: int) -> int:
        if self._has_blocking and self.slots_needed(bulk) <= len(self._pool):
            # Regions that run now will finish and leave their slots to this one.
            return max(bulk.requested_ms, now_ms) + self._request_timeout_ms
        return bulk.requested_ms + self._request_timeout_ms

    def _is_current(self, bulk: SlotRequestBulk) -> bool:
        return all(self._graph.subtask(id_).version == version for id_, version in bulk.subtasks)

    def _serve(self, bulk: SlotRequestBulk) -> dict[SubtaskID, SlotOffer] | None:
        chosen = self._choose([i for i in bulk.groups if i not in self._roots])
        if chosen is None:
            return None
        for index, offer in chosen.items():
            self._roots[index] = SharedSlot(self._pool.reserve(offer.allocation_id))
            self._last_slot[index] = offer
        slots = {}
        for id_, _ in bulk.subtasks:
            root = self._roots[self._sharing.group_of(id_).index]
            self._leaves[id_] = self._allocate_leaf(root, id_)
            slots[id_] = root.slot
        return slots

    def _choose(self, indices: list[int]) -> dict[int, SlotOffer] | None:
        """Choose a free slot per group: its former one, else one near it, else any."""
        if self._pool.num_free < len(indices):
            return None
        free = {offer.allocation_id: offer for offer in self._pool.free_slots()}
        chosen: dict[int, SlotOffer] = {}
        for index in indices:
            last = self._last_slot.get(index)
            if last is not None and last.allocation_id in free:
                chosen[index] = free.pop(last.allocation_id)
        for index in indices:
            if index not in chosen:
                executors = self._preferred_executors(index)
                near = next((o for o in free.values() if o.executor_id in executors), None)
                if near is not None:
                    chosen[index] = free.pop(near.allocation_id)
        for index in indices:
            if index not in chosen:
                chosen[index] = free.pop(next(iter(free)))
        return chosen

    def _preferred_executors(self, index: int) -> set[str]:
        """Return the executors of a group's state, else those of its producers if they are few."""
        last = self._last_slot.get(index)
        if last is not None:
            return {last.executor_id}
        executors: set[str] = set()
        for vertex_id, subtask in self._sharing.groups[index].subtasks.values():
            for _, result in self._graph.vertices[vertex_id].inputs:
                partitions = result.partitions_of_consumer(subtask)
                if len(partitions) > MAX_PREFERRED_PRODUCERS:
                    continue
                for partition in partitions:
                    slot = result.producer.subtasks[partition].current.slot
                    if slot is not None:
                        executors.add(slot.executor_id)
        return executors

    def _allocate_leaf(self, root: SharedSlot, subtask_id: SubtaskID) -> SimpleSlot:
        vertex_id, _ = subtask_id
        key = self._graph.subtask(subtask_id).job_vertex.co_location_group
        parent: SharedSlot | None = root
        if key is not None:
            inner = root.children.get(key)
            parent = inner if isinstance(inner, SharedSlot) else root.allocate_shared(key)
        leaf = None if parent is None else parent.allocate_simple(vertex_id)
        if leaf is None or not leaf.set_payload(subtask_id):
            raise RuntimeError(f"the slot has a subtask of vertex {vertex_id.hex()} already")
        return leaf
