"""W1, word count: penstock native and pure, beside the peers that are installed.

    python benchmarks/workloads/word_count.py [--target spark|local] [--bytes N] [--only ENGINE]

The text is 60 MB of seeded words unless ``--bytes`` says otherwise; parallelism 2.  PyFlink and
Bytewax are taken from this interpreter, or from the interpreters that PENSTOCK_BENCH_PYFLINK and
PENSTOCK_BENCH_BYTEWAX name.  Prints a table and writes ``benchmarks/results/word_count.json``.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness
import text

PEERS = harness.ROOT / "benchmarks" / "peers"
PURE_LIMIT_BYTES = 4_000_000


def flink_program(
    engine: str, python: str, words: int, parameters: dict, environment: dict[str, str]
) -> harness.Run:
    command = [python, str(PEERS / "flink_jobs.py")]
    return harness.measure(engine, "W1", command, words, parameters, environment)


def engines(arguments: argparse.Namespace) -> dict[str, Callable[[], harness.Run]]:
    folder = harness.ROOT / "data" / f"text-{arguments.bytes}"
    words = text.generate(folder, arguments.bytes)
    small_bytes = min(PURE_LIMIT_BYTES, arguments.bytes)
    small = harness.ROOT / "data" / f"text-{small_bytes}"
    small_words = text.generate(small, small_bytes)
    full = {"text": str(folder), "parallelism": 2}
    short = {"text": str(small), "parallelism": 2}
    spark = {"spark.master": "local[2]", "spark.ui.enabled": "false"}

    def penstock(runtime: str, target: str, parameters: dict, count: int) -> harness.Run:
        return flink_program(
            f"penstock {runtime} {target}",
            sys.executable,
            count,
            {**parameters, "root": "penstock", "configuration": spark if target == "spark" else {}},
            {"PENSTOCK_RUNTIME": runtime, "PENSTOCK_EXECUTION_TARGET": target},
        )

    found: dict[str, Callable[[], harness.Run]] = {}
    for target in [arguments.target] if arguments.target else ["spark", "local"]:
        found[f"native-{target}"] = lambda target=target: penstock("native", target, full, words)
        found[f"pure-{target}"] = lambda target=target: penstock("pure", target, short, small_words)
    if python := harness.python_for("pyflink", "PENSTOCK_BENCH_PYFLINK"):
        found["pyflink"] = lambda: flink_program(
            "PyFlink thread mode",
            python,
            small_words,
            {**short, "root": "pyflink", "configuration": {"python.execution-mode": "thread"}},
            {},
        )
    if bytewax := harness.python_for("bytewax", "PENSTOCK_BENCH_BYTEWAX"):
        found["bytewax"] = lambda: harness.measure(
            "Bytewax, 2 processes",
            "W1",
            [bytewax, "-m", "bytewax.testing", "-p", "2", f"{PEERS}/bytewax_flow.py:flow"],
            words,
            full,
        )
    for engine, program in [
        ("one Python loop", "plain_python.py"),
        ("pyarrow, one core", "columnar.py"),
    ]:
        found[program.removesuffix(".py")] = lambda engine=engine, program=program: harness.measure(
            engine, "W1", [sys.executable, str(PEERS / program)], words, full
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=["spark", "local"])
    parser.add_argument("--bytes", type=int, default=60_000_000)
    parser.add_argument("--only", action="append", help="engines to run, by their short names")
    arguments = parser.parse_args()
    available = engines(arguments)
    if unknown := set(arguments.only or ()) - set(available):
        parser.error(f"not here: {sorted(unknown)}; there are {sorted(available)}")
    runs = []
    for name, run in available.items():
        if not arguments.only or name in arguments.only:
            runs.append(run())
            harness.print_table(runs[-1:])
    print()
    harness.print_table(runs)
    harness.write_results("word_count", runs)


if __name__ == "__main__":
    main()
