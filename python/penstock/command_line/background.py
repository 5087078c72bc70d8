"""A jobmanager in the background, which outlives the command that starts it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from penstock.session.files import TOKEN_VARIABLE, sessions

START_TIMEOUT_S: Final = 60.0
MAX_LOG_CHARACTERS: Final = 4000

#: The line in which a background jobmanager reports the leader while it stands by.
_STANDBY_DESCRIPTOR: Final = 3


@dataclass(frozen=True)
class StartedJobmanager:
    """A jobmanager in the background.

    Attributes:
        pid: The id of its process.
        log: The path of its log.
        address: The address that it listens on; None while it stands by.
        leader: The leader while it stands by, else None.
    """

    pid: int
    log: str
    address: str | None
    leader: str | None


def start_jobmanager(arguments: list[str], token: str, name: str) -> StartedJobmanager:
    """Start ``penstock jobmanager``, and return when it accepts jobs or stands by.

    Args:
        arguments: The arguments of the command.
        token: The session's token, which is passed by standard input.
        name: The session's name.

    Raises:
        ClickException: It has ended, or does neither after 60 s; then its process is ended,
        too.
    """
    descriptor, log = tempfile.mkstemp(prefix="penstock-session-", suffix=".log")
    reader, writer = os.pipe()
    leaders, standby = os.pipe()
    # Not a Popen: this process does not wait for it, and it outlives this process.
    pid = os.posix_spawn(
        sys.executable,
        [
            *(sys.executable, "-m", "penstock", "jobmanager", *arguments),
            *("--standby-to", str(_STANDBY_DESCRIPTOR)),
        ],
        {key: value for key, value in os.environ.items() if key != TOKEN_VARIABLE},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, reader, 0),
            (os.POSIX_SPAWN_DUP2, descriptor, 1),
            (os.POSIX_SPAWN_DUP2, descriptor, 2),
            (os.POSIX_SPAWN_DUP2, standby, _STANDBY_DESCRIPTOR),
        ],
        setsid=True,
    )
    for one in (descriptor, reader, standby):
        os.close(one)
    with os.fdopen(writer, "w") as pipe:
        pipe.write(token)
    os.set_blocking(leaders, False)
    try:
        return _wait_for(pid, log, leaders, name)
    finally:
        os.close(leaders)


def _wait_for(pid: int, log: str, leaders: int, name: str) -> StartedJobmanager:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            text = Path(log).read_text("utf-8", "replace")[-MAX_LOG_CHARACTERS:]
            Path(log).unlink()
            code = os.waitstatus_to_exitcode(status)
            raise click.ClickException(f"the jobmanager ended with code {code}:\n{text}")
        own = next((one for one in sessions() if one.name == name and one.pid == pid), None)
        if own is not None:
            return StartedJobmanager(pid, log, f"{own.host}:{own.port}", None)
        with contextlib.suppress(BlockingIOError):
            leader = os.read(leaders, MAX_LOG_CHARACTERS).decode("utf-8", "replace")
            if leader:
                return StartedJobmanager(pid, log, None, leader)
        time.sleep(0.05)
    # Otherwise it would become an unexpected session.
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise click.ClickException(f"no session after {START_TIMEOUT_S:.0f} s: {log}")


def tell_leader(descriptor: int, leader: str) -> None:
    """Report the leader to `start_jobmanager`, if it still listens, while this one stands by."""
    with contextlib.suppress(OSError):
        os.write(descriptor, leader.encode())
        os.close(descriptor)
