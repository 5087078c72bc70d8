"""The workloads as Bytewax flows: ``python -m bytewax.testing -p 2 bytewax_flow:flow``."""

import json
import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bytewax.operators as op
import bytewax.operators.windowing as windowing
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

BENCH = json.loads(os.environ["BENCH"])
WORKLOAD = BENCH["workload"]
BATCH = 1000


def mark(**values):
    with Path(BENCH["marks"]).open("a") as out:
        out.write(json.dumps(values) + "\n")


class Part(StatefulSourcePartition):
    """Marks the first record; subclasses return batches."""

    marked = False

    def next_batch(self):
        if not self.marked:
            self.marked = True
            mark(first=time.time_ns())
        batch = self.batch()
        if batch is None:
            raise StopIteration
        return batch

    def snapshot(self):
        return None


class TextPart(Part):
    def __init__(self, path):
        self._lines = Path(path).open()  # noqa: SIM115  closed with the partition

    def batch(self):
        return self._lines.readlines(BATCH * 60) or None

    def close(self):
        self._lines.close()


class NumberPart(Part):
    """Emits every second number, turned into an element."""

    def __init__(self, first, element):
        self._next = first
        self._element = element

    def batch(self):
        numbers = range(self._next, min(BENCH["n"], self._next + 2 * BATCH), 2)
        self._next += 2 * BATCH
        return [self._element(number) for number in numbers] if numbers else None


class PacedPart(Part):
    """Emits (key, time of emission) at a fixed rate."""

    def __init__(self):
        self._next = 0
        self._started = None
        self._awake = None

    def _due(self, index):
        return self._started + index * 1_000_000_000 // BENCH["rate"]

    def batch(self):
        if self._started is None:
            self._started = time.time_ns()
        if self._next >= BENCH["n"]:
            return None
        batch = []
        while self._next < BENCH["n"] and self._due(self._next) <= time.time_ns():
            batch.append((str(self._next % 10_000), time.time_ns()))
            self._next += 1
        rest_us = max(0, self._due(self._next) - time.time_ns()) // 1000
        self._awake = datetime.now(UTC) + timedelta(microseconds=rest_us)
        return batch

    def next_awake(self):
        return self._awake


ELEMENTS = {
    "W2": lambda number: (str(number % 10_000), number),
    "W3": lambda number: number,
    "W4": lambda n: (str(n * 2654435761 % 1000), 1_700_000_000_000 + n // 20),
}


class Source(FixedPartitionedSource):
    def list_parts(self):
        return ["0"] if WORKLOAD == "W5" else ["0", "1"]

    def build_part(self, step_id, for_part, resume_state):
        if WORKLOAD == "W1":
            return TextPart(f"{BENCH['text']}/part-{for_part}.txt")
        if WORKLOAD == "W5":
            return PacedPart()
        return NumberPart(int(for_part), ELEMENTS[WORKLOAD])


class Discarding(StatelessSinkPartition):
    def write_batch(self, items):
        pass

    def close(self):
        mark(last=time.time_ns())


class Measuring(StatelessSinkPartition):
    def __init__(self):
        self._seen = []

    def write_batch(self, items):
        for _, (_, stamp) in items:
            now = time.time_ns()
            self._seen.append((stamp, now - stamp))

    def close(self):
        if self._seen:
            mark(latencies=self._seen)
        mark(last=time.time_ns())


class Sink(DynamicSink):
    def build(self, step_id, worker_index, worker_count):
        return Measuring() if WORKLOAD == "W5" else Discarding()


def running_sum(state, value):
    total = value if state is None else state + value
    return total, total


def running_count(state, stamp):
    count = 1 if state is None else state + 1
    return count, (count, stamp)


def word_count(lines):
    split = re.compile(r"\W+").split
    words = op.flat_map("split", lines, lambda line: [(w, 1) for w in split(line.lower()) if w])
    return op.stateful_map("sum", words, running_sum)


def stateless(numbers):
    for index in range(3):
        numbers = op.map(f"map {index}", numbers, lambda number: number + 1)
    return op.filter("filter", numbers, lambda number: number & 1 == 0)


def windowed_count(pairs):
    clock = windowing.EventClock(
        ts_getter=lambda pair: datetime.fromtimestamp(pair[1] / 1000, UTC),
        wait_for_system_duration=timedelta(seconds=1),
    )
    windower = windowing.TumblingWindower(
        length=timedelta(seconds=10), align_to=datetime(2023, 1, 1, tzinfo=UTC)
    )
    return windowing.count_window("count", pairs, clock, windower, key=lambda pair: pair[0]).down


WORKLOADS = {
    "W1": word_count,
    "W2": lambda pairs: op.stateful_map("sum", pairs, running_sum),
    "W3": stateless,
    "W4": windowed_count,
    "W5": lambda pairs: op.stateful_map("count", pairs, running_count),
}

flow = Dataflow("workload")
op.output("sink", WORKLOADS[WORKLOAD](op.input("source", flow, Source())), Sink())
