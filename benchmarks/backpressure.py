"""The duration of checkpoints while a sink is slower than its sources.

    python benchmarks/backpressure.py [--seconds 25] [--only "aligned"]

A source of records of 100 bytes, a map and a function that takes a millisecond for each record,
with an exchange between each two: buffers are full everywhere.  Prints, for each way in which
barriers can pass, the time from the trigger of a checkpoint until it is complete, and the amount of
in-flight data in it.
"""

import argparse
import statistics
import time
from typing import Any

from jobs import ended
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.jobmaster.checkpointing.statistics import CheckpointStatistics
from workloads import harness

RECORD = Types.TUPLE([Types.LONG(), Types.STRING()])
PADDING = "x" * 86
UNALIGNED = "execution.checkpointing.unaligned.enabled"
TIMEOUT = "execution.checkpointing.aligned-checkpoint-timeout"
DEBLOATED = "taskmanager.network.memory.buffer-debloat.enabled"
WAYS = {
    "unaligned": {UNALIGNED: "true"},
    "unaligned after 100 ms": {UNALIGNED: "true", TIMEOUT: "100 ms"},
    "aligned": {},
    "aligned, debloated buffers": {DEBLOATED: "true"},
}
GOALS_MS = {"unaligned": 15, "aligned": 3000, "aligned, debloated buffers": 1000}
FLINK_MS = {"unaligned": 27, "aligned": 5900}


class Slow(MapFunction):  # type: ignore[misc]
    """Takes a millisecond."""

    def map(self, value: Any) -> Any:
        time.sleep(0.001)
        return value


def checkpoints(options: dict[str, str], seconds: float) -> list[tuple[float, int]]:
    """Return milliseconds and in-flight bytes of each checkpoint that a job completes."""
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.timeout": "60 s",
        **options,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    numbers = env.from_source(
        NumberSequenceSource(0, 1 << 40), WatermarkStrategy.no_watermarks(), "numbers"
    )
    (
        numbers.map(lambda number: (number, PADDING), RECORD)
        .rebalance()
        .map(lambda record: record, RECORD)
        .rebalance()
        .map(Slow(), RECORD)
        .filter(lambda _: False)
        .print()
    )
    found: list[tuple[float, int]] = []
    method = CheckpointStatistics.completed

    def completed(self: CheckpointStatistics, *arguments: Any) -> None:
        method(self, *arguments)
        record = self.latest["completed"]
        end_ms = record.end_ms or record.trigger_ms
        found.append((end_ms - record.trigger_ms, record.total("persisted_bytes")))

    CheckpointStatistics.completed = completed  # type: ignore[method-assign]
    try:
        client = env.execute_async("backpressured")
        time.sleep(seconds)
        ended(client)
    finally:
        CheckpointStatistics.completed = method  # type: ignore[method-assign]
    # The first checkpoint finds buffers that are not full yet.
    return found[1:]


def main() -> None:
    """Measure every way; print and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=25.0, help="of each aligned way")
    parser.add_argument("--only", choices=WAYS, action="append", help="what is measured")
    arguments = parser.parse_args()
    seconds = arguments.seconds
    results: list[dict[str, object]] = []
    for way in arguments.only or WAYS:
        options = WAYS[way]
        found = checkpoints(options, 10.0 if UNALIGNED in options else seconds)
        if not found:
            raise SystemExit(
                f"{way}: no checkpoint while buffers were full; give it more --seconds"
            )
        times, sizes = zip(*found, strict=True)
        for name, value, unit in (
            ("median", statistics.median(times), "ms"),
            ("longest", max(times), "ms"),
            ("in flight", round(statistics.median(sizes) / 1024), "KiB"),
        ):
            goal = GOALS_MS.get(way) if name == "median" else None
            results.append(
                {
                    "name": f"{way}, {name}",
                    "value": value,
                    "unit": unit,
                    "goal": goal,
                    "met": None if goal is None else value <= goal,
                    "flink": FLINK_MS.get(way) if name == "median" else None,
                }
            )
            print(results[-1], flush=True)
    if not arguments.only:
        harness.write_document("backpressure", results, {"flink": harness.FLINK})


if __name__ == "__main__":
    main()
