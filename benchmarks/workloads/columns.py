"""The workloads W1 to W4 in columns: expressions, functions of batches and named aggregates.

`all_workloads.py` runs it as the engine ``columns``, and as ``last-values`` with one result for
each key and batch instead of a running one.  The numbers are read from Parquet; the text is read
line by line.
"""

import json
import os
import time
from pathlib import Path

import numpy as np
import penstock.aggregates as agg
import pyarrow as pa
import pyarrow.compute as pc
from penstock.common import Configuration, Time, Types, WatermarkStrategy
from penstock.common.time import Duration
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DiscardingSink
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.formats.parquet import ParquetColumnarRowInputFormat
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.expressions import as_tuple, field
from pyarrow import parquet

BENCH = json.loads(os.environ["BENCH"])
LONG = Types.LONG()
PAIR = Types.TUPLE([LONG, LONG])


def mark(**values):
    with Path(BENCH["marks"]).open("a") as out:
        out.write(json.dumps(values) + "\n")


class FirstRecord:
    """Marks the first batch of a task and passes all on."""

    def __init__(self):
        self.seen = False

    def __call__(self, batch):
        if not self.seen:
            self.seen = True
            mark(first=time.time_ns())
        return batch


class Words(FirstRecord):
    """Splits lines into words in lower case."""

    def __call__(self, batch):
        lines = pc.utf8_lower(super().__call__(batch).column(0))
        words = pc.list_flatten(pc.split_pattern_regex(lines, r"\W+"))
        return pa.record_batch({"word": words.filter(pc.not_equal(words, ""))})


def numbers(env):
    """Return the numbers, read from Parquet files that are written before the job starts."""
    row = Types.ROW_NAMED(["number"], [LONG])
    table = pa.table({"number": np.arange(BENCH["n"], dtype=np.int64)})
    half = len(table) // 2
    Path("numbers").mkdir()
    for number, part in enumerate((table[:half], table[half:])):
        parquet.write_table(part, f"numbers/{number}.parquet", compression="snappy")
    columns = ParquetColumnarRowInputFormat(row)
    source = FileSource.for_bulk_file_format(columns, str(Path("numbers").resolve())).build()
    read = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    return read.map_batches(FirstRecord(), row)


def word_count(env):
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), BENCH["text"])
    lines = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "text")
    words = lines.map_batches(Words(), Types.ROW_NAMED(["word"], [Types.STRING()]))
    return words.key_by(field("word")).aggregate({"count": agg.count()}, emit=BENCH["emit"])


def keyed_sum(env):
    pairs = numbers(env).map(as_tuple(field("number") % 10_000, field("number")), PAIR)
    return pairs.key_by(field(0)).aggregate({"sum": agg.sum(1)}, emit=BENCH["emit"])


def stateless(env):
    stream = numbers(env)
    for _ in range(3):
        stream = stream.map(as_tuple(field(0) + 1), Types.TUPLE([LONG]))
    return stream.filter(field(0) % 2 == 0)


def windowed_count(env):
    number = field("number")
    pairs = numbers(env).map(
        as_tuple(number * 2_654_435_761 % 1000, 1_700_000_000_000 + number // 20), PAIR
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    timed = pairs.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(field(1)))
    windows = timed.key_by(field(0)).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    return windows.aggregate({"count": agg.count()})


PROGRAMS = {
    "W1": word_count,
    "W2-built-in": keyed_sum,
    "W3": stateless,
    "W4": windowed_count,
}


def main():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(BENCH["parallelism"])
    PROGRAMS[BENCH["workload"]](env).sink_to(DiscardingSink())
    if os.environ.get("EXPLAIN"):
        print(env.explain(analyze=True))
    else:
        env.execute(BENCH["workload"])
    mark(last=time.time_ns())


if __name__ == "__main__":
    main()
