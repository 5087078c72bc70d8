"""Record of a leader, and whether its machine knows that it has ended."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import msgspec

from penstock.common.decoders import json_decoder


class LeaderRecord(msgspec.Struct, frozen=True):
    """Record of a leader.

    Attributes:
        epoch: Its epoch.
        session: Names this leadership.
        renewals: Goes up while it leads.
        host: The name of its machine, for people.
        process: The process where its machine knows it; see `this_process`.
        is_released: Whether it has ended by itself.
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
"""Decodes what a leader has said."""


def this_process() -> tuple[str, str, int, int]:
    """This machine's run, its table of processes, this process there, and when it started."""
    if sys.platform != "linux":
        return "", "", os.getpid(), 0
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return boot, str(Path("/proc/self/ns/pid").readlink()), os.getpid(), _started(os.getpid()) or 0


def is_gone(process: tuple[str, str, int, int]) -> bool:
    """Return whether a process was one of this machine and is no more."""
    boot, namespace, pid, started = process
    if not boot or (boot, namespace) != this_process()[:2]:
        return False  # nothing is known of it
    return _started(pid) != started


def _started(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
