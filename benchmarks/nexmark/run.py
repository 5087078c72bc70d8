"""Nexmark: penstock beside other engines and a plain Python loop on the same files.

    python benchmarks/nexmark/run.py [--events 1000000] [--query q5 ...] [--only ENGINE ...]
        [--repeat 3] [--smoke] [--form json|kafka]

Every engine's result of the first ``--checked`` events is compared with DuckDB's before any timing:
a query whose result differs gets no rate.  penstock, Flink and clink run with parallelism 2, the
others on one core.  A rate, and the CPU time of an event, are differences of all events and the
first tenth of them, so that the start of a job does not count; the median of the repeats counts.
Prints a table and, without ``--only``, ``--query`` and ``--smoke``, writes
``benchmarks/results/nexmark.json``.

Flink 2.3 and clink take part if they are here, as ``benchmarks/README.md`` describes.  With
``--form json`` penstock and DuckDB read lines of JSON; with ``--form kafka`` penstock and Flink
read records of JSON from a broker that this program runs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from nexmark import engines, events, topics
from nexmark.results import QUERIES
from workloads import harness


@dataclasses.dataclass(frozen=True)
class Row:
    """The measurement of one engine and query."""

    query: str
    engine: str
    events: int
    events_per_s: float | None
    cpu_ns_per_event: float | None
    failure: str | None = None


def measured(engine: engines.Engine, query: str, folders: dict[int, Path], repeat: int) -> Row:
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
    parser.add_argument("--form", choices=("parquet", "json", "kafka"), default="parquet")
    parser.add_argument("--smoke", action="store_true", help="few events, once, nothing written")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(options)
    if arguments.smoke:
        arguments.events, arguments.checked, arguments.repeat = 20_000, 5_000, 1
        arguments.query = arguments.query or ["q5"]
        arguments.only = arguments.only or ["plain", "loop"]
    available = engines.available(arguments.form)
    if unknown := set(arguments.only or ()) - set(available):
        parser.error(f"not here: {sorted(unknown)}; there are {sorted(available)}")
    chosen = {n: e for n, e in available.items() if n in (arguments.only or available)}
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(topics.broker()) if arguments.form == "kafka" else None
        rows = compared(arguments, chosen, servers)
    if any(row.failure for row in rows):
        sys.exit(f"{sum(row.failure is not None for row in rows)} queries have no rate")


def compared(
    arguments: argparse.Namespace, chosen: dict[str, engines.Engine], servers: str | None
) -> list[Row]:
    """Check and measure the queries of the chosen engines.

    Args:
        arguments: The options of the command line.
        chosen: The engines, by name.
        servers: The address of the broker, if the tables are topics.
    """
    events_of = "json" if servers else arguments.form

    @functools.cache
    def folder(count: int) -> Path:
        path = harness.ROOT / "data" / "nexmark" / f"{events_of}-{count}-{arguments.seed}"
        events.write(path, count, arguments.seed, events_of)
        if servers:
            topics.fill(path, servers)
        return path

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
            write_results(arguments.form, rows, chosen, load[0])
    print(f"\nload average before {load[0]:.1f}, after {os.getloadavg()[0]:.1f}")
    print_table(rows, list(chosen))
    return rows


def write_results(
    form: str, rows: list[Row], chosen: dict[str, engines.Engine], load: float
) -> None:
    """Write ``benchmarks/results/nexmark.json``, or ``nexmark_kafka.json``."""
    harness.write_document(
        "nexmark" if form == "parquet" else f"nexmark_{form}",
        [dataclasses.asdict(row) for row in rows],
        {name: engine.version for name, engine in chosen.items() if engine.version is not None},
        load_average=[load, os.getloadavg()[0]],
    )


if __name__ == "__main__":
    main()
