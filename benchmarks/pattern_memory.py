"""The memory of a partial match in patterns, beside Flink's CEP in Java.

    python benchmarks/pattern_memory.py [--flink FOLDER]

Records begin and continue matches that nothing completes.  A condition measures when a tenth of the
records and when all of them have arrived: the resident memory of the worker here, the heap after a
collection in Flink (``peers/FlinkPatternMemory.java``), records included.  A key's records are
numbered from 1000; the shapes of patterns are

- ``single``: each record begins a match, which waits for its second one;
- ``times``: the first record begins a match, the next four continue it;
- ``shared``: each record begins a match, and the next four continue it;
- ``loop``: the first record begins a match, any number of others continue it, and each prefix waits
  for the end as well.

With the folder of
Flink's jars (flink-dist and flink-cep 2.3.0), the figures become ``results/pattern_memory.json``,
with the goal of half of Flink's memory.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from workloads import harness

FLINK = Path(__file__).parent / "peers" / "FlinkPatternMemory.java"
OPENED = ["java.base/java.util", "java.base/java.lang", "java.base/java.time"]
RECORDS = 200_000
#: By name: the shape of the pattern, the records of a key, and the matches that one of them adds.
ROWS: dict[str, tuple[str, int, float]] = {
    "one partial match of a key": ("single", 1, 1),
    "each of 20 partial matches of a key": ("single", 20, 1),
    "one partial match of 5 records of a key": ("times", 5, 1 / 5),
    "each of 20 partial matches of up to 5 shared records": ("shared", 20, 1),
    "each of 20 partial matches of a loop": ("loop", 20, 1),
}


def resident_bytes() -> int:
    """Return the resident memory of this process after a collection."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def job(shape: str, records_of_key: int) -> None:
    """Run the job on penstock; its worker prints the memory of a record."""
    from penstock.cep import CEP, Pattern, SimpleCondition
    from penstock.common import Types, WatermarkStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors.discard import DiscardingSink
    from penstock.datastream.connectors.number_seq import NumberSequenceSource

    begins_often = shape in ("single", "shared")

    class Measuring(SimpleCondition):
        seen = before = 0

        def filter(self, tick: Any) -> bool:
            if self.seen == RECORDS // 10:
                self.before = resident_bytes()
            elif self.seen == RECORDS:
                print((resident_bytes() - self.before) / (RECORDS - RECORDS // 10), flush=True)
            self.seen += 1
            return begins_often or tick[1] == 1000

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.get_config().enable_object_reuse()
    tick = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    ticks = env.from_source(
        NumberSequenceSource(0, RECORDS), WatermarkStrategy.no_watermarks(), "numbers"
    ).map(lambda n: (n // records_of_key, 1000 + n % records_of_key, n // 10), tick)
    pattern = Pattern.begin("start").where(Measuring())
    if shape != "single":
        pattern = pattern.followed_by("more").where(lambda tick: tick[1] > 0)
        pattern = pattern.one_or_more() if shape == "loop" else pattern.times(4)
    pattern = pattern.followed_by("end").where(lambda tick: tick[1] < 0)
    matches = CEP.pattern(ticks.key_by(lambda tick: tick[0], Types.LONG()), pattern)
    matches.in_processing_time().select(lambda match: 1, Types.LONG()).sink_to(DiscardingSink())
    env.execute("pattern memory")


def bytes_of(command: list[str], matches_of_record: float) -> int:
    """Return the memory of a match for a command that prints that of a record in its last line."""
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return round(float(printed.splitlines()[-1]) / matches_of_record)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="The memory of a partial match.")
    parser.add_argument("--flink", type=Path, help="a folder with Flink's jars")
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job is not None:
        job(given.job[0], int(given.job[1]))
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        if given.flink is not None:
            subprocess.run(
                ["javac", "-cp", f"{given.flink}/*", "-d", scratch, str(FLINK)], check=True
            )
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
        java = ["java", *opened, "-XX:+UseSerialGC", "-cp", f"{scratch}:{given.flink}/*"]
        for name, (shape, of_key, matches) in ROWS.items():
            words = [shape, str(of_key)]
            own = bytes_of([sys.executable, __file__, "--job", *words], matches)
            row = {"name": name, "value": own, "unit": "B"}
            if given.flink is not None:
                command = [*java, "FlinkPatternMemory", str(RECORDS), *words]
                flink = bytes_of(command, matches)
                row |= {"flink": flink, "goal": round(flink / 2)}
            rows.append(row)
            print(row, flush=True)
    if given.flink is not None:
        harness.write_document("pattern_memory", rows, {"flink": "2.3.0"})


if __name__ == "__main__":
    main()
