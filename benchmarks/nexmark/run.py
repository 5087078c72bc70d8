"""Nexmark: penstock beside a plain Python loop, DuckDB, Polars and Flink SQL on the same files.

    python benchmarks/nexmark/run.py [--events 1000000] [--query q5 ...] [--only ENGINE ...]
        [--repeat 3] [--smoke] [--form json]

Every engine's result of the first ``--checked`` events is compared with DuckDB's before any timing:
a query whose result differs gets no rate.  penstock and Flink run with parallelism 2, the others on
one core.  A rate, and the CPU time of an event, are differences between all events and the first
tenth of them, so that the start of a job does not count; the median of the repeats counts. Prints a
table and, without ``--only``, ``--query`` and ``--smoke``, writes
``benchmarks/results/nexmark.json``.

Flink 2.3 takes part if PENSTOCK_BENCH_PYFLINK names an interpreter with PyFlink, and
``build/peers/flink-nexmark`` contains the jars that ``benchmarks/README.md`` names.  With ``--form
json`` penstock and DuckDB read lines of JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from nexmark import events, frames, oracle
from nexmark.forms import FORMS
from nexmark.results import QUERIES, difference
from workloads import harness

PROGRAM = Path(__file__).with_name("program.py")
FLINK_PROGRAM = Path(__file__).with_name("flink_sql.py")
SQL_PROGRAM = Path(__file__).with_name("own_sql.py")
FLINK_JARS = harness.ROOT / "build" / "peers" / "flink-nexmark"
LIMIT_S = 600
#: penstock's forms, which read JSON as well.
STREAMS = {"plain", "expressions"}


@dataclasses.dataclass(frozen=True)
class Row:
    """The measurement of one engine and query."""

    query: str
    engine: str
    events: int
    events_per_s: float | None
    cpu_ns_per_event: float | None
    failure: str | None = None


class Engine:
    """An engine, whose program runs in separate processes.

    Attributes:
        has_cpu_time: Whether its program waits for all its processes, so that their CPU time is
            known.
    """

    has_cpu_time = True

    def __init__(self, name: str, queries: set[str], form: str) -> None:
        """Describe an engine.

        Args:
            name: Its short name.
            queries: Those that it can answer.
            form: The format of the files, `parquet` or `json`.
        """
        self.name = name
        self.queries = queries
        self.version = harness.version_of(name) if name in {"duckdb", "polars"} else None
        self._form = form

    def command(self, query: str, folder: Path) -> list[str]:
        """Return the command that runs a query."""
        form = ["--form", self._form] if self.name in STREAMS else []
        return [sys.executable, str(PROGRAM), self.name, query, str(folder), *form]

    def check(self, query: str, folder: Path) -> str | None:
        """Return the difference from DuckDB's result; None if there is none."""
        found: str | None = _answer([*self.command(query, folder), "--check"])["difference"]
        return found

    def seconds(self, query: str, folder: Path) -> tuple[float, float]:
        """Run a query; return its seconds and the CPU seconds of all its processes."""
        before = _children_cpu_s()
        taken = _answer(self.command(query, folder))["seconds"]
        return taken, _children_cpu_s() - before


class Sql(Engine):
    """penstock's SQL, which reads one file for each table, as Flink does."""

    def __init__(self) -> None:
        """Describe it."""
        from nexmark.flink_sql import SQL

        super().__init__("sql", set(SQL), "parquet")

    def command(self, query: str, folder: Path) -> list[str]:
        joined_files(folder)
        return [sys.executable, str(SQL_PROGRAM), query, str(folder)]

    def check(self, query: str, folder: Path) -> str | None:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
            path = Path(scratch, "rows")
            _answer([*self.command(query, folder), "--rows", str(path)])
            rows = [tuple(json.loads(line)) for line in path.read_text().splitlines()]
        return difference(query, rows, oracle.Oracle(folder).rows(query))


class Flink(Sql):
    """Flink SQL, whose JVM outlives the program."""

    has_cpu_time = False

    def __init__(self, python: str) -> None:
        """Describe it.

        Args:
            python: An interpreter with PyFlink.
        """
        super().__init__()
        self.name = "flink"
        self.version = harness.version_of("apache-flink", python)
        self._python = python

    def command(self, query: str, folder: Path) -> list[str]:
        joined_files(folder)
        return [self._python, str(FLINK_PROGRAM), query, str(folder), str(FLINK_JARS)]


def joined_files(folder: Path) -> None:
    """Write each table as one file as well: Flink reads several files in any order."""
    import pyarrow.dataset
    from pyarrow import parquet

    for table in events.SCHEMAS:
        path = folder / f"{table}.parquet"
        if not path.exists():
            parquet.write_table(pyarrow.dataset.dataset(folder / table).to_table(), path)


def engines(form: str) -> dict[str, Engine]:
    """Return the available engines, by name."""
    found = {name: Engine(name, set(queries), form) for name, queries in FORMS.items()}
    found["duckdb"] = Engine("duckdb", set(oracle.QUERIES), form)
    if form == "json":
        return found
    found["sql"] = Sql()
    found["loop"] = Engine("loop", set(QUERIES), form)
    found["polars"] = Engine("polars", set(frames.FRAMES), form)
    python = harness.python_for("pyflink", "PENSTOCK_BENCH_PYFLINK")
    if python is not None and FLINK_JARS.is_dir():
        found["flink"] = Flink(python)
    return found


def _answer(command: list[str]) -> dict[str, Any]:
    """Run a program and return the JSON of its last line.

    Raises:
        RuntimeError: The program failed; the message has the end of its output.
    """
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LIMIT_S)
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}"
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measured(engine: Engine, query: str, folders: dict[int, Path], repeat: int) -> Row:
    """Time a query of an engine whose result has been checked.

    Args:
        engine: The engine.
        query: The query.
        folders: The events by their number, few and many.
        repeat: The number of runs, of which the median counts.
    """
    few, many = sorted(folders)
    rates, costs = [], []
    for _ in range(repeat):
        little = engine.seconds(query, folders[few])
        taken = engine.seconds(query, folders[many])
        seconds, cpu_s = (a - b for a, b in zip(taken, little, strict=True))
        if seconds > 0:
            rates.append((many - few) / seconds)
        if engine.has_cpu_time and cpu_s > 0:
            costs.append(cpu_s / (many - few) * 1e9)
    if not rates:
        # The result was right, but on a busy machine more events took no longer.
        return Row(query, engine.name, many, None, None)
    cost = statistics.median(costs) if costs else None
    return Row(query, engine.name, many, statistics.median(rates), cost)


def print_table(rows: list[Row], names: list[str]) -> None:
    """Print a line for each query: the rates of each engine in million events a second."""
    print(f"{'':5}" + "".join(f"{name:>13}" for name in names) + "   million events/s; CPU ns")
    found = {(row.query, row.engine): row for row in rows}
    for query in dict.fromkeys(row.query for row in rows):
        cells = []
        for name in names:
            row = found.get((query, name))
            if row is None or row.events_per_s is None:
                text = "" if row is None else "failed" if row.failure else "too busy"
                cells.append(f"{text:>13}")
            else:
                cost = row.cpu_ns_per_event
                cells.append(
                    f"{row.events_per_s / 1e6:7.2f}{'' if cost is None else f'{cost:.0f}':>6}"
                )
        print(f"{query:5}" + "".join(cells))


def main(options: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--checked", type=int, default=100_000, help="events of checked results")
    parser.add_argument("--query", action="append", choices=QUERIES)
    parser.add_argument("--only", action="append", help="engines to run, by their names")
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the median counts")
    parser.add_argument("--form", choices=("parquet", "json"), default="parquet")
    parser.add_argument("--smoke", action="store_true", help="few events, once, nothing written")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(options)
    if arguments.smoke:
        arguments.events, arguments.checked, arguments.repeat = 20_000, 5_000, 1
        arguments.query = arguments.query or ["q5"]
        arguments.only = arguments.only or ["plain", "loop"]
    available = engines(arguments.form)
    if unknown := set(arguments.only or ()) - set(available):
        parser.error(f"not here: {sorted(unknown)}; there are {sorted(available)}")
    chosen = {n: e for n, e in available.items() if n in (arguments.only or available)}
    data = harness.ROOT / "data" / "nexmark"

    def folder(count: int) -> Path:
        path = data / f"{arguments.form}-{count}-{arguments.seed}"
        return events.write(path, count, arguments.seed, arguments.form)

    checked = folder(min(arguments.checked, arguments.events))
    folders = {count: folder(count) for count in (arguments.events // 10, arguments.events)}
    rows: list[Row] = []
    load = os.getloadavg()
    for query in arguments.query or QUERIES:
        for name, engine in chosen.items():
            if query not in engine.queries:
                continue
            try:
                failure = engine.check(query, checked)
                if failure is None:
                    rows.append(measured(engine, query, folders, arguments.repeat))
                    continue
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failure = str(error)
            rows.append(Row(query, name, arguments.events, None, None, failure))
            print(f"{query} of {name} has no rate: {failure}", file=sys.stderr)
        print_table([row for row in rows if row.query == query], list(chosen))
        if not (arguments.only or arguments.query or arguments.smoke):
            write_results(rows, available, load[0])
    print(f"\nload average before {load[0]:.1f}, after {os.getloadavg()[0]:.1f}")
    print_table(rows, list(chosen))
    if any(row.failure for row in rows):
        sys.exit(f"{sum(row.failure is not None for row in rows)} queries have no rate")


def write_results(rows: list[Row], available: dict[str, Engine], load: float) -> None:
    """Write ``benchmarks/results/nexmark.json``."""
    harness.write_document(
        "nexmark",
        [dataclasses.asdict(row) for row in rows],
        {name: engine.version for name, engine in available.items() if engine.version is not None},
        load_average=[load, os.getloadavg()[0]],
    )


if __name__ == "__main__":
    main()
