"""The workloads as PyFlink programs; the package is penstock or pyflink: ``BENCH["root"]``.

W1 word count, W2 keyed sum, W3 stateless maps and a filter, W4 windowed count, W5 latency.  See
``benchmarks/README.md`` for their definitions.
"""

import importlib
import json
import os
import re
import time
from pathlib import Path

import counted_paths

BENCH = json.loads(os.environ["BENCH"])
ROOT = BENCH["root"]
MARKS = BENCH["marks"]

common = importlib.import_module(ROOT + ".common")
datastream = importlib.import_module(ROOT + ".datastream")
Types = common.Types
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
WORD_COUNT = Types.TUPLE([Types.STRING(), Types.LONG()])


def mark(**values):
    with Path(MARKS).open("a") as out:
        out.write(json.dumps(values) + "\n")


def discard(stream):
    if ROOT == "penstock":
        connectors = importlib.import_module("penstock.datastream.connectors.discard")
        stream.sink_to(connectors.DiscardingSink())
    else:
        base = importlib.import_module(ROOT + ".datastream.connectors.base")
        gateway = importlib.import_module(ROOT + ".java_gateway").get_gateway()
        sink = gateway.jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
        stream.sink_to(base.Sink(sink))


def numbers(env):
    sequence = importlib.import_module(ROOT + ".datastream.connectors.number_seq")
    return env.from_source(
        sequence.NumberSequenceSource(0, BENCH["n"] - 1),
        common.WatermarkStrategy.no_watermarks(),
        "numbers",
        Types.LONG(),
    )


def marking(base, method, function):
    """Return a function object that marks its opening, just before its first record."""

    def opened(self, runtime_context):
        mark(first=time.time_ns())

    cls = type("Marking", (base,), {"open": opened, method: staticmethod(function)})
    return cls()


def first_map(stream, function, output_type):
    return stream.map(marking(datastream.MapFunction, "map", function), output_type)


def word_count(env):
    files = importlib.import_module(ROOT + ".datastream.connectors.file_system")
    source = files.FileSource.for_record_stream_format(
        files.StreamFormat.text_line_format(), BENCH["text"]
    ).build()
    split = re.compile(r"\W+").split
    lines = env.from_source(source, common.WatermarkStrategy.no_watermarks(), "text")
    counts = (
        lines.flat_map(
            marking(
                datastream.FlatMapFunction,
                "flat_map",
                lambda line: [(word, 1) for word in split(line.lower()) if word],
            ),
            WORD_COUNT,
        )
        .key_by(lambda pair: pair[0], Types.STRING())
        .sum(1)
    )
    discard(counts)


def keyed_sum(env, built_in):
    pairs = first_map(numbers(env), lambda number: (number % 10_000, number), PAIR)
    keyed = pairs.key_by(lambda pair: pair[0], Types.LONG())
    if built_in:
        discard(keyed.sum(1))
    else:
        discard(keyed.reduce(lambda left, right: (left[0], left[1] + right[1])))


def stateless(env):
    stream = first_map(numbers(env), lambda number: number + 1, Types.LONG())
    for _ in range(2):
        stream = stream.map(lambda number: number + 1, Types.LONG())
    discard(stream.filter(lambda number: number & 1 == 0))


def windowed_count(env):
    watermarks = importlib.import_module(ROOT + ".common.watermark_strategy")
    functions = importlib.import_module(ROOT + ".datastream.functions")
    window = importlib.import_module(ROOT + ".datastream.window")

    class EventTime(watermarks.TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value[1]

    class Count(functions.AggregateFunction):
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return accumulator + 1

        def get_result(self, accumulator):
            return accumulator

        def merge(self, a, b):
            return a + b

    strategy = common.WatermarkStrategy.for_bounded_out_of_orderness(
        common.Duration.of_seconds(1)
    ).with_timestamp_assigner(EventTime())
    pairs = first_map(
        numbers(env), lambda n: (n * 2654435761 % 1000, 1_700_000_000_000 + n // 20), PAIR
    )
    discard(
        pairs.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda pair: pair[0], Types.LONG())
        .window(window.TumblingEventTimeWindows.of(common.Time.seconds(10)))
        .aggregate(Count(), accumulator_type=Types.LONG(), output_type=Types.LONG())
    )


def latency(env):
    state = importlib.import_module(ROOT + ".datastream.state")

    class Pace(datastream.MapFunction):
        """Holds each number back until it is due, and adds the time of emission."""

        def open(self, runtime_context):
            self.started = None

        def map(self, number):
            if self.started is None:
                self.started = time.time_ns()
                mark(first=self.started)
            due = self.started + number * 1_000_000_000 // BENCH["rate"]
            while (now := time.time_ns()) < due:
                time.sleep(max(50e-6, (due - now) / 1e9))
            return number % 10_000, time.time_ns()

    class Count(datastream.KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(
                state.ValueStateDescriptor("count", Types.LONG())
            )

        def process_element(self, value, ctx):
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            yield count, value[1]

    class Measure(datastream.MapFunction):
        def open(self, runtime_context):
            self.seen = []

        def map(self, value):
            self.seen.append((value[1], time.time_ns() - value[1]))
            return value

        def close(self):
            if self.seen:
                mark(latencies=self.seen)

    env.set_buffer_timeout(BENCH["buffer_timeout"])
    paced = numbers(env).set_parallelism(1).map(Pace(), PAIR).set_parallelism(1)
    counts = paced.key_by(lambda pair: pair[0], Types.LONG()).process(Count(), PAIR)
    discard(counts.map(Measure(), PAIR))


def main():
    configuration = common.Configuration()
    if ROOT == "penstock":
        configuration.set_string(counted_paths.OPTION, "true")
    for key, value in BENCH.get("configuration", {}).items():
        configuration.set_string(key, str(value))
    env = datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(BENCH["parallelism"])
    {
        "W1": lambda: word_count(env),
        "W2": lambda: keyed_sum(env, built_in=False),
        "W2-built-in": lambda: keyed_sum(env, built_in=True),
        "W3": lambda: stateless(env),
        "W4": lambda: windowed_count(env),
        "W5": lambda: latency(env),
    }[BENCH["workload"]]()
    if ROOT != "penstock":
        env.execute(BENCH["workload"])
        mark(last=time.time_ns())
        return
    paths = counted_paths.run(env, BENCH["workload"])
    mark(last=time.time_ns())
    mark(paths=paths)


if __name__ == "__main__":
    main()
