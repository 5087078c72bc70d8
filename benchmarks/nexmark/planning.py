"""Costs of SQL besides its rate: the import, planning, and the state of GROUP BY.

    python benchmarks/nexmark/planning.py [--keys 1000000]

Prints as JSON: the CPU time of ``import penstock.table`` in a new process in ms, that of the first
statement, with its imports, and of the slowest query, median of five, in ms; the process memory per
key of ``SELECT k, COUNT(*) FROM t GROUP BY k`` in bytes, without its output's; and that of a bid
that the join of q20 keeps, as a multiple of the bid's bytes in Arrow.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import psutil
from nexmark.flink_sql import SQL
from nexmark.own_sql import environment

IMPORT = (
    "import time; start = time.process_time(); import penstock.table; "
    "print((time.process_time() - start) * 1e3)"
)
ROWS = 4096


def planning_ms():
    """Return the CPU time of the first query, then the median of each query, in ms."""
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

    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
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

    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    arguments = parser.parse_args()
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, check=True)
    first, medians = planning_ms()
    slowest = max(medians, key=medians.__getitem__)
    figures = {
        "import_ms": round(float(done.stdout), 1),
        "first_statement_ms": round(first, 1),
        "slowest_query": slowest,
        "planning_ms": round(medians[slowest], 1),
        "bytes_per_key": round(bytes_per_key(arguments.keys)),
        "kept_bid_of_arrow": round(memory_of_a_kept_bid(arguments.keys), 2),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
