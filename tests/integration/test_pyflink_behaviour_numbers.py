"""Numbers that are not integers where integers are expected, and functions with their own names.

Goal: as in PyFlink 2.3, timestamps, timers and values declared as integers lose their fractions,
and a callable is called even if it has a method with the name of a function's.  Method: one job
with a branch for each, whose results PyFlink returned.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np
from penstock.common import Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class Half(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value + 0.5


class Timers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value + 0.9)
        ctx.timer_service().register_event_time_timer(value + 7.5)
        ctx.timer_service().delete_event_time_timer(value + 7)
        yield value, ctx.timestamp()

    def on_timer(self, timestamp, ctx):
        yield "timer", timestamp


class Keys(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield "key", ctx.get_current_key()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Half())
keyed = env.from_collection([1, 2], Types.LONG()).key_by(lambda value: 0)
timed = env.from_collection([1, 2]).assign_timestamps_and_watermarks(strategy)
timed = timed.key_by(lambda value: 0).process(Timers())
summed = keyed.reduce(np.add).map(lambda value: ("sum", int(value)))
counted = keyed.count_window(2).reduce(np.add).map(lambda value: ("window", int(value)))
numbers = env.from_collection([1, 1.5, 2.9])
by_whole = numbers.key_by(lambda value: value, Types.INT()).process(Keys())
halves = numbers.map(lambda value: value * 2.5, Types.INT())
in_chain = halves.map(lambda value: ("chained", value))
written = halves.rebalance().map(lambda value: ("written", value))
with timed.union(summed, counted, by_whole, in_chain, written).execute_and_collect() as results:
    print(sorted(results, key=str))
"""


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_fractions_are_cut_off_and_callables_are_called(tmp_path: Path, runtime: str) -> None:
    pytest.importorskip("numpy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {
        **os.environ,
        "PENSTOCK_RUNTIME": runtime,
        "PENSTOCK_EXECUTION_TARGET": "in-process",
    }
    command = [sys.executable, str(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    expected = [
        *[("chained", 2), ("chained", 3), ("chained", 7)],
        *[("key", 1), ("key", 1), ("key", 2)],
        *[("sum", 1), ("sum", 3), ("timer", 1), ("timer", 2), ("window", 3)],
        *[("written", 2), ("written", 3), ("written", 7)],
        *[(1, 1), (2, 2)],
    ]
    assert done.stdout == f"{expected}\n", done.stderr
