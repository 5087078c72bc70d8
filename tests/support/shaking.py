"""A pytest plugin that stops processes of tests at random, each for up to 1.4 s.

A process that is stopped for a moment is like one on a busy machine: the processes that wait for it
must neither fail nor repeat anything.  With ``--shake=SEED`` each process of pytest starts a
companion, which stops one process after the other, pytest's own included, by SIGSTOP and SIGCONT.
The companion restarts with the seed for each test, so that a test is shaken in the same way
whatever ran before it; which processes it can stop depends on the machine.

Tests that need no processes, and those that stop some themselves, are excluded.
"""

import contextlib
import os
import random
import select
import subprocess
import sys

import psutil
import pytest
from support.leftovers import without_mark

LONGEST_PAUSE_S = 1.4
LONGEST_REST_S = 1.0


def pytest_addoption(parser):
    parser.getgroup("shaken tests").addoption(
        "--shake",
        metavar="SEED",
        help="stop processes of the tests at random, each for up to 1.4 s",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "stops_processes: stops processes itself, so --shake leaves it alone"
    )
    if config.option.shake is not None and not config.option.collectonly:
        config.pluginmanager.register(Shaking(config.option.shake), "shaking")


class Shaking:
    """Notifies the companion when a test starts and ends."""

    def __init__(self, seed):
        self._seed = seed
        self._companion = None

    def pytest_unconfigure(self):
        if self._companion is not None:
            self._companion.communicate()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self):
        # Before fixtures, some of which compare the processes before and after a test.
        if self._companion is None:
            self._companion = _start_companion(self._seed)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        if not item.get_closest_marker("process") or item.get_closest_marker("stops_processes"):
            return (yield)
        print(item.nodeid, file=self._companion.stdin)
        try:
            return (yield)
        finally:
            print(file=self._companion.stdin)
            pauses = iter(self._companion.stdout.readline, "\n")
            item.add_report_section("call", "pauses", "".join(pauses))


def _start_companion(seed):
    return subprocess.Popen(
        [sys.executable, "-m", "support.shaking", seed, str(os.getpid())],
        env={**without_mark(), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def shake(seed, pid, commands, report):
    """Stop `pid` and its descendants at random while a test runs.

    Each line of `commands` names a test that starts.  An empty line ends the test; the answer is
    the list of the pauses and an empty line.
    """
    for test in iter(commands.readline, b""):
        chance = random.Random(f"{seed} {test.decode().strip()}")
        while not _ended_within(chance.uniform(0, LONGEST_REST_S), commands):
            process = chance.choice(_processes(pid))
            pause_s = chance.uniform(0, LONGEST_PAUSE_S)
            with contextlib.suppress(psutil.Error):  # it may have ended
                _pause(process, pause_s, report)
        commands.readline()
        print(file=report, flush=True)


def _ended_within(rest_s, commands):
    return bool(select.select([commands], [], [], rest_s)[0])


def _processes(pid):
    process = psutil.Process(pid)
    others = [one for one in process.children(recursive=True) if one.pid != os.getpid()]
    return sorted([process, *others], key=lambda one: one.pid)


def _pause(process, pause_s, report):
    command = " ".join(process.cmdline())[:100]
    process.suspend()
    try:
        select.select([], [], [], pause_s)
    finally:
        process.resume()
    print(f"{pause_s:.2f} s: {process.pid} {command!r}", file=report)


if __name__ == "__main__":
    # Unbuffered, so that no line is read ahead.
    with open(0, "rb", buffering=0) as commands:
        shake(sys.argv[1], int(sys.argv[2]), commands, sys.stdout)
