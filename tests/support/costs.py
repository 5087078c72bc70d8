"""A pytest plugin that records the cost of each test: wall time, CPU time and processes.

Each process of pytest writes a line of JSON for each of its tests into the folder that
``--costs`` names; ``python -m support.costs FOLDER`` makes tables of these files.  CPU time is that
of the test's process and all of its descendants, sampled ten times a second.
"""

import contextlib
import json
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

INTERVAL_S = 0.1
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
#: The system's own functions, which a test may replace.
_OPEN, _LISTDIR = open, os.listdir


def pytest_addoption(parser):
    parser.getgroup("costs of tests").addoption(
        "--costs",
        metavar="FOLDER",
        type=Path,
        help="record the wall time, CPU time and processes of each test into FOLDER",
    )


def pytest_configure(config):
    if config.option.costs is not None:
        config.option.costs.mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(Costs(config.option.costs), "costs_of_tests")


class Costs:
    def __init__(self, folder):
        self._path = folder / f"{os.getpid()}.jsonl"
        self._descendants = Descendants()

    def pytest_sessionstart(self):
        self._descendants.start()

    def pytest_sessionfinish(self):
        self._descendants.stop()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        before = self._totals()
        try:
            return (yield)
        finally:
            wall_s, own_s, reaped_s, sampled_s, ended_s, processes = (
                now - then for now, then in zip(self._totals(), before, strict=True)
            )
            # Samples miss the last moments of processes, which are in the time of those that were
            # reaped; so is all of what they took in earlier tests.
            cost = {
                "test": item.nodeid,
                "wall_s": round(wall_s, 3),
                "cpu_s": round(own_s + sampled_s + max(reaped_s - ended_s, 0), 3),
                "processes": processes,
            }
            with self._path.open("a") as file:
                file.write(json.dumps(cost) + "\n")

    def _totals(self):
        times = os.times()
        sampled_s, ended_s, processes = self._descendants.totals()
        own_s = times.user + times.system
        return (
            time.monotonic(),
            own_s,
            times.children_user + times.children_system,
            sampled_s,
            ended_s,
            processes,
        )


class Descendants:
    """The descendants of this process, each with its last known CPU time."""

    def __init__(self):
        self._cpu_s = {}
        self._alive = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="costs", daemon=True)

    def start(self):
        self._thread.start()

    def stop(self):
        self._ended.set()
        self._thread.join()

    def totals(self):
        """Return the CPU time of all descendants so far, of those that have ended, and how many."""
        self._look()
        with self._lock:
            ended = sum(s for process, s in self._cpu_s.items() if process not in self._alive)
            return sum(self._cpu_s.values()), ended, len(self._cpu_s)

    def _watch(self):
        while not self._ended.wait(INTERVAL_S):
            self._look()

    def _look(self):
        with self._lock:
            self._alive.clear()
            left = _children(os.getpid())
            while left:
                pid = left.pop()
                # The process may end meanwhile.
                with contextlib.suppress(OSError, IndexError):
                    fields = _text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
                    ticks, started = int(fields[11]) + int(fields[12]), fields[19]
                    self._cpu_s[pid, started] = ticks / TICKS_PER_SECOND
                    self._alive.add((pid, started))
                    left += _children(pid)


def _children(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in _LISTDIR(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += _text_of(f"/proc/{pid}/task/{task}/children").split()
    return found


def _text_of(path):
    with _OPEN(path) as file:
        return file.read()


def recorded(folder):
    """Return the costs of all tests that are recorded in a folder."""
    return [
        json.loads(line)
        for path in Path(folder).glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]


def table(costs, group, limit):
    """Return a Markdown table of costs by group, the most CPU time first."""
    sums = defaultdict(lambda: [0, 0.0, 0.0, 0])
    for cost in costs:
        of_group = sums[group(cost["test"])]
        of_group[0] += 1
        of_group[1] += cost["wall_s"]
        of_group[2] += cost["cpu_s"]
        of_group[3] += cost["processes"]
    lines = ["| | tests | wall s | CPU s | processes |", "|---|---:|---:|---:|---:|"]
    largest = sorted(sums.items(), key=lambda item: -item[1][2])
    for name, (tests, wall_s, cpu_s, processes) in largest[:limit]:
        lines.append(f"| `{name}` | {tests} | {wall_s:.0f} | {cpu_s:.0f} | {processes} |")
    return "\n".join(lines)


def main():
    costs = recorded(sys.argv[1])
    print(table(costs, lambda test: "all", 1), end="\n\n")
    print(table(costs, lambda test: "/".join(test.split("/")[:2]), 20), end="\n\n")
    print(table(costs, lambda test: test.partition("::")[0], 60), end="\n\n")
    print(table(costs, lambda test: test.partition("[")[0], 60))


if __name__ == "__main__":
    main()
