"""The slots of one TaskExecutor and the tasks in them (worker side of Flink's slot protocol).

FREE → ALLOCATED (given to a job, offered to its JobMaster) → ACTIVE (accepted) → RELEASING (tasks
still running) → FREE.  There is no I/O and no clock here: times are arguments, so the rules are
tested without a cluster.  Not thread-safe; `TaskExecutor` guards it with its lock.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from penstock.errors import PenstockError


class SlotOccupiedError(PenstockError):
    """The slot belongs to another allocation."""


class SlotNotActiveError(PenstockError):
    """No slot of this job and allocation accepts tasks."""


class SlotState(enum.Enum):
    """State of a slot that is not free."""

    ALLOCATED = "ALLOCATED"
    ACTIVE = "ACTIVE"
    RELEASING = "RELEASING"


@dataclass
class TaskSlot:
    """One slot in use; ``deadline_s`` is when an unaccepted allocation expires."""

    index: int
    job_id: bytes
    allocation_id: bytes
    deadline_s: float | None
    state: SlotState = SlotState.ALLOCATED
    attempts: set[bytes] = field(default_factory=set)


class TaskSlotTable:
    """Maps slots to allocations and to the attempts that run in them."""

    def __init__(self, slots: int, slot_timeout_s: float) -> None:
        self._count = slots
        self._slot_timeout_s = slot_timeout_s
        self._by_allocation: dict[bytes, TaskSlot] = {}
        self._by_attempt: dict[bytes, TaskSlot] = {}

    def allocate(self, index: int, job_id: bytes, allocation_id: bytes, now_s: float) -> TaskSlot:
        """Allocate a free slot to a job; repeating the same allocation is harmless.

        Raises:
            SlotOccupiedError: another allocation holds the slot, or there is no such slot.
        """
        if not 0 <= index < self._count:
            raise SlotOccupiedError(f"there is no slot {index}: this worker has {self._count}")
        known = self._by_allocation.get(allocation_id)
        if known is not None:
            if (known.index, known.job_id) != (index, job_id):
                raise SlotOccupiedError(
                    f"allocation {allocation_id.hex()} holds slot {known.index} already"
                )
            return known
        for slot in self._by_allocation.values():
            if slot.index == index:
                raise SlotOccupiedError(
                    f"slot {index} is held by allocation {slot.allocation_id.hex()}"
                )
        slot = TaskSlot(index, job_id, allocation_id, now_s + self._slot_timeout_s)
        self._by_allocation[allocation_id] = slot
        return slot

    def mark_active(self, job_id: bytes, allocation_id: bytes) -> None:
        """Mark a slot as accepted by the job.

        Raises:
            SlotNotActiveError: the slot is not held by this job, or is being released.
        """
        slot = self._by_allocation.get(allocation_id)
        if slot is None or slot.job_id != job_id or slot.state is SlotState.RELEASING:
            raise SlotNotActiveError(
                f"no slot is allocated to job {job_id.hex()} as {allocation_id.hex()}"
            )
        slot.state = SlotState.ACTIVE
        slot.deadline_s = None

    def add_task(self, job_id: bytes, allocation_id: bytes, attempt_id: bytes) -> None:
        """Put a task into a slot; an ALLOCATED slot becomes ACTIVE.

        Raises:
            SlotNotActiveError: as `mark_active`.
        """
        self.mark_active(job_id, allocation_id)
        slot = self._by_allocation[allocation_id]
        slot.attempts.add(attempt_id)
        self._by_attempt[attempt_id] = slot

    def serves(self, job_id: bytes) -> bool:
        """Return whether the job has a slot."""
        return any(slot.job_id == job_id for slot in self._by_allocation.values())

    def remove_task(self, attempt_id: bytes) -> TaskSlot | None:
        """Remove an ended task; return the slot if that freed it."""
        slot = self._by_attempt.pop(attempt_id, None)
        if slot is None:
            return None
        slot.attempts.discard(attempt_id)
        if slot.state is SlotState.RELEASING and not slot.attempts:
            del self._by_allocation[slot.allocation_id]
            return slot
        return None

    def release(self, allocation_id: bytes) -> tuple[TaskSlot | None, frozenset[bytes]]:
        """Release a slot.

        Returns:
            The slot if it is free now, and the attempts that must end first if it is not.
        """
        slot = self._by_allocation.get(allocation_id)
        if slot is None:
            return None, frozenset()
        slot.state = SlotState.RELEASING
        slot.deadline_s = None
        if slot.attempts:
            return None, frozenset(slot.attempts)
        del self._by_allocation[allocation_id]
        return slot, frozenset()

    def expired(self, now_s: float) -> list[TaskSlot]:
        """Return the allocated slots that no JobMaster accepted in time."""
        return [
            slot
            for slot in self._by_allocation.values()
            if slot.deadline_s is not None and slot.deadline_s <= now_s
        ]

    def next_deadline_s(self) -> float | None:
        """Return the time at which the next allocation expires."""
        deadlines = [s.deadline_s for s in self._by_allocation.values() if s.deadline_s is not None]
        return min(deadlines, default=None)
