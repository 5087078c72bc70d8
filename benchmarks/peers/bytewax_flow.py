"""Word count as a Bytewax flow: ``python -m bytewax.testing -p 2 bytewax_flow:flow``."""

import json
import os
import re
import time
from pathlib import Path

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

BENCH = json.loads(os.environ["BENCH"])
BATCH_LINES = 1000


def mark(**values):
    with Path(BENCH["marks"]).open("a") as out:
        out.write(json.dumps(values) + "\n")


class TextPart(StatefulSourcePartition):
    def __init__(self, path):
        self._lines = Path(path).open()  # noqa: SIM115  closed with the partition
        self._marked = False

    def next_batch(self):
        if not self._marked:
            self._marked = True
            mark(first=time.time_ns())
        lines = self._lines.readlines(BATCH_LINES * 60)
        if not lines:
            raise StopIteration
        return lines

    def snapshot(self):
        return None

    def close(self):
        self._lines.close()


class Text(FixedPartitionedSource):
    def list_parts(self):
        return ["0", "1"]

    def build_part(self, step_id, for_part, resume_state):
        return TextPart(f"{BENCH['text']}/part-{for_part}.txt")


class Counting(StatelessSinkPartition):
    def write_batch(self, items):
        pass

    def close(self):
        mark(last=time.time_ns())


class Discard(DynamicSink):
    def build(self, step_id, worker_index, worker_count):
        return Counting()


def running_sum(state, value):
    total = value if state is None else state + value
    return total, total


split = re.compile(r"\W+").split
flow = Dataflow("word_count")
lines = op.input("text", flow, Text())
words = op.flat_map("split", lines, lambda line: [(w, 1) for w in split(line.lower()) if w])
op.output("discard", op.stateful_map("sum", words, running_sum), Discard())
