"""A replica of a database's table from its change log, in SQL.

    python examples/cdc_replica.py FOLDER

Debezium writes each change of a row as JSON.  The program writes such changes to a file below the
folder, and applies them to a table of SQLite: insertions, updates and deletions by primary key.
"""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from penstock.table import EnvironmentSettings, TableEnvironment

#: Each change: the row before it and the row after it.
CHANGES = [
    (None, {"id": 1, "item": "tea", "price": 2.5}),
    (None, {"id": 2, "item": "cake", "price": 4.0}),
    (None, {"id": 3, "item": "jam", "price": 3.0}),
    ({"id": 1, "item": "tea", "price": 2.5}, {"id": 1, "item": "tea", "price": 2.75}),
    ({"id": 2, "item": "cake", "price": 4.0}, None),
]

STATEMENTS = """
CREATE TABLE changes (id BIGINT, item STRING, price DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '{folder}/changes', 'format' = 'debezium-json');

CREATE TABLE replica (id BIGINT, item STRING, price DOUBLE, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/replica.db', 'table-name' = 'items');
"""


def write_changes(folder):
    """Write the change log, a line for each change."""
    Path(folder, "changes").mkdir()
    with Path(folder, "changes", "items.json").open("w") as log:
        for before, after in CHANGES:
            kind = "c" if before is None else "d" if after is None else "u"
            log.write(json.dumps({"before": before, "after": after, "op": kind}) + "\n")


def replicate(folder):
    """Apply the change log to the replica, and return the replica's rows."""
    with closing(sqlite3.connect(Path(folder, "replica.db"))) as database:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, item TEXT, price REAL)")
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for statement in STATEMENTS.format(folder=folder).split(";")[:-1]:
        tables.execute_sql(statement)
    tables.execute_sql("INSERT INTO replica SELECT * FROM changes").wait()
    with closing(sqlite3.connect(Path(folder, "replica.db"))) as database:
        return database.execute("SELECT * FROM items ORDER BY id").fetchall()


if __name__ == "__main__":
    write_changes(sys.argv[1])
    print(*replicate(sys.argv[1]), sep="\n")
