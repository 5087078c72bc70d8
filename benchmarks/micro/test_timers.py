"""The timer queue: registering timers, and removing due ones."""

import os

import pytest
from penstock.taskexecutor.compiled import TimerQueue
from penstock.taskexecutor.state.heap import StateTable

RECORDS = int(os.environ.get("PENSTOCK_BENCH_RECORDS", "1000"))


@pytest.mark.parametrize("distinct_times", [10, RECORDS])
def test_add_then_remove(benchmark, distinct_times):
    def run():
        queue = TimerQueue(StateTable("timers", "timer"))
        for number in range(RECORDS):
            queue.add(number % distinct_times, number, None)
        for number in range(RECORDS):
            queue.remove(number % distinct_times, number, None)
        return queue

    benchmark(run)
