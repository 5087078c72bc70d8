"""W1: the cost of a word for the engine, beside its cost for the user's function.

    python benchmarks/workloads/word_share.py [--repeat 3]

CPU time of both processes per word, from two sizes of text, so that the start does not count; minus
the time of the flat_map's function when a loop calls it for the same lines.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
import text

BYTES = (20_000_000, 60_000_000)
# On the machine of the goal: 350 ns of the engine beside 457 of the function.
GOAL = 350 / 457

FUNCTION = r"""
import re, sys, time
from pathlib import Path
split = re.compile(r"\W+").split
function = lambda line: [(word, 1) for word in split(line.lower()) if word]
lines = [line for path in sorted(Path(sys.argv[1]).glob("*.txt")) for line in path.open()]
begin, words = time.process_time(), 0
for line in lines:
    words += len(function(line))
print((time.process_time() - begin) / words)
"""


def cpu_s(folder: Path, words: int) -> float:
    program = str(harness.ROOT / "benchmarks" / "peers" / "flink_jobs.py")
    parameters = {"root": "penstock", "text": str(folder), "parallelism": 2, "n": words}
    command = [sys.executable, program]
    return harness.measure("native-local", "W1", command, words, parameters).cpu_s


def main() -> None:
    parser = argparse.ArgumentParser(description="What a word of W1 costs the engine.")
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        folders = [Path(scratch, str(size)) for size in BYTES]
        words = [text.generate(folder, size) for folder, size in zip(folders, BYTES, strict=True)]
        for _ in range(repeat):
            command = [sys.executable, "-c", FUNCTION, str(folders[0])]
            function = float(subprocess.check_output(command))
            small, big = map(cpu_s, folders, words)
            whole = (big - small) / (words[1] - words[0])
            engine = whole - function
            print(
                f"function {function * 1e9:.0f} ns a word, engine {engine * 1e9:.0f} ns: "
                f"{engine / function:.2f} of the function's (goal {GOAL:.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
