"""The workloads W1 to W6: penstock native and pure, beside the installed peers.

    python benchmarks/workloads/all_workloads.py [--workload W2 ...] [--only ENGINE ...]
        [--target local|spark ...] [--scale 0.1] [--repeat 3]

Parallelism 2.  PyFlink and Bytewax are taken from this interpreter, or from the interpreters that
PENSTOCK_BENCH_PYFLINK and PENSTOCK_BENCH_BYTEWAX name; PyFlink's package contains Flink's Java,
which runs too if there is a ``javac``.  Prints a table and writes
``benchmarks/results/workloads.json``.  ``benchmarks/README.md`` defines the workloads.
"""

import argparse
import dataclasses
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness
import text

PEERS = harness.ROOT / "benchmarks" / "peers"
CLASSES = harness.ROOT / "build" / "peers"
KINDS = tuple(
    f"W6-{kind}"
    for kind in (
        *("dataclass", "slots", "plain", "plain-slots", "named-tuple", "dict"),
        *("times", "row", "row-by-name"),
        *("method-key", "process", "value-state", "map-state"),
        *("dict-in-value", "list-in-map", "timers"),
    )
)
WORKLOADS = ("W1", "W2", "W2-built-in", "W3", "W4", "W5")

#: Those with running results.
AGGREGATES = ("W1", "W2-built-in")

TEXT_BYTES = 60_000_000
NUMBERS = {"W2": 8_000_000, "W2-built-in": 8_000_000, "W3": 16_000_000, "W4": 8_000_000}

RECORDS_OF_A_KIND = 2_000_000

#: The share of the input that slow engines get.
SHARES = {"pure": 1 / 15, "pyflink": 1 / 60}

LATENCY_RATE = 20_000
LATENCY_SECONDS = 12
BUFFER_TIMEOUTS_MS = (1, 0)


@dataclasses.dataclass(frozen=True)
class Engine:
    """The commands that run one engine."""

    name: str
    command: tuple[str, ...]
    parameters: dict[str, object] = dataclasses.field(default_factory=dict)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    share: float = 1.0
    has_buffer_timeout: bool = False
    kinds: dict[str, object] | None = None
    """Parameters of ``record_kinds.py``, if the engine runs W6."""
    workloads: tuple[str, ...] = WORKLOADS
    version: str | None = None
    """The version of an engine that is neither penstock nor Python."""


def engines(targets: list[str]) -> dict[str, Engine]:
    """Return the available engines, by short name."""
    found: dict[str, Engine] = {}
    flink_jobs = str(PEERS / "flink_jobs.py")
    spark = {"spark.master": "local[2]", "spark.ui.enabled": "false"}
    for target in targets:
        for runtime in ("native", "pure"):
            found[f"{runtime}-{target}"] = Engine(
                f"penstock {runtime} {target}",
                (sys.executable, flink_jobs),
                {"root": "penstock", "configuration": spark if target == "spark" else {}},
                {"PENSTOCK_RUNTIME": runtime, "PENSTOCK_EXECUTION_TARGET": target},
                share=SHARES.get(runtime, 1.0),
                has_buffer_timeout=True,
                kinds={"root": "penstock"} if runtime == "native" else None,
                # The pure runtime cannot keep up with the source's rate.
                workloads=WORKLOADS if runtime == "native" else WORKLOADS[:-1],
            )
    for short, name, emit in (
        ("columns", "penstock columns", "running"),
        ("last-values", "penstock columns, last values", "batch"),
    ):
        found[short] = Engine(
            name,
            (sys.executable, str(Path(__file__).with_name("columns.py"))),
            {"emit": emit},
            {"PENSTOCK_EXECUTION_TARGET": "local"},
            workloads=("W1", "W2-built-in", "W3", "W4") if short == "columns" else AGGREGATES,
        )
    if python := harness.python_for("pyflink", "PENSTOCK_BENCH_PYFLINK"):
        found["pyflink"] = Engine(
            "PyFlink thread mode",
            (python, flink_jobs),
            {"root": "pyflink", "configuration": {"python.execution-mode": "thread"}},
            # Thread mode searches for a program "python" with PyFlink.
            environment={"PATH": f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', '')}"},
            share=SHARES["pyflink"],
            has_buffer_timeout=True,
            version=harness.version_of("apache-flink", python),
        )
        if shutil.which("javac"):
            found["flink"] = Engine(
                "Flink Java, object reuse",
                flink_java(python),
                workloads=WORKLOADS[:-1],
                version=found["pyflink"].version,
            )
    if python := harness.python_for("bytewax", "PENSTOCK_BENCH_BYTEWAX"):
        found["bytewax"] = Engine(
            "Bytewax, 2 processes",
            (python, "-m", "bytewax.testing", "-p", "2", f"{PEERS}/bytewax_flow.py:flow"),
            workloads=("W1", "W2", "W3", "W4", "W5"),
            version=harness.version_of("bytewax", python),
        )
    for short, name in [("plain_python", harness.PLAIN), ("columnar", "numpy/pyarrow, one core")]:
        program = str(PEERS / f"{short}.py")
        found[short] = Engine(
            name,
            (sys.executable, program),
            workloads=WORKLOADS[:-1],
            kinds={"root": "plain"} if name == harness.PLAIN else None,
            version=None if name == harness.PLAIN else columnar_version(),
        )
    return found


def columnar_version() -> str:
    return ", ".join(f"{name} {harness.version_of(name)}" for name in ("numpy", "pyarrow"))


def flink_java(python: str) -> tuple[str, ...]:
    """Return the command that runs ``FlinkJobs.java``, compiled with the jars of PyFlink."""
    find = "import pathlib, pyflink; print(pathlib.Path(pyflink.__file__).parent / 'lib')"
    jars = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True)
    jars_and_classes = f"{jars.stdout.strip()}/*{os.pathsep}{CLASSES}"
    source = str(PEERS / "FlinkJobs.java")
    subprocess.run(["javac", "-d", str(CLASSES), "-cp", jars_and_classes, source], check=True)
    opens = [f"--add-opens=java.base/java.{room}=ALL-UNNAMED" for room in ("util", "lang")]
    return ("java", *opens, "-cp", jars_and_classes, "FlinkJobs")


def measure(engine: Engine, workload: str, scale: float, repeat: int) -> list[harness.Run]:
    """Return the median run, or for W5 that of each buffer timeout."""
    if workload == "W5":
        count = int(LATENCY_RATE * max(3.0, LATENCY_SECONDS * scale))
        timeouts = BUFFER_TIMEOUTS_MS if engine.has_buffer_timeout else (None,)
        return [
            _median(
                engine,
                engine.name if timeout is None else f"{engine.name}, timeout {timeout}",
                workload,
                count,
                {"n": count, "rate": LATENCY_RATE, "buffer_timeout": timeout},
                repeat,
            )
            for timeout in timeouts
        ]
    if workload == "W1":
        size = int(TEXT_BYTES * engine.share * scale)
        folder = harness.ROOT / "data" / f"text-{size}"
        words = text.generate(folder, size)
        parameters: dict[str, object] = {"text": str(folder)}
        return [_median(engine, engine.name, workload, words, parameters, repeat)]
    if workload in KINDS:
        assert engine.kinds is not None, "asked for by who runs W6"
        program = (sys.executable, str(PEERS / "record_kinds.py"))
        engine = dataclasses.replace(engine, command=program, parameters=engine.kinds)
        count = int(RECORDS_OF_A_KIND * scale)
        return [_median(engine, engine.name, workload, count, {"n": count}, repeat)]
    count = int(NUMBERS[workload] * engine.share * scale)
    return [_median(engine, engine.name, workload, count, {"n": count}, repeat)]


def _median(
    engine: Engine,
    name: str,
    workload: str,
    records: int,
    parameters: dict[str, object],
    repeat: int,
) -> harness.Run:
    everything = {"parallelism": 2, **engine.parameters, **parameters}
    runs = [
        harness.measure(
            name, workload, list(engine.command), records, everything, engine.environment
        )
        for _ in range(repeat)
    ]
    middle = statistics.median_low([run.seconds for run in runs])
    if runs[0].latency_ms is not None:
        p99 = statistics.median_low([run.latency_ms.p99 for run in runs if run.latency_ms])
        return next(run for run in runs if run.latency_ms and run.latency_ms.p99 == p99)
    return next(run for run in runs if run.seconds == middle)


def main(options: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workload", action="append", choices=(*WORKLOADS, *KINDS, "W6"))
    parser.add_argument("--only", action="append", help="engines to run, by their short names")
    parser.add_argument("--target", action="append", choices=["spark", "local"])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the input")
    parser.add_argument("--repeat", type=int, default=1, help="runs of which the median counts")
    parser.add_argument("--results", default="workloads", help="name of the file of results")
    arguments = parser.parse_args(options)
    available = engines(arguments.target or ["local"])
    if unknown := set(arguments.only or ()) - set(available):
        parser.error(f"not here: {sorted(unknown)}; there are {sorted(available)}")
    runs: list[harness.Run] = []
    failures: list[str] = []
    chosen = arguments.workload or (*WORKLOADS, "W6")
    for workload in [w for name in chosen for w in (KINDS if name == "W6" else (name,))]:
        for short, engine in available.items():
            runs_it = (
                engine.kinds is not None if workload in KINDS else workload in engine.workloads
            )
            if not runs_it or short not in (arguments.only or available):
                continue
            try:
                measured = measure(engine, workload, arguments.scale, arguments.repeat)
            except RuntimeError as error:
                failures.append(str(error))
                print(error, file=sys.stderr)
                continue
            runs.extend(measured)
            harness.print_table(measured)
    print()
    harness.print_table(runs)
    ran = {run.engine for run in runs}
    peers = {
        engine.name: engine.version
        for engine in available.values()
        if engine.version is not None and engine.name in ran
    }
    harness.write_results(arguments.results, runs, peers)
    if failures:
        sys.exit(f"{len(failures)} runs failed")


if __name__ == "__main__":
    main()
