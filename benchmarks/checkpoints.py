"""The cost of checkpoints for a keyed sum: rate, longest pause, memory, bytes, and restore time.

    python benchmarks/checkpoints.py [--only MEASUREMENT] [--rounds 3] [--smoke]

Prints a table and writes ``benchmarks/results/checkpoints.json``.  ``--only`` measures and prints
only some rows, and ``--smoke`` runs everything once with few keys; both write nothing.
"""

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import increments
import recovery
import restoring
import rocksdb_state
from workloads import harness

PROGRAM = Path(__file__).resolve().parent / "peers" / "checkpoint_job.py"

#: name → (unit, goal, whether the goal is a lower bound, Flink's figure)
ROWS = {
    "rate with a checkpoint a second, 2 M keys": ("of the rate without", 0.9, True, 0.61),
    "longest pause of a record, 1 M keys": ("ms", 10, False, 12),
    "of which the task's thread worked": ("ms", 10, False, None),
    "longest pause without checkpoints": ("ms", None, False, None),
    "checkpoint under load, 2 M keys": ("s", 0.7, False, 1.04),
    "incremental checkpoint of all 2 M keys": ("ms", None, False, None),
    "the next one, 1 % of the keys changed, clustered": ("ms", 20, False, 265),
    "the next one, 1 % of the keys changed, spread": ("ms", 100, False, 265),
    "bytes of an entry of two integers": ("B", 12, False, 13),
    "peak memory with checkpoints": ("of that without", 1.3, False, None),
    "exception to first record, 2 M keys": ("s", 1, False, 3.2),
    "exception to first record of all subtasks, 2 M keys": ("s", 1.2, False, None),
    "memory of a key": ("B", 120, False, None),
    "savepoint written, 2 M keys": ("s", 0.5, False, 0.5),
    "start from the savepoint, 2 M keys": ("s", 1.5, False, 4.9),
    "start from a checkpoint to first record, 2 M keys": ("s", 1, False, 4.3),
    "start from a checkpoint to all subtasks, 2 M keys": ("s", 1.2, False, 4.7),
    "start of 3 subtasks from a checkpoint of 2, 2 M keys": ("s", 1.5, False, 4.6),
    "start without state, 2 M keys": ("s", None, False, None),
    "exception to first record, hardly any state": ("ms", 30, False, 61),
    "kill -9 of a worker to first record": ("ms", 1000, False, None),
    "checkpoint of 200 subtasks without state, median": ("ms", 25, False, 46),
    "checkpoint of 200 subtasks without state, longest": ("ms", 50, False, 114),
    "RocksDB: rate with a checkpoint a second, 2 M keys": ("of the rate without", 0.8, True, 0.37),
    "RocksDB: checkpoint under load, 2 M keys": ("s", 0.3, False, 0.36),
    "RocksDB: the next one, 1 % of the keys changed, clustered": ("ms", 20, False, 46),
    "RocksDB: the next one, 1 % of the keys changed, spread": ("ms", 100, False, 46),
    "RocksDB: longest of the six before, while it writes all keys": ("ms", None, False, None),
    "with a changelog, 1 % of the keys changed, clustered": ("ms", None, False, None),
    "with a changelog, 1 % of the keys changed, spread": ("ms", None, False, None),
    "RocksDB: with a changelog, 1 % of the keys changed, clustered": ("ms", None, False, None),
    "RocksDB: with a changelog, 1 % of the keys changed, spread": ("ms", None, False, None),
    "RocksDB: exception to first record, 2 M keys": ("s", 0.2, False, 0.26),
    "RocksDB: uniform reads and writes of a value": ("/s", 150_000, True, 121_000),
    "RocksDB: the same of 1 % of the keys": ("/s", 1_000_000, True, 211_000),
    "RocksDB: uniform reads and writes of a pair of a map": ("/s", None, True, None),
    "RocksDB: the same of 1 % of the maps": ("/s", None, True, None),
    "uniform reads and writes of a pair of a map": ("/s", None, True, None),
    "reads and writes of a pair of 1 % of the maps": ("/s", None, True, None),
}


CHANGELOG = {
    "state.changelog.enabled": "true",
    "state.changelog.storage": "filesystem",
    "state.changelog.periodic-materialize.enabled": "false",
}
ROCKSDB = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}


@dataclass(frozen=True)
class Scale:
    """The size of a measurement.

    Attributes:
        keys: The number of keys in the state.
        records: The records of a run with the hashmap backend.
        interval: The time between checkpoints.
        rounds: Pairs of runs, whose median counts.
        subtasks: The subtasks of the job without state.
        failures: The failures of each kind in the job without state.
    """

    keys: int
    records: int
    interval: str
    rounds: int
    subtasks: int
    failures: int


def run(
    mode: str,
    records: int,
    keys: int,
    interval: str | None,
    options: dict | None = None,
    parallelism: int = 2,
):
    """Return the marks of one run of the job."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        report = Path(scratch, "report")
        report.touch()
        directory = Path(scratch, "checkpoints")
        directory.mkdir()
        parameters = {
            "mode": mode,
            "records": records,
            "keys": keys,
            "interval": interval,
            "directory": str(directory),
            "report": str(report),
            "parallelism": parallelism,
            "options": options or {},
        }
        command = [sys.executable, str(PROGRAM)]
        done = harness.measure("penstock", "keyed sum", command, records, parameters)
        lines = [json.loads(line) for line in report.read_text().splitlines()]
    return done, lines


def noted(lines: list[dict], name: str) -> list:
    return [line[name] for line in lines if name in line]


def rates(scale: Scale) -> dict[str, float]:
    found, peaks, durations, sizes = [], [], [], []
    for _ in range(scale.rounds):
        # One after the other, so that both run at the same pace of the machine.
        plain, _ = run("rate", scale.records, scale.keys, None)
        beside, lines = run("rate", scale.records, scale.keys, scale.interval)
        found.append(beside.rate / plain.rate)
        peaks.append(beside.peak_mb / plain.peak_mb)
        durations += noted(lines, "checkpoint_ms")
        sizes += noted(lines, "bytes")
    values = {
        "rate with a checkpoint a second, 2 M keys": statistics.median(found),
        "peak memory with checkpoints": statistics.median(peaks),
    }
    if durations:
        values["checkpoint under load, 2 M keys"] = statistics.median(durations) / 1e3
        values["bytes of an entry of two integers"] = max(sizes) / scale.keys
    return values


def pauses(scale: Scale) -> dict[str, float]:
    """Measure the pauses of one subtask: two, beside the sources, would compete for processors."""
    records, keys = scale.records // 2, scale.keys // 2
    _, paused = run("pause", records, keys, scale.interval, parallelism=1)
    _, plain = run("pause", records, keys, None, parallelism=1)
    return {
        "longest pause of a record, 1 M keys": max(noted(paused, "longest_ns")) / 1e6,
        "of which the task's thread worked": max(noted(paused, "most_used_ns")) / 1e6,
        "longest pause without checkpoints": max(noted(plain, "longest_ns")) / 1e6,
        "memory of a key": noted(plain, "rss_of_keys")[0] / keys,
    }


def standstill(scale: Scale, records: int, options: dict | None = None) -> dict[str, float]:
    _, lines = run("restore", records, scale.keys, scale.interval, options)
    failed = noted(lines, "failed_ns")
    if not failed:
        return {}
    again = [line["first_ns"] for line in lines if line.get("attempt", 0) > 0]
    return {
        "exception to first record, 2 M keys": (min(again) - failed[0]) / 1e9,
        "exception to first record of all subtasks, 2 M keys": (max(again) - failed[0]) / 1e9,
    }


def starts(scale: Scale) -> dict[str, float]:
    measured = restoring.measured(scale.keys)
    return {f"{name}, 2 M keys": value for name, value in measured.items()}


def without_state(scale: Scale) -> dict[str, float]:
    """Measure as `recovery.py` does, under the names of this benchmark's rows."""
    stood = recovery.standstills(scale.failures)
    took = recovery.checkpoints(scale.subtasks, scale.failures)
    return {
        "exception to first record, hardly any state": statistics.median(stood["exception"]),
        "kill -9 of a worker to first record": statistics.median(stood["kill"]),
        "checkpoint of 200 subtasks without state, median": statistics.median(took),
        "checkpoint of 200 subtasks without state, longest": max(took),
    }


def next_ones(scale: Scale, options: dict | None = None, settling: int = 0) -> dict[str, float]:
    found = increments.measured(scale.keys, 2 * scale.rounds - 1, options, settling)
    return {
        "longest of the six before, while it writes all keys": found["settling"],
        "incremental checkpoint of all 2 M keys": found["whole"],
        "the next one, 1 % of the keys changed, clustered": found["clustered"],
        "the next one, 1 % of the keys changed, spread": found["spread"],
    }


def logged_ones(scale: Scale, options: dict | None = None) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        place = {"state.changelog.dstl.dfs.base-path": folder}
        found = increments.measured(
            scale.keys, 2 * scale.rounds - 1, {**CHANGELOG, **place, **(options or {})}
        )
    return {
        f"with a changelog, 1 % of the keys changed, {how}": found[how]
        for how in ("clustered", "spread")
    }


def rocksdb_rates(scale: Scale) -> dict[str, float]:
    records = scale.records // 3
    found, durations = [], []
    for _ in range(scale.rounds):
        plain, _ = run("rate", records, scale.keys, None, ROCKSDB)
        beside, lines = run("rate", records, scale.keys, scale.interval, ROCKSDB)
        found.append(beside.rate / plain.rate)
        durations += noted(lines, "checkpoint_ms")
    values = {"RocksDB: rate with a checkpoint a second, 2 M keys": statistics.median(found)}
    if durations:
        values["RocksDB: checkpoint under load, 2 M keys"] = statistics.median(durations) / 1e3
    return values


def rocksdb_accesses(scale: Scale) -> dict[str, float]:
    uniform, hot = rocksdb_state.rates(scale.keys, scale.keys)
    pairs, hot_pairs = rocksdb_state.map_rates(scale.keys, scale.keys, "rocksdb")
    heap_pairs, hot_heap_pairs = rocksdb_state.map_rates(scale.keys, scale.keys, "hashmap")
    return {
        "RocksDB: uniform reads and writes of a value": uniform,
        "RocksDB: the same of 1 % of the keys": hot,
        "RocksDB: uniform reads and writes of a pair of a map": pairs,
        "RocksDB: the same of 1 % of the maps": hot_pairs,
        "uniform reads and writes of a pair of a map": heap_pairs,
        "reads and writes of a pair of 1 % of the maps": hot_heap_pairs,
    }


def with_rocksdb(values: dict[str, float]) -> dict[str, float]:
    named = {f"RocksDB: {name}": value for name, value in values.items()}
    return {name: value for name, value in named.items() if name in ROWS}


#: Checkpoints, a second apart, in which RocksDB writes the idle ones of two million keys.
SETTLING = 6

MEASUREMENTS = {
    "rates": rates,
    "pauses": pauses,
    "increments": next_ones,
    "changelog": logged_ones,
    "rocksdb-changelog": lambda scale: with_rocksdb(
        logged_ones(scale, {"state.backend.type": "rocksdb"})
    ),
    "standstill": lambda scale: standstill(scale, 4 * scale.records),
    "starts": starts,
    "without-state": without_state,
    "rocksdb-rates": rocksdb_rates,
    "rocksdb-increments": lambda scale: with_rocksdb(next_ones(scale, ROCKSDB, SETTLING)),
    "rocksdb-standstill": lambda scale: with_rocksdb(
        standstill(scale, 4 * scale.records // 3, ROCKSDB)
    ),
    "rocksdb-accesses": rocksdb_accesses,
}
"""Each returns values by row name."""


def judged(values: dict[str, float], *, partly: bool) -> list[dict]:
    rows = []
    for name, (unit, goal, is_lower_bound, flink) in ROWS.items():
        value = values.get(name)
        if value is None and partly:
            continue
        met = None
        if value is not None and goal is not None:
            met = value >= goal if is_lower_bound else value <= goal
        rows.append(
            {"name": name, "value": value, "unit": unit, "goal": goal, "met": met, "flink": flink}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="everything once, with few keys")
    parser.add_argument("--only", choices=MEASUREMENTS, action="append", help="what is measured")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of runs for a rate")
    arguments = parser.parse_args()
    scale = Scale(2_000_000, 24_000_000, "1 s", arguments.rounds, 200, 20)
    if arguments.smoke:
        scale = Scale(20_000, 400_000, "100 ms", 1, 8, 1)
    values: dict[str, float] = {}
    for name in arguments.only or MEASUREMENTS:
        values |= MEASUREMENTS[name](scale)
    rows = judged(values, partly=bool(arguments.only))
    for row in rows:
        value = "-" if row["value"] is None else f"{row['value']:.3g}"
        print(f"{row['name']:58} {value:>8} {row['unit']:20} goal {row['goal']} met {row['met']}")
    if not arguments.smoke and not arguments.only:
        harness.write_document("checkpoints", rows, {"flink": harness.FLINK})


if __name__ == "__main__":
    main()
