"""Values of classes that the program's main file defines, through every part of a job.

Goal: they keep their class, and are never pickled.  Method: the program is a separate script, so
that its classes are those of ``__main__``; on both runtimes, in processes and in threads.
"""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import dataclasses
import enum
import sys
from typing import NamedTuple

from penstock.common import Configuration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    BroadcastProcessFunction, KeyedProcessFunction, OutputTag, ProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.serialization.extended_values import is_pickled


class Side(enum.Enum):
    BUY = 1
    SELL = 2


class Key(NamedTuple):
    name: str
    side: Side


@dataclasses.dataclass
class Order:
    key: Key
    amount: int
    time: int = 0


@dataclasses.dataclass(slots=True, frozen=True)
class Total:
    key: Key
    orders: list


@dataclasses.dataclass
class Rule:
    factor: int


LATE = OutputTag("late")
RULES = MapStateDescriptor("rules", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


def checked(value):
    assert not is_pickled(value), value
    return value


class Times(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.time


class Sided(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        if value.key.side is Side.SELL:
            yield LATE, checked(value)


class Summed(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(
            ValueStateDescriptor("total", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        assert ctx.get_current_key() == value.key
        total = self.total.value() or Total(value.key, [])
        total.orders.append(checked(value))
        self.total.update(total)
        yield total


class Ruled(BroadcastProcessFunction):
    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("rule", checked(value))
        return []

    def process_element(self, value, ctx):
        rule = ctx.get_broadcast_state(RULES).get("rule")
        yield dataclasses.replace(value, amount=value.amount * (rule.factor if rule else 1))


env = StreamExecutionEnvironment.get_execution_environment(
    Configuration.from_dict({"execution.target": sys.argv[1]})
)
env.set_parallelism(2)
keys = [Key(name, side) for name in "abc" for side in Side]
orders = [Order(keys[i % 6], i, i) for i in range(60)]
source = env.from_collection(orders).rebalance().map(checked)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Times())
timed = source.assign_timestamps_and_watermarks(strategy)
sided = timed.process(Sided())
summed = sided.key_by(lambda order: order.key).process(Summed())
windowed = (
    sided.key_by(lambda order: order.key)
    .window(TumblingEventTimeWindows.of(Time.milliseconds(1000)))
    .reduce(lambda a, b: Order(a.key, a.amount + b.amount, a.time))
)
late = sided.get_side_output(LATE).key_by(lambda order: order.key.side).map(checked)
rules = env.from_collection([Rule(2)]).broadcast(RULES)
ruled = source.rebalance().connect(rules).process(Ruled())
everything = summed.map(checked).union(windowed.rebalance(), late, ruled)
with everything.rebalance().map(checked).execute_and_collect() as results:
    found = list(results)

totals = [value for value in found if type(value) is Total]
assert len(totals) == 60
assert {len(total.orders) for total in totals} == set(range(1, 11))
for total in totals:
    assert type(total.key) is Key and type(total.key.side) is Side
    assert all(order.key == total.key and hash(order.key) == hash(total.key)
               for order in total.orders)
values = [value for value in found if type(value) is Order]
assert len(values) == 6 + 30 + 60, len(values)
sums = {key: sum(order.amount for order in orders if order.key == key) for key in keys}
assert sum(sums[order.key] == order.amount for order in values) >= 6
print("done")
"""


@pytest.mark.parametrize("target", ["local", "in-process"])
@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_values_of_the_main_file_keep_their_class_and_are_never_pickled(runtime, target, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), target],
        env=os.environ | {"PENSTOCK_RUNTIME": runtime, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr[-4000:]
