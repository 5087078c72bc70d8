"""Each workload as one plain Python loop on one core: the cost of the language itself."""

import json
import os
import re
import time
from pathlib import Path

BENCH = json.loads(os.environ["BENCH"])


def mark(**values):
    with Path(BENCH["marks"]).open("a") as out:
        out.write(json.dumps(values) + "\n")


def word_count():
    split = re.compile(r"\W+").split
    counts: dict[str, int] = {}
    for path in sorted(Path(BENCH["text"]).glob("*.txt")):
        with path.open() as lines:
            for line in lines:
                for word in split(line.lower()):
                    if word:
                        counts[word] = counts.get(word, 0) + 1


def keyed_sum():
    def pairs():
        for number in range(BENCH["n"]):
            yield number % 10_000, number

    sums: dict[int, int] = {}
    for key, value in pairs():
        sums[key] = sums.get(key, 0) + value


def stateless():
    increment = lambda number: number + 1  # noqa: E731  what a program passes to map
    is_even = lambda number: number & 1 == 0  # noqa: E731
    kept = 0
    for number in range(BENCH["n"]):
        if is_even(increment(increment(increment(number)))):
            kept += 1


def windowed_count():
    size, bound = 10_000, 1_000
    windows: dict[int, dict[int, int]] = {}
    latest = watermark = results = 0
    for number in range(BENCH["n"]):
        key, timestamp = number * 2654435761 % 1000, 1_700_000_000_000 + number // 20
        start = timestamp - timestamp % size
        if start + size - 1 <= watermark:
            continue
        counts = windows.get(start)
        if counts is None:
            counts = windows[start] = {}
        counts[key] = counts.get(key, 0) + 1
        if timestamp > latest:
            latest = timestamp
            watermark = timestamp - bound - 1
            first = min(windows)
            if first + size - 1 <= watermark:
                results += len(windows.pop(first))
    results += sum(len(counts) for counts in windows.values())


WORKLOADS = {
    "W1": word_count,
    "W2": keyed_sum,
    "W2-built-in": keyed_sum,
    "W3": stateless,
    "W4": windowed_count,
}

mark(first=time.time_ns())
WORKLOADS[BENCH["workload"]]()
mark(last=time.time_ns())
