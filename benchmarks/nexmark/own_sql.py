"""The queries in SQL, by penstock's table environment, from the texts that Flink runs.

    PYTHON benchmarks/nexmark/own_sql.py QUERY FOLDER [--rows FILE]

Prints the seconds of the job as JSON; with ``--rows`` writes the rows of the result instead, a JSON
list on each line, after applying the changes that the query emits.  Streaming mode, parallelism 2,
into a sink that drops rows; tables as in `flink_sql`.
"""

import argparse
import collections
import json
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from nexmark.flink_sql import COLUMNS, PARALLELISM, SQL, origin, plain


def environment(folder):
    """Return a table environment with the tables of a folder."""
    from penstock.table import EnvironmentSettings, TableEnvironment

    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    config = env.get_config()
    config.set("parallelism.default", str(PARALLELISM))
    config.set("pipeline.object-reuse", "true")
    config.set("table.local-time-zone", "UTC")
    for name, columns in COLUMNS.items():
        env.execute_sql(
            f"CREATE TABLE {name} ({columns}, ts AS TO_TIMESTAMP_LTZ(`dateTime`, 3), "
            f"WATERMARK FOR ts AS ts) WITH ({origin(folder, name)})"
        )
    return env


def rows_of(table):
    """Return the rows of a table after all changes."""
    from penstock.common import RowKind

    removed = (RowKind.DELETE, RowKind.UPDATE_BEFORE)
    counts = collections.Counter()
    with table.execute().collect() as results:
        for row in results:
            counts[tuple(map(plain, row))] += -1 if row.get_row_kind() in removed else 1
    return counts.elements()


def seconds_of(env, table):
    """Return the time that a query takes into a sink that drops its rows."""
    schema = table.get_schema()
    columns = ", ".join(
        f"c{number} {str(kind.nullable()).replace(' *ROWTIME*', '')}"
        for number, kind in enumerate(schema.get_field_data_types())
    )
    env.execute_sql(f"CREATE TABLE dropped ({columns}) WITH ('connector' = 'blackhole')")
    begun = time.perf_counter()
    table.execute_insert("dropped").wait()
    return time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("query", choices=SQL)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=Path)
    arguments = parser.parse_args()
    env = environment(arguments.folder)
    table = env.sql_query(SQL[arguments.query])
    if arguments.rows is None:
        print(json.dumps({"seconds": seconds_of(env, table)}))
        return
    with arguments.rows.open("w") as out:
        for row in rows_of(table):
            out.write(json.dumps(row) + "\n")
    print(json.dumps({"rows": str(arguments.rows)}))


if __name__ == "__main__":
    main()
