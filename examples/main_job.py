"""The main job: WordCount over the sources of Python's standard library, on Spark local[2].

    python examples/main_job.py [--target spark|local] [-p PARALLELISM]

Prints the ten most frequent words, the totals and the words per second, compares every count with
``collections.Counter`` and exits with 1 if one differs.
"""

import argparse
import collections
import os
import re
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import word_count
from penstock.datastream import StreamExecutionEnvironment


def sources() -> list[Path]:
    """Return the standard library's modules; its test suite has files that are wrong on purpose."""
    top = Path(sysconfig.get_path("stdlib"))
    left_out = {"site-packages", "dist-packages", "test", "tests", "lib2to3", "idlelib"}
    return sorted(
        path for path in top.rglob("*.py") if not left_out.intersection(path.relative_to(top).parts)
    )


def copy_text(files: list[Path], folder: Path) -> None:
    """Copy the sources into a few files of one encoding, so that any reader can split them."""
    parts = [(folder / f"part-{index}.txt").open("w", encoding="utf-8") for index in range(4)]
    for number, path in enumerate(files):
        parts[number % len(parts)].write(path.read_text("utf-8", errors="replace"))
    for part in parts:
        part.close()


def expected_counts(folder: Path) -> collections.Counter:
    """Return the counts that the job must find."""
    split = re.compile(r"\W+").split
    counter: collections.Counter = collections.Counter()
    for path in sorted(folder.iterdir()):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                counter.update(word for word in split(line.lower()) if word)
    return counter


def written_counts(folder: Path) -> dict[str, int]:
    """Return the last count of each word; a word's updates are in one file, in order."""
    counts: dict[str, int] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    word, count = line.split(" ")
                    counts[word] = int(count)
    return counts


def main() -> int:
    """Run the job and check it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=["spark", "local"], default="spark")
    parser.add_argument("-p", "--parallelism", type=int, default=2)
    arguments = parser.parse_args()
    os.environ["PENSTOCK_EXECUTION_TARGET"] = arguments.target

    with tempfile.TemporaryDirectory(prefix="penstock-main-job-") as scratch:
        text, output = Path(scratch, "text"), Path(scratch, "counts")
        text.mkdir()
        files = sources()
        copy_text(files, text)
        size_mb = sum(path.stat().st_size for path in text.iterdir()) / 1e6
        print(f"WordCount over {len(files)} files, {size_mb:.1f} MB, on {arguments.target}")

        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(arguments.parallelism)
        if arguments.target == "spark":
            env.configure_option("spark.master", f"local[{arguments.parallelism}]")
        word_count.define(env, str(text), str(output))
        started = time.perf_counter()
        result = env.execute("WordCount of the standard library")
        seconds = time.perf_counter() - started

        expected, found = expected_counts(text), written_counts(output)

    words = sum(expected.values())
    running_s = result.get_net_runtime() / 1000
    print("\nthe ten most frequent words")
    for word, count in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:10]:
        print(f"{count:>10,}  {word}")
    print(f"\n{words:,} words, {len(expected):,} distinct")
    print(
        f"{words / running_s:,.0f} words/s while the job ran ({running_s:.2f} s; "
        f"{seconds:.2f} s with the start of the cluster)"
    )
    if dict(expected) != found:
        wrong = [w for w in {*expected, *found} if expected.get(w) != found.get(w)]
        print(
            f"WRONG: {len(wrong)} counts differ from collections.Counter, for example "
            f"{[(w, expected.get(w), found.get(w)) for w in sorted(wrong)[:5]]}",
            file=sys.stderr,
        )
        return 1
    print("every count equals collections.Counter's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
