"""Programs that run as a user would start them: in their own process."""

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
from support.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 360


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The output of a program."""

    code: int
    out: str
    err: str


def run_program(
    arguments: list[str],
    interrupt_after: Path | None = None,
    inside: Sequence[str] = (),
    **environment: str,
) -> Outcome:
    """Run ``python ARGUMENTS`` in its own session; no process of that session may be left.

    Args:
        arguments: The arguments of the interpreter.
        interrupt_after: A named pipe; once it was written, the program's process group gets the
            signal of Ctrl-C.
        inside: A command prefix that runs the program elsewhere, as on another host.
        environment: Additional environment variables.
    """
    process = start_program(arguments, inside, **environment)
    if interrupt_after is not None:
        interrupt_after.read_text()
        os.killpg(process.pid, signal.SIGINT)
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        raise AssertionError(f"no end within {LIMIT_S} s\n{out}\n{err}") from None
    assert_nothing_left(process.pid)
    return Outcome(process.returncode, out, err)


def start_program(
    arguments: list[str], inside: Sequence[str] = (), **environment: str
) -> subprocess.Popen[str]:
    """Start ``python ARGUMENTS`` in its own session."""
    return subprocess.Popen(
        [*inside, sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def assert_nothing_left(session_leader: int) -> None:
    """Assert that no process of a session lives, including TaskExecutors in their own groups."""
    left = []
    for process in psutil.process_iter(["cmdline"]):
        try:
            if os.getsid(process.pid) == session_leader:
                left.append(process)
        except (ProcessLookupError, PermissionError):
            continue
    # The kernel ends them with their parent; they may still be exiting.
    _, alive = psutil.wait_procs(left, timeout=PATIENCE_S)
    assert not alive, [process.info["cmdline"] for process in alive]
