"""How long a job with hardly any state stands still when it fails, and what a checkpoint takes.

    python benchmarks/recovery.py [--rounds 20] [--subtasks 50]

An endless job on two local workers fails again and again; measured is the time from an exception,
or from the death of a worker by `kill -9`, to the first element that a task sees afterwards.  Then
checkpoints without state are taken of a job of many subtasks; measured is the time from the
trigger to the published metadata.  Medians, in milliseconds.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import psutil
from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.checkpoint_storage.storage import load_metadata
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.number_seq import NumberSequenceSource

PATIENCE_S = 60.0


class Watched(MapFunction):
    """Notes when its first element comes, and raises when it is told to."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, runtime_context):
        self.seen = 0
        self.is_first = runtime_context.get_index_of_this_subtask() == 0

    def map(self, value):
        if self.is_first:
            if self.seen == 0:
                note(self.folder, "first", time.monotonic_ns())
            elif self.seen % 20 == 0 and os.path.exists(f"{self.folder}/raise"):  # noqa: PTH110
                Path(self.folder, "raise").unlink()
                note(self.folder, "failed", time.monotonic_ns())
                raise RuntimeError("on purpose")
            self.seen += 1
        time.sleep(0.0005)
        return value


def note(folder, name, number):
    beside = Path(folder, f".{name}")
    beside.write_text(str(number))
    beside.replace(Path(folder, name))


def environment(parallelism, folder, **options):
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "0 ms",
        **options,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def numbers(env):
    source = NumberSequenceSource(0, 2**60)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def awaited(path, other_than=None):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()) != other_than:
            return text
        time.sleep(0.001)
    raise TimeoutError(f"{path} does not change")


def standstills(rounds):
    """The times from a failure to the first element, for exceptions and for dead workers."""
    found = {"exception": [], "kill": []}
    with tempfile.TemporaryDirectory() as folder:
        env = environment(2, folder, **{"execution.checkpointing.interval": "100 ms"})
        stream = numbers(env).map(Watched(folder), Types.LONG())
        job = stream.key_by(lambda value: value % 10, Types.LONG()).map(lambda value: value)
        job.filter(lambda value: False).print()
        client = env.execute_async("recovery")
        first, failed = Path(folder, "first"), Path(folder, "failed")
        last = awaited(first)
        for round_ in range(2 * rounds):
            time.sleep(0.4)
            if round_ % 2:
                begin = time.monotonic_ns()
                workers = psutil.Process().children()
                workers[round_ % len(workers)].kill()
                last = awaited(first, last)
                found["kill"].append((int(last) - begin) / 1e6)
            else:
                Path(folder, "raise").touch()
                last = awaited(first, last)
                found["exception"].append((int(last) - int(failed.read_text())) / 1e6)
        client.cancel().result()
    return found


def checkpoints(subtasks, rounds):
    """The times of checkpoints without state."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment(
            subtasks // 2,
            folder,
            **{
                "execution.checkpointing.interval": "50 ms",
                "execution.checkpointing.num-retained": str(rounds),
                "taskmanager.numberOfTaskSlots": str((subtasks + 3) // 4),
                # Each of half the subtasks exchanges with each of the other half.
                "taskmanager.memory.network.segments": str(max(2048, subtasks**2 // 2)),
                "taskmanager.memory.segment-size": "4 kb",
            },
        )
        # Sources that wait, not functions: a barrier does not pass an element that sleeps.
        few = DataGeneratorSource(
            lambda index: index, 2**60, RateLimiterStrategy.per_second(subtasks), Types.LONG()
        )
        stream = env.from_source(few, WatermarkStrategy.no_watermarks(), "few")
        stream.rebalance().filter(lambda value: False).print()
        client = env.execute_async("checkpoints")
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            complete = list(Path(folder).glob("checkpoints/*/chk-*/_metadata"))
            if len(complete) >= rounds:
                break
            time.sleep(0.1)
        found = []
        for path in complete:
            try:
                metadata, _ = load_metadata(str(path.parent), FileSystems({}))
                found.append(path.stat().st_mtime * 1000 - metadata.timestamp_ms)
            except OSError:
                continue
        client.cancel().result()
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--subtasks", type=int, default=50)
    arguments = parser.parse_args()
    found = standstills(arguments.rounds)
    found[f"checkpoint of {arguments.subtasks}"] = checkpoints(arguments.subtasks, arguments.rounds)
    summary = {
        name: {
            "median_ms": round(statistics.median(times), 1),
            "least_ms": round(min(times), 1),
            "most_ms": round(max(times), 1),
        }
        for name, times in found.items()
    }
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()
