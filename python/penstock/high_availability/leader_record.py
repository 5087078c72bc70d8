"""The record of a leader, and a check of its process on the same machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import msgspec

from penstock.common.values.decoders import json_decoder


class LeaderRecord(msgspec.Struct, frozen=True):
    """The record of a leader.

    Attributes:
        epoch: The epoch of the leader.
        session: A unique name of this leadership.
        renewals: A counter that increases while it leads.
        host: The name of its machine, for people.
        process: The process on its machine; see `this_process`.
        is_released: Whether it released the leadership itself.
    """

    epoch: int
    session: str
    renewals: int
    host: str
    process: tuple[str, str, int, int]
    is_released: bool = False

    def __str__(self) -> str:
        return f"process {self.process[2]} on {self.host}"


LEADER_RECORDS: Final = json_decoder(LeaderRecord)
"""Decoder of a leader's record."""


def this_process() -> tuple[str, str, int, int]:
    """Return boot id, PID namespace, PID and start time of this process."""
    if sys.platform != "linux":
        return "", "", os.getpid(), 0
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return boot, str(Path("/proc/self/ns/pid").readlink()), os.getpid(), _started(os.getpid()) or 0


def is_gone(process: tuple[str, str, int, int]) -> bool:
    """Return whether a process ran on this machine and has ended."""
    boot, namespace, pid, started = process
    if not boot or (boot, namespace) != this_process()[:2]:
        return False  # it ran elsewhere
    return _started(pid) != started


def _started(pid: int) -> int | None:
    """Return the start time of a process, in kernel ticks; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
