"""Word count by pyarrow kernels over whole blocks, one core: the columnar limit."""

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

BENCH = json.loads(os.environ["BENCH"])
BLOCK_BYTES = 4 << 20


def mark(**values):
    with Path(BENCH["marks"]).open("a") as out:
        out.write(json.dumps(values) + "\n")


def blocks(path):
    with path.open("rb") as text:
        rest = b""
        while block := text.read(BLOCK_BYTES):
            head, newline, tail = (rest + block).rpartition(b"\n")
            rest = tail
            yield head + newline
        yield rest


pa.set_cpu_count(1)
mark(first=time.time_ns())
counts: dict[str, int] = {}
for path in sorted(Path(BENCH["text"]).glob("*.txt")):
    for block in blocks(path):
        line = pc.utf8_lower(pa.array([block.decode()], pa.large_string()))
        words = pc.list_flatten(pc.split_pattern_regex(line, r"\W+"))
        for entry in pc.value_counts(words).to_pylist():
            if entry["values"]:
                counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
mark(last=time.time_ns())
