"""Costs of SQL besides the rates of Nexmark.

    [PENSTOCK_BENCH_PYFLINK=PYTHON] python benchmarks/sql.py [--keys 5000000] [--rows 10000000]

The import of ``penstock.table``; planning; the time to the first record; the memory of a group and
of a row that a join keeps; and Python functions beside PyFlink.  Prints a table and writes
``benchmarks/results/sql.json``.

The functions add one: `SELECT f(x) FROM numbers` into a sink that drops rows, parallelism 2.
PyFlink runs the scalar function in thread mode, its fastest, and the pandas function in processes,
as it must.  A rate is the difference between a job of all rows and one of a tenth of them, so that
the start does not count; PyFlink gets a tenth of the rows.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from nexmark.flink_sql import SQL
from nexmark.own_sql import environment
from workloads import harness

IMPORT = (
    "import time; start = time.process_time(); import penstock.table; "
    "print((time.process_time() - start) * 1e3)"
)
FUNCTION = Path(__file__).parent / "peers" / "table_function.py"
FUNCTIONS = {"general": ("a scalar Python function", 5), "pandas": ("a pandas function", 3)}
"""By kind of function, its name and how many times PyFlink's rate is the goal."""

PYFLINK_SHARE = 0.1
REPEAT = 3
ROWS = 4096


def planning_ms():
    """Return the CPU time of the first statement, with imports, and each query's median, in ms."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        env = environment(Path(folder))
        env.sql_query(SQL["q0"]).explain()
        first = (time.process_time() - start) * 1e3
        medians = {}
        for name, text in SQL.items():
            taken = []
            for _ in range(5):
                start = time.process_time()
                env.sql_query(text).explain()
                taken.append((time.process_time() - start) * 1e3)
            medians[name] = statistics.median(taken)
    return first, medians


def bytes_per_key(keys):
    """Return the memory of a key's group, in the operator itself."""
    import pyarrow as pa

    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
    from penstock.table import types
    from penstock.taskexecutor.operators.relational.batches import arrow_schema
    from unit.table.running import HarnessTable, RunningQuery

    table = HarnessTable.of("t", k=types.BigIntType())
    schema = arrow_schema(table.schema, has_kinds=False)
    query = RunningQuery("SELECT k, COUNT(*) FROM t GROUP BY k", [table])
    process = psutil.Process()
    before = 0
    for start in range(0, keys + ROWS, ROWS):
        if start == ROWS:
            gc.collect()
            before = process.memory_info().rss
        column = pa.array(range(start, start + ROWS), pa.int64())
        query.harness.process_element("t", pa.RecordBatch.from_arrays([column], schema=schema))
    gc.collect()
    emitted = sum(batch.nbytes for batch in query.harness.values("result")[1:])
    found = (process.memory_info().rss - before - emitted) / keys
    query.close()
    return found


def memory_of_a_kept_bid(count):
    """Return the memory of a bid in the join of q20, beside its bytes in Arrow."""
    import pyarrow as pa

    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
    from nexmark import events
    from penstock.table import types
    from penstock.taskexecutor.operators.relational.batches import arrow_schema
    from unit.table.running import HarnessTable, RunningQuery

    kinds = {"int64": types.BigIntType(), "string": types.VarCharType(2**31 - 1)}
    tables = {
        name: HarnessTable.of(name, **{field.name: kinds[str(field.type)] for field in schema})
        for name, schema in events.SCHEMAS.items()
        if name != "person"
    }
    query = RunningQuery(SQL["q20"], list(tables.values()))
    schema = arrow_schema(tables["bid"].schema, has_kinds=False)
    process = psutil.Process()
    before = kept = kept_bytes = 0
    for number, block in enumerate(events.batches(count, 1, events.RATE)):
        if number == 1:
            gc.collect()
            before = process.memory_info().rss
        bids = block["bid"]
        query.harness.process_element(
            "bid", pa.RecordBatch.from_arrays(bids.columns, schema=schema)
        )
        if number > 0:
            kept += bids.num_rows
            kept_bytes += bids.nbytes
    gc.collect()
    found = process.memory_info().rss - before
    query.close()
    return found / kept_bytes


def first_record_s():
    """Return the time from a statement to its first record, on two local workers."""
    from penstock.table import EnvironmentSettings, TableEnvironment

    taken = []
    for _ in range(REPEAT):
        env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        env.get_config().set("parallelism.default", "2")
        env.get_config().set("execution.target", "local")
        env.execute_sql("CREATE TABLE numbers (x BIGINT) WITH ('connector' = 'datagen')")
        start = time.perf_counter()
        with env.execute_sql("SELECT x + 1 FROM numbers").collect() as results:
            next(results)
            taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def function_rate(python, root, kind, rows):
    """Return the median of the rows per second of a Python function."""
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"

    def seconds(count):
        done = subprocess.run(
            [python, FUNCTION, root, kind, str(count)],
            check=True,
            env=os.environ | {"PATH": path},  # PyFlink looks for the interpreter there
            stdout=subprocess.PIPE,
            text=True,
        )
        return json.loads(done.stdout.splitlines()[-1])["seconds"]

    few = rows // 10
    return statistics.median((rows - few) / (-seconds(few) + seconds(rows)) for _ in range(REPEAT))


def rows_of_functions(pyflink, rows):
    """Yield the rows of the functions, beside PyFlink's."""
    for kind, (name, goal) in FUNCTIONS.items():
        own = function_rate(sys.executable, "penstock", kind, rows)
        other = function_rate(pyflink, "pyflink", kind, int(rows * PYFLINK_SHARE))
        yield {"name": name, "value": round(own), "unit": "rows/s", "flink": round(other)}
        yield judged(f"{name}, of PyFlink's rate", own / other, "times", goal, is_least=True)


def judged(name, value, unit, goal=None, *, is_least=False):
    """Return a row with its goal, a largest value unless it is the least one."""
    met = None if goal is None else value >= goal if is_least else value <= goal
    return {"name": name, "value": round(value, 3), "unit": unit, "goal": goal, "met": met}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = parser.parse_args()
    imports = [
        float(
            subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, check=True).stdout
        )
        for _ in range(REPEAT)
    ]
    first, medians = planning_ms()
    slowest = max(medians, key=medians.__getitem__)
    kept = memory_of_a_kept_bid(min(arguments.keys, 1_000_000))
    rows = [
        judged("import of penstock.table, CPU time", statistics.median(imports), "ms", 150),
        judged("first statement with its imports, CPU time", first, "ms"),
        judged(f"planning of {slowest}, the slowest query, CPU time", medians[slowest], "ms", 50),
        judged("from a statement to its first record", first_record_s(), "s", 1),
        judged(
            f"state of a group, {arguments.keys:,} keys", bytes_per_key(arguments.keys), "B", 130
        ),
        judged(
            "memory of a bid that the join of q20 keeps, of its bytes in Arrow", kept, "times", 2
        ),
    ]
    pyflink = harness.python_for("pyflink", "PENSTOCK_BENCH_PYFLINK")
    peers = {}
    if pyflink is not None:
        rows += rows_of_functions(pyflink, arguments.rows)
        peers["flink"] = harness.version_of("apache-flink", pyflink)
    for row in rows:
        print(f"{row['name']:70} {row['value']:14,} {row['unit']:7} {row.get('goal') or ''}")
    harness.write_document("sql", rows, peers)


if __name__ == "__main__":
    main()
