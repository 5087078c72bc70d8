"""What checkpoints cost a keyed sum: its rate, its longest pause, memory, bytes, and the way back.

Prints a table and writes ``benchmarks/results/checkpoints.json``; ``--smoke`` runs everything once
with few keys and writes nothing.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import recovery
import restoring
import rocksdb_state
from workloads import harness

RESULTS = harness.RESULTS / "checkpoints.json"
PROGRAM = Path(__file__).resolve().parent / "peers" / "checkpoint_job.py"

#: name → (unit, goal, whether the goal is a lower bound, Flink's figure)
ROWS = {
    "rate with a checkpoint a second, 2 M keys": ("of the rate without", 0.9, True, 0.61),
    "longest pause of an element, 1 M keys": ("ms", 10, False, 12),
    "of which the task's thread worked": ("ms", 10, False, None),
    "longest pause without checkpoints": ("ms", None, False, None),
    "checkpoint under load, 2 M keys": ("s", 0.7, False, 1.04),
    "bytes of an entry of two integers": ("B", 12, False, 13),
    "peak memory with checkpoints": ("of that without", 1.3, False, None),
    "failure to first element, 2 M keys": ("s", 1, False, 4.3),
    "memory of a key": ("B", 120, False, None),
    "savepoint written, 2 M keys": ("s", 0.5, False, 0.5),
    "start from the savepoint, 2 M keys": ("s", 1.5, False, 4.9),
    "start of 3 subtasks from a checkpoint of 2, 2 M keys": ("s", 1.5, False, 4.6),
    "start without state, 2 M keys": ("s", None, False, None),
    "exception to first element, hardly any state": ("ms", 30, False, 61),
    "kill -9 of a worker to first element": ("ms", 1000, False, None),
    "checkpoint of 200 subtasks without state, median": ("ms", 25, False, 46),
    "checkpoint of 200 subtasks without state, longest": ("ms", 50, False, 114),
    "RocksDB: rate with a checkpoint a second, 2 M keys": ("of the rate without", 0.8, True, 0.37),
    "RocksDB: checkpoint under load, 2 M keys": ("s", 0.3, False, 0.36),
    "RocksDB: failure to first element, 2 M keys": ("s", 0.2, False, 0.26),
    "RocksDB: uniform reads and writes of a value": ("/s", 150_000, True, 121_000),
    "RocksDB: the same of 1 % of the keys": ("/s", 1_000_000, True, 211_000),
}


ROCKSDB = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}


def run(mode: str, records: int, keys: int, interval: str | None, options: dict | None = None):
    """One run of the job, and what it noted."""
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
            "options": options or {},
        }
        command = [sys.executable, str(PROGRAM)]
        done = harness.measure("penstock", "keyed sum", command, records, parameters)
        lines = [json.loads(line) for line in report.read_text().splitlines()]
    return done, lines


def noted(lines: list[dict], name: str) -> list:
    return [line[name] for line in lines if name in line]


def measured(*, smoke: bool) -> dict[str, float]:
    keys = 20_000 if smoke else 2_000_000
    records = 400_000 if smoke else 24_000_000
    interval = "100 ms" if smoke else "1 s"
    rates, peaks, durations, sizes = [], [], [], []
    for _ in range(1 if smoke else 3):
        # One after the other, so that the machine's pace is the same for both.
        plain, _ = run("rate", records, keys, None)
        with_checkpoints, lines = run("rate", records, keys, interval)
        rates.append(with_checkpoints.rate / plain.rate)
        peaks.append(with_checkpoints.peak_mb / plain.peak_mb)
        durations += noted(lines, "checkpoint_ms")
        sizes += noted(lines, "bytes")
    values = {
        "rate with a checkpoint a second, 2 M keys": statistics.median(rates),
        "peak memory with checkpoints": statistics.median(peaks),
    }
    if durations:
        values["checkpoint under load, 2 M keys"] = statistics.median(durations) / 1e3
        values["bytes of an entry of two integers"] = max(sizes) / keys
    paused = records // 2
    _, paused_lines = run("pause", paused, keys // 2, interval)
    values["longest pause of an element, 1 M keys"] = max(noted(paused_lines, "longest_ns")) / 1e6
    _, lines = run("pause", paused, keys // 2, None)
    values["of which the task's thread worked"] = max(noted(paused_lines, "most_used_ns")) / 1e6
    values["longest pause without checkpoints"] = max(noted(lines, "longest_ns")) / 1e6
    values["memory of a key"] = noted(lines, "rss_of_keys")[0] / (keys // 2)
    _, lines = run("restore", 4 * records, keys, interval)
    failed = noted(lines, "failed_ns")
    if failed:
        again = [line["first_ns"] for line in lines if line.get("attempt", 0) > 0]
        values["failure to first element, 2 M keys"] = (min(again) - failed[0]) / 1e9
    values |= {f"{name}, 2 M keys": value for name, value in restoring.measured(keys).items()}
    values |= measured_without_state(smoke=smoke)
    return values | measured_rocksdb(keys, records // 3, interval, smoke=smoke)


def measured_without_state(*, smoke: bool) -> dict[str, float]:
    """What `recovery.py` measures, by the names of rows here."""
    rounds = 1 if smoke else 20
    stood = recovery.standstills(rounds)
    took = recovery.checkpoints(8 if smoke else 200, rounds)
    return {
        "exception to first element, hardly any state": statistics.median(stood["exception"]),
        "kill -9 of a worker to first element": statistics.median(stood["kill"]),
        "checkpoint of 200 subtasks without state, median": statistics.median(took),
        "checkpoint of 200 subtasks without state, longest": max(took),
    }


def measured_rocksdb(keys: int, records: int, interval: str, *, smoke: bool) -> dict[str, float]:
    rates, durations = [], []
    for _ in range(1 if smoke else 3):
        plain, _ = run("rate", records, keys, None, ROCKSDB)
        with_checkpoints, lines = run("rate", records, keys, interval, ROCKSDB)
        rates.append(with_checkpoints.rate / plain.rate)
        durations += noted(lines, "checkpoint_ms")
    values = {"RocksDB: rate with a checkpoint a second, 2 M keys": statistics.median(rates)}
    if durations:
        values["RocksDB: checkpoint under load, 2 M keys"] = statistics.median(durations) / 1e3
    _, lines = run("restore", 4 * records, keys, interval, ROCKSDB)
    failed = noted(lines, "failed_ns")
    if failed:
        again = [line["first_ns"] for line in lines if line.get("attempt", 0) > 0]
        values["RocksDB: failure to first element, 2 M keys"] = (min(again) - failed[0]) / 1e9
    uniform, hot = rocksdb_state.rates(keys, 20_000 if smoke else 2_000_000)
    values["RocksDB: uniform reads and writes of a value"] = uniform
    values["RocksDB: the same of 1 % of the keys"] = hot
    return values


def judged(values: dict[str, float]) -> list[dict]:
    rows = []
    for name, (unit, goal, is_lower_bound, flink) in ROWS.items():
        value = values.get(name)
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
    arguments = parser.parse_args()
    rows = judged(measured(smoke=arguments.smoke))
    for row in rows:
        value = "-" if row["value"] is None else f"{row['value']:.3g}"
        print(f"{row['name']:55} {value:>8} {row['unit']:20} goal {row['goal']} met {row['met']}")
    if not arguments.smoke:
        document = {"machine": harness.machine(), "commit": harness.commit(), "rows": rows}
        partial = RESULTS.with_suffix(".json.partial")
        partial.write_text(json.dumps(document, indent=1) + "\n")
        partial.replace(RESULTS)


if __name__ == "__main__":
    main()
