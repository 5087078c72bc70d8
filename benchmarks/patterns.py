"""The CPU time of a record in patterns: prices that rise and drop, over 10,000 keys.

    python benchmarks/patterns.py [--flink FOLDER]

CPU time of all processes per record, from two sizes, so that the start does not count.  With the
folder of Flink's jars (flink-dist and flink-cep 2.3.0) the same job runs on Flink's API in Java
(``peers/FlinkPatterns.java``), by turns, and the medians become ``results/patterns.json``, with the
goal of half of Flink's CPU time.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from workloads import harness

KEYS = 10_000
FLINK = Path(__file__).parent / "peers" / "FlinkPatterns.java"
OPENED = ["java.base/java.util", "java.base/java.lang", "java.base/java.time"]


def job(records: int) -> None:
    """Run the job on penstock."""
    from penstock.cep import CEP, Pattern, SkipStrategy
    from penstock.common import Types, WatermarkStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors.discard import DiscardingSink
    from penstock.datastream.connectors.number_seq import NumberSequenceSource
    from penstock.expressions import field

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.get_config().enable_object_reuse()
    tick = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(field(2))
    rise = (
        Pattern.begin("start", SkipStrategy.skip_past_last_event())
        .next("up")
        .where(lambda tick, ctx: tick[1] > ctx.last("up", "start")[1])
        .one_or_more()
        .consecutive()
        .greedy()
        .next("down")
        .where(lambda tick, ctx: tick[1] < ctx.first("start")[1])
    )
    ticks = (
        env.from_source(
            NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers"
        )
        .map(lambda n: (n % KEYS, (n * 2654435761 >> 7) % 1000, n // 10), tick)
        .assign_timestamps_and_watermarks(times)
    )
    matches = CEP.pattern(ticks.key_by(lambda tick: tick[0], Types.LONG()), rise).select(
        lambda match: (match["start"][0][0], len(match["up"]), match["down"][0][1]), tick
    )
    matches.sink_to(DiscardingSink())
    env.execute("patterns")


def cpu_s(command: list[str]) -> float:
    """Return the CPU time of a command and all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="CPU time of a record that patterns look at.")
    parser.add_argument("--flink", type=Path, help="a folder with Flink's jars")
    parser.add_argument("--records", type=int, nargs=2, default=(400_000, 1_600_000))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--job", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job is not None:
        job(given.job)
        return
    commands = {"penstock": [sys.executable, __file__, "--job"]}
    costs: dict[str, list[float]] = {"penstock": [], "flink": []}
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        if given.flink is not None:
            jars = f"{given.flink}/*"
            subprocess.run(["javac", "-cp", jars, "-d", scratch, str(FLINK)], check=True)
            opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
            commands["flink"] = ["java", *opened, "-cp", f"{scratch}:{jars}", "FlinkPatterns"]
        small, big = given.records
        for _ in range(given.repeat):
            for name, command in commands.items():
                end = [str(KEYS)] if name == "flink" else []
                times = [cpu_s([*command, str(records), *end]) for records in (small, big)]
                cost_us = (times[1] - times[0]) / (big - small) * 1e6
                costs[name].append(cost_us)
                print(f"{name}: {cost_us:.2f} µs of CPU time a record", flush=True)
    if given.flink is not None:
        own, flink = (round(statistics.median(costs[name]), 2) for name in ("penstock", "flink"))
        row = {"name": "rise, then drop", "value": own, "unit": "µs", "flink": flink}
        harness.write_document(
            "patterns",
            [row | {"goal": round(flink / 2, 2)}],
            {"flink": "2.3.0"},
            load_average=[load_before, os.getloadavg()[0]],
        )


if __name__ == "__main__":
    main()
