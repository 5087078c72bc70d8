"""The data plane beside the machine's raw limits, the pure twin, Flink's figures and the goals.

Runs ``bench-network`` (workspace member ``benchmarks/network``), measures from Python what only
Python can, prints a table and writes ``benchmarks/results/network.json``.  ``--smoke`` runs
everything once with tiny counts and writes nothing; neither does a run of chosen rows (``network.py
"8 B" "raw TCP"``: all rows whose names contain one of these).
"""

import argparse
import gc
import json
import marshal
import os
import statistics
import subprocess
import time

import pure_twin
from penstock.common.typeinfo import Types
from workloads.harness import FLINK, ROOT, write_document

PROFILE = {True: "develop", False: "release"}
BATCH = 1_000

# A long and its length are twelve bytes on the wire.
MILLIONS_OF_LONGS = ("raw TCP 32 KiB writes", 1e3 / 12)

# name → (raw limit, Flink 2.3's figure, goal); a limit is the name of a figure of the same run, or
# (figure, factor); a goal is a bound on the value, or (figure, factor, at most).  Rows "by" another
# one are the median quotient of figures that were measured in turn.  If twice the speed of TCP
# exceeds 0.8 of the shared memory's, those 0.8 are the goal.
GOALS = {
    "request + recycle, 1 thread": ("raw lock + list, 1 thread", 23, None),
    "request + recycle, 1 thread, by raw": (None, None, 0.6),
    "request + recycle, 2 threads": ("raw lock + list, 2 threads", 246, None),
    "request + recycle, 2 threads, by raw": (None, None, 0.6),
    "redistribution, 1,000 pools": ("raw pass over 1,000 pools", 24_000, 10_000),
    "serialize 8 B": ("raw long writes", 10, 4),
    "deserialize 8 B": ("raw long reads", 1.95, 2),
    "deserialize 8-15 B": ("raw long reads", None, None),
    "serialize 100 KiB": ("raw memcpy 100 KiB", 37.9, None),
    "serialize 100 KiB, by raw": (None, None, 0.85),
    "deserialize 100 KiB": ("raw memcpy 100 KiB", 12.9, None),
    "deserialize 100 KiB, by raw": (None, None, 0.85),
    "serialize 10 MiB": ("raw memcpy 10 MiB", 16.3, 4),
    "deserialize 10 MiB": ("raw file write 10 MiB", 1.35, 4),
    "read back 10 MiB": ("raw memcpy 10 MiB", None, 4),
    '("word", 1) serialize': ('raw ("word", 1) marshal.dumps', 9.6, 40),
    '("word", 1) deserialize': ('raw ("word", 1) marshal.loads', 19.9, 60),
    "8 B records, 1 channel, 100 ms": (MILLIONS_OF_LONGS, 40, 80),
    "8 B records, 1,000 channels, 1 ms": (MILLIONS_OF_LONGS, 9.8, 40),
    "1 KiB records, TCP": ("raw TCP 32 KiB writes", 2.1, None),
    "1 KiB records, TCP, by raw": (None, None, 0.8),
    "32 KiB records, TCP": ("raw TCP 32 KiB writes", 2.13, None),
    "32 KiB records, TCP, by raw": (None, None, 0.8),
    "1 KiB records, same host": ("raw shared memory, 1 KiB records", None, None),
    "1 KiB records, same host, by TCP": (
        "raw shared memory, 1 KiB records, by TCP",
        None,
        ("raw shared memory, 1 KiB records, by TCP", 0.8, 2),
    ),
    "1 KiB records, same host, by raw": (None, None, 0.8),
    "32 KiB records, same host": ("raw shared memory, 32 KiB records", None, None),
    "32 KiB records, same host, by TCP": (
        "raw shared memory, 32 KiB records, by TCP",
        None,
        ("raw shared memory, 32 KiB records, by TCP", 0.8, 2),
    ),
    "32 KiB records, same host, by raw": (None, None, 0.8),
    "1 KiB records, TLS": ("1 KiB records, TCP", None, None),
    "32 KiB records, TLS": ("32 KiB records, TCP", None, None),
    "1 KiB records, LZ4": ("1 KiB records, TCP", None, None),
    "32 KiB records, LZ4": ("32 KiB records, TCP", None, None),
    "flushed 8 B record one way, TCP": ("raw TCP one way", 44, None),
    "flushed 8 B record one way, TCP, by raw": (None, None, 1.2),
    "flushed 8 B record one way, TLS": ("raw TCP one way", None, None),
    "flushed 8 B record one way, same host": ("raw Unix socket one way", None, None),
    "aligned barrier, 1 channel": ("raw TCP one way", 44, None),
    "aligned barrier, 100 channels": ("raw TCP one way", 760, None),
    "aligned barrier, 1,000 channels": ("raw TCP one way", 5_300, 1_000),
    "unaligned barrier, 1,000 channels": ("raw TCP one way", None, None),
    "unaligned barrier, 1,000 channels, first arrival": ("raw TCP one way", 160, 60),
    "unaligned barrier, 1,000 channels, first arrival at a waiting reader": (
        "raw TCP one way",
        None,
        None,
    ),
}
HIGHER_IS_BETTER = {"GB/s", "M/s", "part"}


def run_binary(parts: list[str], *, smoke: bool) -> list[dict]:
    """Return the rows that the Rust program prints."""
    profile = PROFILE[smoke]
    environment = {**os.environ, "CARGO_TERM_QUIET": "true"}
    build = ["cargo", "build", "--locked", "--profile", profile]
    subprocess.run(
        [*build, "-p", "penstock-benchmarks-network"], cwd=ROOT, check=True, env=environment
    )
    target = environment.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    command = [f"{target}/{profile}/bench-network", *(["--smoke"] if smoke else []), *parts]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def median_of(measure, *, smoke: bool) -> float:
    return statistics.median(measure() for _ in range(1 if smoke else 5))


def nanoseconds(call, argument, count: int) -> float:
    """Return the time of one ``call(argument)``."""
    started = time.perf_counter_ns()
    for _ in range(count):
        call(argument)
    return (time.perf_counter_ns() - started) / count


def codec_rows(runtime: str, count: int, *, smoke: bool) -> dict[str, float]:
    """Return nanoseconds of a typed ``("word", 1)`` to framed bytes and back.

    In batches, as writers and readers do within a task; and one by one, where the call from Python
    and its bytes object cost more than the work.
    """
    from penstock.serialization.type_schema import schema_of

    schema = schema_of(Types.TUPLE([Types.STRING(), Types.LONG()]))
    if runtime == "native":
        from penstock._native.codecs.codec import Codec
    else:
        from penstock.serialization.pure.codec import Codec
    codec = Codec(schema)
    value = ("word", 1)
    data, batch = codec.encode(value), codec.encode_batch([value] * BATCH)
    assert codec.decode(data) == value
    assert codec.decode_batch(batch) == [value] * BATCH
    works = {
        '("word", 1) serialize': (codec.encode_batch, [value] * BATCH, BATCH),
        '("word", 1) deserialize': (codec.decode_batch, batch, BATCH),
        '("word", 1) serialize, one by one': (codec.encode, value, 1),
        '("word", 1) deserialize, one by one': (codec.decode, data, 1),
    }
    # Values that a batch holds trigger the garbage collector; in a task they die at once.
    gc.disable()
    try:
        return {
            name: median_of(
                lambda work=work: nanoseconds(work[0], work[1], -(-count // work[2])) / work[2],
                smoke=smoke,
            )
            for name, work in works.items()
        }
    finally:
        gc.enable()


def marshal_rows(count: int, *, smoke: bool) -> dict[str, float]:
    """Return nanoseconds of the same values through the interpreter's serializer, in batches."""
    values = [("word", 1)] * BATCH
    # Version 2 is the last one that writes each value out, as a stream must.
    data = marshal.dumps(values, 2)
    works = {
        "dumps": (lambda batch: marshal.dumps(batch, 2), values),
        "loads": (marshal.loads, data),
    }
    return {
        f'raw ("word", 1) marshal.{name}': median_of(
            lambda call=call, argument=argument: (
                nanoseconds(call, argument, -(-count // BATCH)) / BATCH
            ),
            smoke=smoke,
        )
        for name, (call, argument) in works.items()
    }


def judged(row: dict, values: dict[str, float], pure: dict[str, float]) -> dict:
    limit, flink, goal = GOALS.get(row["name"], (None, None, None))

    def times(other: str | None, factor: float) -> float | None:
        return values[other] * factor if other in values else None

    limit = times(*limit) if isinstance(limit, tuple) else times(limit, 1)
    if isinstance(goal, tuple):
        figure, factor, most = goal
        part = times(figure, factor)
        goal = None if part is None else min(part, most)
    met = None
    if goal is not None:
        met = row["value"] >= goal if row["unit"] in HIGHER_IS_BETTER else row["value"] <= goal
    return {
        **row,
        "limit": limit,
        "pure": pure.get(row["name"]),
        "flink": flink,
        "goal": goal,
        "met": met,
    }


def print_table(rows: list[dict]) -> None:
    def figure(value) -> str:
        return "" if value is None else f"{value:,.3g}" if value < 1_000 else f"{value:,.0f}"

    columns = ("value", "goal", "limit", "flink", "pure")
    print(f"{'work':50} {'unit':>5}" + "".join(f"{column:>10}" for column in columns) + "  met")
    for row in rows:
        met = {True: "yes", False: "NO", None: ""}[row["met"]]
        cells = "".join(f"{figure(row[column]):>10}" for column in columns)
        print(f"{row['name']:50} {row['unit']:>5}{cells}  {met}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="everything once, with tiny counts")
    parser.add_argument("parts", nargs="*", help="parts of the names of the rows to measure")
    arguments = parser.parse_args()
    smoke, parts = arguments.smoke, arguments.parts

    def wants(name: str) -> bool:
        return not parts or any(part in name for part in parts)

    rows = run_binary(parts, smoke=smoke)
    pure = {}
    if wants('("word", 1) serialize, one by one') or wants('("word", 1) deserialize, one by one'):
        count = 100 if smoke else 300_000
        native = marshal_rows(count, smoke=smoke) | codec_rows("native", count, smoke=smoke)
        rows += [
            {"name": name, "value": value, "unit": "ns"}
            for name, value in native.items()
            if wants(name)
        ]
        pure = codec_rows("pure", 10 if smoke else 30_000, smoke=smoke)
    pure |= {
        name: measure() for name, measure in pure_twin.measures(smoke=smoke).items() if wants(name)
    }
    values = {row["name"]: row["value"] for row in rows}
    if not parts and (missing := GOALS.keys() - values.keys()):
        raise SystemExit(f"not measured: {sorted(missing)}")
    rows = [judged(row, values, pure) for row in rows]
    print_table(rows)
    if not smoke and not parts:
        write_document("network", rows, {"flink": FLINK})


if __name__ == "__main__":
    main()
