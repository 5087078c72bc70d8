"""The engines that `run.py` compares: the program of each, and the check of its results."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nexmark import clink_sql, events, frames, oracle
from nexmark.forms import FORMS
from nexmark.results import QUERIES, difference
from workloads import harness

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT_S = 600
PROGRAMS = Path(__file__).parent
FLINK_JARS = harness.ROOT / "build" / "peers" / "flink-nexmark"
#: Flink's connector for Kafka.
FLINK_KAFKA_JARS = harness.ROOT / "build" / "peers" / "flink-kafka"
#: penstock's forms, which read JSON as well.
STREAMS = {"plain", "expressions"}
#: The queries that are measured over Kafka.
OVER_KAFKA = ("q0", "q5", "q9")


class Engine:
    """An engine, whose program runs in separate processes.

    Attributes:
        has_cpu_time: Whether its program waits for all its processes, so that their CPU time is
            known.
    """

    has_cpu_time = True

    def __init__(self, name: str, queries: Iterable[str], form: str = "parquet") -> None:
        """Describe an engine.

        Args:
            name: Its short name.
            queries: Those that it can answer.
            form: What contains the tables: `parquet`, `json` or `kafka`.
        """
        self.name = name
        self.queries = set(queries)
        self.version = harness.version_of(name) if name in {"duckdb", "polars"} else None
        self._form = form

    def command(self, query: str, folder: Path) -> list[str]:
        """Return the command that runs a query."""
        form = ["--form", self._form] if self.name in STREAMS else []
        program = PROGRAMS / "program.py"
        return [sys.executable, str(program), self.name, query, str(folder), *form]

    def check(self, query: str, folder: Path) -> str | None:
        """Return the difference from DuckDB's result; None if there is none."""
        found: str | None = _answer([*self.command(query, folder), "--check"])["difference"]
        return found

    def seconds(self, query: str, folder: Path) -> tuple[float, float]:
        """Run a query; return its seconds and the CPU seconds of all its processes."""
        before = _children_cpu_s()
        taken = _answer(self.command(query, folder))["seconds"]
        return taken, _children_cpu_s() - before


class _WritesRows(Engine):
    """An engine whose program writes the rows of its result to a file, a JSON list on each line."""

    def check(self, query: str, folder: Path) -> str | None:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
            path = Path(scratch, "rows")
            _answer([*self.command(query, folder), "--rows", str(path)])
            rows = [tuple(json.loads(line)) for line in path.read_text().splitlines()]
        return self.difference(query, rows, oracle.Oracle(folder).rows(query))

    def difference(
        self, query: str, rows: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]
    ) -> str | None:
        """Compare the rows with DuckDB's."""
        return difference(query, rows, expected)


class Sql(_WritesRows):
    """penstock's SQL, which reads one file for each table, as Flink does."""

    def __init__(self, form: str = "parquet") -> None:
        """Describe it.

        Args:
            form: What contains the tables: `parquet` or `kafka`.
        """
        from nexmark.flink_sql import SQL

        super().__init__("sql", SQL, form)

    def command(self, query: str, folder: Path) -> list[str]:
        self._prepare(folder)
        return [sys.executable, str(PROGRAMS / "own_sql.py"), query, str(folder)]

    def _prepare(self, folder: Path) -> None:
        if self._form == "parquet":
            joined_files(folder)


class Flink(Sql):
    """Flink SQL, whose JVM outlives the program."""

    has_cpu_time = False

    def __init__(self, python: str, form: str) -> None:
        """Describe it.

        Args:
            python: An interpreter with PyFlink.
            form: What contains the tables: `parquet` or `kafka`.
        """
        super().__init__(form)
        self.name = "flink"
        self.version = harness.version_of("apache-flink", python)
        self._python = python

    def command(self, query: str, folder: Path) -> list[str]:
        self._prepare(folder)
        program = str(PROGRAMS / "flink_sql.py")
        return [self._python, program, query, str(folder), str(flink_jars(self._form))]


class Clink(_WritesRows):
    """clink, a native streaming engine with SQL.

    It multiplies prices as decimals: fractions are compared to three digits.
    """

    def __init__(self, python: str) -> None:
        """Describe it.

        Args:
            python: An interpreter with pyclink.
        """
        super().__init__("clink", clink_sql.SQL)
        self.version = harness.version_of("pyclink", python)
        self._python = python

    def command(self, query: str, folder: Path) -> list[str]:
        lower_case = clink_sql.lower_case(folder)
        return [self._python, str(PROGRAMS / "clink_sql.py"), query, str(lower_case)]

    def difference(
        self, query: str, rows: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]
    ) -> str | None:
        return difference(query, map(_rounded, rows), list(map(_rounded, expected)))


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(value, 3) if isinstance(value, float) else value for value in row)


def joined_files(folder: Path) -> None:
    """Write each table as one file as well: Flink reads several files in any order."""
    import pyarrow.dataset
    from pyarrow import parquet

    for table in events.SCHEMAS:
        path = folder / f"{table}.parquet"
        if not path.exists():
            parquet.write_table(pyarrow.dataset.dataset(folder / table).to_table(), path)


def available(form: str) -> dict[str, Engine]:
    """Return the engines that are here, by name."""
    found = {name: Engine(name, queries, form) for name, queries in FORMS.items()}
    python = harness.python_for("pyflink", "PENSTOCK_BENCH_PYFLINK")
    has_flink = python is not None and flink_jars(form).is_dir()
    if form == "kafka":
        found["sql"] = Sql(form)
        if python is not None and has_flink:
            found["flink"] = Flink(python, form)
        for engine in found.values():
            engine.queries &= set(OVER_KAFKA)
        return found
    found["duckdb"] = Engine("duckdb", oracle.QUERIES, form)
    if form == "json":
        return found
    found["sql"] = Sql()
    found["loop"] = Engine("loop", QUERIES, form)
    found["polars"] = Engine("polars", frames.FRAMES, form)
    if clink := harness.python_for("pyclink", "PENSTOCK_BENCH_CLINK"):
        found["clink"] = Clink(clink)
    if python is not None and has_flink:
        found["flink"] = Flink(python, form)
    return found


def flink_jars(form: str) -> Path:
    """Return the folder of the jars that Flink needs for what contains the tables."""
    return FLINK_KAFKA_JARS if form == "kafka" else FLINK_JARS


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
