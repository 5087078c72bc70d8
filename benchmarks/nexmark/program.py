"""Runs one query on one engine once, in a separate process: the program that `run.py` measures.

    python benchmarks/nexmark/program.py ENGINE QUERY FOLDER [--check] [--form json|kafka]

Prints a line of JSON: the seconds, or with ``--check`` the difference from DuckDB's result.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from nexmark.results import QUERIES, difference

if TYPE_CHECKING:
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.data_stream import DataStream

ENGINES = ("plain", "expressions", "loop", "duckdb", "polars")
PARALLELISM = 2


def stream_of(
    form: str, query: str, folder: Path, files: str = "parquet", **options: str
) -> tuple[StreamExecutionEnvironment, DataStream[Any]]:
    """Return the output of a query in penstock, and its environment.

    Args:
        form: `plain` or `expressions`.
        query: The query.
        folder: The events.
        files: `parquet`, `json` or `kafka`.
        **options: Options of the job, with underscores for dots.

    Raises:
        KeyError: The query is not written in that form.
    """
    from nexmark.forms import FORMS
    from nexmark.tables import Tables
    from penstock.common import Configuration
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.expressions import field

    defaults = {"execution.target": "local", "parallelism.default": str(PARALLELISM)}
    given = {key.replace("_", "."): value for key, value in options.items()}
    configuration = Configuration.from_dict(defaults | given)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    assigner = None if form == "plain" else field("dateTime")
    return env, FORMS[form][query](Tables(env, folder, query, files, assigner))


def emitted(engine: str, query: str, folder: Path, files: str = "parquet") -> list[tuple[Any, ...]]:
    """Return all rows that an engine emits for a query."""
    if engine == "loop":
        from nexmark.loops import LOOPS

        return list(LOOPS[query](folder))
    if engine == "polars":
        from nexmark import frames

        return frames.rows(query, folder)
    if engine == "duckdb":
        from nexmark.oracle import Oracle

        return Oracle(folder).rows(query)
    with stream_of(engine, query, folder, files)[1].execute_and_collect() as results:
        return list(results)


def run(engine: str, query: str, folder: Path, files: str = "parquet") -> float:
    """Run a query and drop its result; return the seconds."""
    begun = time.perf_counter()
    if engine == "loop":
        from nexmark.loops import LOOPS

        begun = time.perf_counter()
        collections.deque(LOOPS[query](folder), maxlen=0)
    elif engine == "polars":
        from nexmark import frames

        begun = time.perf_counter()
        frames.run(query, folder)
    elif engine == "duckdb":
        from nexmark.oracle import Oracle

        oracle = Oracle(folder)
        begun = time.perf_counter()
        oracle.table(query)
    else:
        from penstock.datastream.connectors import DiscardingSink

        env, stream = stream_of(engine, query, folder, files)
        stream.sink_to(DiscardingSink())
        begun = time.perf_counter()
        env.execute(query)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("query", choices=QUERIES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="compare the result with DuckDB's")
    parser.add_argument("--form", choices=("parquet", "json", "kafka"), default="parquet")
    arguments = parser.parse_args()
    given = arguments.engine, arguments.query, arguments.folder, arguments.form
    if arguments.check:
        from nexmark.oracle import Oracle

        expected = Oracle(arguments.folder).rows(arguments.query)
        print(json.dumps({"difference": difference(arguments.query, emitted(*given), expected)}))
    else:
        print(json.dumps({"seconds": run(*given)}))


if __name__ == "__main__":
    main()
