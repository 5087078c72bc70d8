"""The slots that TaskExecutors have offered to one job.

The pool is declarative: the job declares how many slots it needs in total, offers are accepted
until that number is reached, and slots beyond the need are released when idle for too long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.jobmaster.slots.slots import SlotOffer


@dataclass
class _PooledSlot:
    offer: SlotOffer
    in_use: bool
    free_since_ms: int


class SlotPool:
    """Slots of one job.

    Args:
        idle_timeout_ms: Time after which a slot that is not needed is released.
    """

    def __init__(self, *, idle_timeout_ms: int = 50_000) -> None:
        self._idle_timeout_ms = idle_timeout_ms
        self._slots: dict[bytes, _PooledSlot] = {}
        self._in_use = 0
        self.required = 0

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def missing(self) -> int:
        """Number of slots needed beyond those in the pool."""
        return max(0, self.required - len(self._slots))

    @property
    def num_free(self) -> int:
        """Number of unused slots."""
        return len(self._slots) - self._in_use

    def offer(self, offer: SlotOffer, now_ms: int) -> bool:
        """Accept an offered slot if it is needed; an accepted one is accepted again."""
        known = self._slots.get(offer.allocation_id)
        if known is not None:
            return known.offer.executor_id == offer.executor_id
        if self.missing == 0:
            return False
        self._slots[offer.allocation_id] = _PooledSlot(offer, in_use=False, free_since_ms=now_ms)
        return True

    def free_slots(self) -> list[SlotOffer]:
        """Return the unused slots, in the order they were accepted."""
        return [slot.offer for slot in self._slots.values() if not slot.in_use]

    def slots(self) -> list[SlotOffer]:
        """Return all slots, in the order they were accepted."""
        return [slot.offer for slot in self._slots.values()]

    def reserve(self, allocation_id: bytes) -> SlotOffer:
        """Mark a free slot as used.

        Raises:
            ValueError: If it is in use.
            KeyError: If it is not in the pool.
        """
        slot = self._slots[allocation_id]
        if slot.in_use:
            raise ValueError(f"slot {allocation_id.hex()} is in use already")
        slot.in_use = True
        self._in_use += 1
        return slot.offer

    def free(self, allocation_id: bytes, now_ms: int) -> None:
        """Mark a slot as free again; ignore one that has left the pool meanwhile."""
        slot = self._slots.get(allocation_id)
        if slot is not None:
            self._in_use -= slot.in_use
            slot.in_use = False
            slot.free_since_ms = now_ms

    def remove(self, allocation_id: bytes) -> SlotOffer | None:
        """Remove a slot from the pool; return it, or None if it was not there."""
        slot = self._slots.pop(allocation_id, None)
        if slot is None:
            return None
        self._in_use -= slot.in_use
        return slot.offer

    def remove_executor(self, executor_id: str) -> list[SlotOffer]:
        """Remove all slots of a TaskExecutor from the pool and return them."""
        lost = [s.offer for s in self._slots.values() if s.offer.executor_id == executor_id]
        for offer in lost:
            self.remove(offer.allocation_id)
        return lost

    def remove_smaller(self, network_buffers: int) -> list[SlotOffer]:
        """Remove and return the unused slots with fewer network buffers than these."""
        small = [offer for offer in self.free_slots() if offer.network_buffers < network_buffers]
        for offer in small:
            del self._slots[offer.allocation_id]
        return small

    def remove_idle(self, now_ms: int) -> list[SlotOffer]:
        """Remove and return the slots that are beyond the need and idle for too long."""
        surplus = len(self._slots) - self.required
        idle = [
            slot.offer
            for slot in self._slots.values()
            if not slot.in_use and now_ms - slot.free_since_ms >= self._idle_timeout_ms
        ]
        released = idle[: max(0, surplus)]
        for offer in released:
            del self._slots[offer.allocation_id]
        return released

    def next_idle_ms(self) -> int | None:
        """Return when the next slot times out as idle, or None."""
        if len(self._slots) <= self.required:
            return None
        times = [s.free_since_ms for s in self._slots.values() if not s.in_use]
        return min(times) + self._idle_timeout_ms if times else None
