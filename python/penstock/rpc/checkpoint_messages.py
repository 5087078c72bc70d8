"""The driver's requests about a checkpoint that is about to expire, and the answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock.rpc.message import Message


class AskCheckpoint(Message, frozen=True):
    """Asks how far tasks are with a checkpoint that they have not acknowledged."""

    job_id: bytes
    attempt_ids: tuple[bytes, ...]
    checkpoint_id: int


Stage = Literal["WAITING", "TAKING", "WRITING", "WRITTEN"]
"""WAITING: barriers are missing, or the task has not started it.  TAKING: its functions take their
snapshots.  WRITING: its state is being written.  WRITTEN: its acknowledgement is on the way.
"""


class TaskStanding(msgspec.Struct, frozen=True):
    """State of one task in a checkpoint.

    Attributes:
        attempt_id: The task.
        stage: Its progress.
        operator: The operator whose user code its thread runs; empty if it runs none.
    """

    attempt_id: bytes
    stage: Stage
    operator: str


class CheckpointStandings(Message, frozen=True):
    """The answer of one worker to `AskCheckpoint`, for the tasks that still run there."""

    job_id: bytes
    checkpoint_id: int
    standings: tuple[TaskStanding, ...]
