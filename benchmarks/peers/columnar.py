"""The workloads by numpy and pyarrow kernels over whole blocks, on one core: the columnar limit."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BENCH = json.loads(os.environ["BENCH"])
BLOCK_BYTES = 4 << 20
BLOCK_NUMBERS = 1 << 17


def mark(**values):
    with Path(BENCH["marks"]).open("a") as out:
        out.write(json.dumps(values) + "\n")


def text_blocks(path):
    with path.open("rb") as text:
        rest = b""
        while block := text.read(BLOCK_BYTES):
            head, newline, tail = (rest + block).rpartition(b"\n")
            rest = tail
            yield head + newline
        yield rest


def number_blocks():
    for start in range(0, BENCH["n"], BLOCK_NUMBERS):
        yield np.arange(start, min(BENCH["n"], start + BLOCK_NUMBERS), dtype=np.int64)


def word_count():
    counts: dict[str, int] = {}
    for path in sorted(Path(BENCH["text"]).glob("*.txt")):
        for block in text_blocks(path):
            line = pc.utf8_lower(pa.array([block.decode()], pa.large_string()))
            words = pc.list_flatten(pc.split_pattern_regex(line, r"\W+"))
            for entry in pc.value_counts(words).to_pylist():
                if entry["values"]:
                    counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]


def keyed_sum():
    sums = np.zeros(10_000)
    for numbers in number_blocks():
        sums += np.bincount(numbers % 10_000, weights=numbers, minlength=10_000)


def stateless():
    kept = 0
    for numbers in number_blocks():
        shifted = numbers + 1 + 1 + 1
        kept += len(shifted[shifted & 1 == 0])


def windowed_count():
    windows: dict[int, np.ndarray] = {}
    results = 0
    for numbers in number_blocks():
        keys = numbers * 2654435761 % 1000
        timestamps = 1_700_000_000_000 + numbers // 20
        starts = timestamps // 10_000
        for start in np.unique(starts).tolist():
            counts = np.bincount(keys[starts == start], minlength=1000)
            windows[start] = windows.get(start, 0) + counts
        watermark = int(timestamps.max()) - 1001
        for start in [s for s in windows if s * 10_000 + 9_999 <= watermark]:
            results += int((windows.pop(start) > 0).sum())
    results += sum(int((counts > 0).sum()) for counts in windows.values())


WORKLOADS = {
    "W1": word_count,
    "W2": keyed_sum,
    "W2-built-in": keyed_sum,
    "W3": stateless,
    "W4": windowed_count,
}

pa.set_cpu_count(1)
mark(first=time.time_ns())
WORKLOADS[BENCH["workload"]]()
mark(last=time.time_ns())
