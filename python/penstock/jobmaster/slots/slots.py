"""Slots as the JobMaster sees them: their location and their ids."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SlotOffer:
    """One slot that a TaskExecutor offers to the job.

    Attributes:
        allocation_id: Unique id of this allocation of the slot; a new one each time it is free.
        executor_id: The TaskExecutor that has it.
        host: Host of the TaskExecutor's data port.
        port: The data port.
        index: Number of the slot on its TaskExecutor.
        network_buffers: Its share of the TaskExecutor's network buffers.
    """

    allocation_id: bytes
    executor_id: str
    host: str
    port: int
    index: int = 0
    network_buffers: int = 0
