"""The keyed sum that ``checkpoints.py`` measures: one process, its parameters in ``BENCH``.

It appends lines of JSON to the file ``BENCH["marks"]``, as all programs of ``workloads/harness.py``
do, and to ``BENCH["report"]`` its observations of its checkpoints and of the time between elements.
"""

import json
import os
import threading
import time
from pathlib import Path

import psutil
from penstock.checkpoint_storage.metadata_serializer import deserialize_metadata
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import CheckpointListener, MapFunction

BENCH = json.loads(os.environ["BENCH"])
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
#: Spreads neighbouring numbers over the keys.
STRIDE = 7919


def note(file, **content):
    with Path(BENCH[file]).open("a") as lines:
        lines.write(json.dumps(content) + "\n")


class First(MapFunction):
    """Marks the moment before the first record."""

    def open(self, runtime_context):
        note("marks", first=time.time_ns())

    def map(self, value):
        return value


class Watch(MapFunction, CheckpointListener):
    """Records the longest time between two elements, and the memory, once all keys exist.

    Also the longest CPU time of the task's thread between two: other programs on the machine do not
    affect it.

    In the mode ``restore`` it fails once, after a checkpoint with all keys.
    """

    def open(self, runtime_context):
        self.seen = 0
        self.longest_ns = 0
        self.most_used_ns = 0
        self.complete = 0
        self.has_all = False
        self.rss = psutil.Process().memory_info().rss
        self.attempt = runtime_context.get_attempt_number()

    def notify_checkpoint_complete(self, checkpoint_id):
        self.complete += self.has_all

    def map(self, value):
        now, used = time.perf_counter_ns(), time.thread_time_ns()
        self.seen += 1
        if self.seen == 1:
            note("report", attempt=self.attempt, first_ns=time.time_ns())
        elif self.has_all:
            if now - self.last > self.longest_ns:
                self.longest_ns = now - self.last
            if used - self.used > self.most_used_ns:
                self.most_used_ns = used - self.used
            if self.complete >= 2 and self.attempt == 0 and BENCH["mode"] == "restore":
                note("report", failed_ns=time.time_ns())
                raise RuntimeError("the one failure that is measured")
        elif self.seen == BENCH["keys"]:
            self.has_all = True
            note("report", rss_of_keys=psutil.Process().memory_info().rss - self.rss)
        self.last, self.used = now, used
        return value

    def close(self):
        note("report", longest_ns=self.longest_ns, most_used_ns=self.most_used_ns)


def watch_directory(directory, stop):
    """Record the duration and the size of each checkpoint that appears."""
    seen = set()
    while not stop.wait(0.002):
        for found in Path(directory).glob("*/chk-*/_metadata"):
            if found not in seen:
                seen.add(found)
                try:
                    complete_ms = found.stat().st_mtime_ns / 1e6
                    triggered_ms = deserialize_metadata(
                        found.read_bytes(), str(found.parent)
                    ).timestamp_ms
                    size = sum(file.stat().st_size for file in found.parent.iterdir())
                except FileNotFoundError:
                    continue  # deleted meanwhile
                note("report", checkpoint_ms=complete_ms - triggered_ms, bytes=size)


def main():
    configuration = Configuration()
    settings = {
        "execution.target": "local",
        "parallelism.default": str(BENCH["parallelism"]),
    }
    if BENCH["interval"]:
        settings |= {
            "execution.checkpointing.interval": BENCH["interval"],
            "execution.checkpointing.dir": f"file://{BENCH['directory']}",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1",
            "restart-strategy.fixed-delay.delay": "0 ms",
        }
    settings |= BENCH["options"]
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = NumberSequenceSource(0, BENCH["records"] - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    keys = BENCH["keys"]
    pairs = numbers.map(lambda number: (number * STRIDE % keys, 1), PAIR)
    if BENCH["mode"] == "rate":
        started = numbers.filter(lambda number: number < 1).map(First(), Types.LONG())
        started.filter(lambda number: number < 0).print()
    sums = pairs.key_by(lambda pair: pair[0], Types.LONG()).sum(1)
    if BENCH["mode"] != "rate":
        sums = sums.map(Watch(), PAIR)
        note("marks", first=time.time_ns())
    sums.filter(lambda pair: pair[1] < 0).print()
    stop = threading.Event()
    watcher = threading.Thread(target=watch_directory, args=(BENCH["directory"], stop))
    watcher.start()
    try:
        env.execute("keyed sum")
    finally:
        stop.set()
        watcher.join()
    note("marks", last=time.time_ns())


if __name__ == "__main__":
    main()
