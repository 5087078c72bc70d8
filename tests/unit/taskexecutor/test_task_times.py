"""Shares of a task's time: idle, soft and hard back pressured, busy (internals M25)."""

from types import SimpleNamespace

import pytest
from penstock.taskexecutor.task.task_times import TaskTimes

MS = 1_000_000


class Clock:
    """A time that only the test advances."""

    def __init__(self):
        self.now_ns = 5

    def __call__(self):
        return self.now_ns

    def pass_ms(self, count):
        self.now_ns += count * MS


def test_shares_of_a_second():
    clock, metrics = Clock(), {}
    partitions = [SimpleNamespace(hard_back_pressured_ms=0) for _ in range(2)]
    times = TaskTimes(metrics, partitions, clock)
    waited_ns = 0
    times.input_idle_ns = lambda: waited_ns
    names = ["idle", "softBackPressured", "hardBackPressured", "backPressured", "busy"]

    def shares():
        return [metrics[f"{name}TimeMsPerSecond"]() for name in names]

    assert shares() == [0, 0, 0, 0, 1000]
    assert times.soft_back_pressured(lambda: clock.pass_ms(400) or True)
    times.idle(lambda: clock.pass_ms(300))
    waited_ns += 100 * MS
    clock.pass_ms(1300)
    partitions[0].hard_back_pressured_ms += 150
    partitions[1].hard_back_pressured_ms += 50
    assert shares() == [200, 200, 100, 300, 500]
    clock.pass_ms(999)
    assert shares() == [200, 200, 100, 300, 500]
    clock.pass_ms(1)
    assert shares() == [0, 0, 0, 0, 1000]


def test_the_longest_period_of_back_pressure_is_reported():
    """Waits in a row count as one until all outputs have buffers; an unfinished wait counts."""
    clock, metrics = Clock(), {}
    waits = [[0, 0, 0], [7, 20, 0]]
    partitions = [
        SimpleNamespace(hard_back_pressured_ms=0, take_longest_wait_ms=iter(one).__next__)
        for one in waits
    ]
    times = TaskTimes(metrics, partitions, clock)

    def told():
        values = {
            kind: {metrics[f"max{kind}BackPressure{d}TimeMs"]() for d in ("d", "")}
            for kind in ("Soft", "Hard")
        }
        return [value for (value,) in values.values()]

    assert told() == [0, 0]
    for is_available in (False, False, True):
        times.soft_back_pressured(lambda found=is_available: clock.pass_ms(100) or found)
    times.end_soft_back_pressure()
    times.soft_back_pressured(lambda: clock.pass_ms(50) or True)
    times.end_soft_back_pressure()
    clock.pass_ms(1000)
    assert told() == [300, 7]
    times.soft_back_pressured(lambda: clock.pass_ms(1100) or False)
    assert told() == [1100, 20]
    times.end_soft_back_pressure()
    clock.pass_ms(1000)
    # That period went on after the report, until its end.
    assert told() == [1100, 0]


def test_the_clock_of_idleness_stands_still_under_back_pressure():
    clock = Clock()
    partition = SimpleNamespace(hard_back_pressured_ms=0)
    times = TaskTimes({}, [partition], clock)
    clock.pass_ms(500)
    times.idle(lambda: clock.pass_ms(250))
    assert times.unhindered_s() == 0.75
    times.soft_back_pressured(lambda: clock.pass_ms(4000) or False)
    assert times.unhindered_s() == 0.75
    clock.pass_ms(1000)
    partition.hard_back_pressured_ms = 750
    assert times.unhindered_s() == 1.0


def test_shares_stay_within_a_second():
    """Waits of several outputs may overlap; each share is at most a second."""
    clock, metrics = Clock(), {}
    partitions = [SimpleNamespace(hard_back_pressured_ms=0)]
    TaskTimes(metrics, partitions, clock)
    partitions[0].hard_back_pressured_ms = 5000
    clock.pass_ms(1000)
    assert metrics["hardBackPressuredTimeMsPerSecond"]() == 1000
    assert metrics["backPressuredTimeMsPerSecond"]() == 1000
    assert metrics["busyTimeMsPerSecond"]() == 0


def test_share_that_is_not_back_pressured():
    """Each call covers the time since the previous one, whatever kept the task from its input."""
    clock = Clock()
    partitions = [SimpleNamespace(hard_back_pressured_ms=0)]
    times = TaskTimes({}, partitions, clock)
    share = times.share_not_back_pressured()
    clock.pass_ms(200)
    assert share() == pytest.approx(1)
    times.soft_back_pressured(lambda: clock.pass_ms(100) or True)
    partitions[0].hard_back_pressured_ms += 50
    clock.pass_ms(50)
    clock.pass_ms(50)
    assert share() == pytest.approx(0.25)
    partitions[0].hard_back_pressured_ms += 500
    clock.pass_ms(10)
    assert share() == 0
    clock.pass_ms(10)
    assert share() == pytest.approx(1)
