"""Slots as the JobMaster sees them: where they are and what they are called."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SlotOffer:
    """One slot that a TaskExecutor offers to the job.

    Attributes:
        allocation_id: Unique name of this hand-over of the slot; a new one each time it is free.
        executor_id: TaskExecutor that has it.
        host: Host of the TaskExecutor's data port.
        port: The data port.
        index: Number of the slot on its TaskExecutor.
    """

    allocation_id: bytes
    executor_id: str
    host: str
    port: int
    index: int = 0
