"""The memory of a key: at most 120 bytes for an int state, 130 for a running sum.

Method: a million keys in a separate process, whose resident memory is compared before and after;
nothing else references the keys and values, which are ints.  The pure runtime is not measured.
"""

import os
import subprocess
import sys

import pytest

from contract.plane import NATIVE_IS_BUILT

KEYS = 1_000_000
PROGRAM = """
import gc, os, sys

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.graph import operators
from penstock._native.operators.operator_loop import DiscardingOutput
from penstock.testing import KeyedOneInputStreamOperatorTestHarness

class Last(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        self.last.update(value[1])

kind, keys = sys.argv[1], int(sys.argv[2])
value, total = operators.KeyedProcess(Last()), operators.AggregateField("sum", 1)
descriptor = value if kind == "value" else total
harness = KeyedOneInputStreamOperatorTestHarness(descriptor, lambda pair: pair[0])
harness.open()
harness.operator.output = DiscardingOutput()
process = harness.operator.process
first = 1 << 40  # no small int, and no value twice
for number in range(1000):
    process((first - number - 1, first), 0)
gc.collect()
before = resident()
for number in range(keys):
    process((first + number, first + keys + number), 0)
gc.collect()
print((resident() - before) / keys)
"""


@pytest.mark.process
@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")
@pytest.mark.parametrize(("kind", "limit_bytes"), [("value", 120), ("sum", 130)])
def test_memory_of_a_key(kind, limit_bytes):
    command = [sys.executable, "-c", PROGRAM, kind, str(KEYS)]
    environment = {**os.environ, "PENSTOCK_RUNTIME": "native"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=300, env=environment
    )
    assert float(done.stdout) <= limit_bytes
