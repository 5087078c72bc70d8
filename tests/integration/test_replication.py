"""A job that fails halfway replicates a table of PostgreSQL, including deletions.

Method: the job copies the changes into a second table by key; it fails once halfway, and is
cancelled when a last change has arrived.
"""

import pytest
from integration.postgres_tables import environment, server, source_of, stream_of, table
from penstock.common import Types
from penstock.datastream import MapFunction
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from penstock.datastream.functions import CheckpointListener
from support.sessions import eventually

__all__ = ["server", "table"]

pytest.importorskip("psycopg")

pytestmark = pytest.mark.server

ORDERS = Types.ROW_NAMED(["id", "item"], [Types.LONG(), Types.STRING()])


class FailOnce(MapFunction, CheckpointListener):
    """Fails at a row, in the first attempt; records that a checkpoint is complete."""

    def __init__(self, noted):
        self.noted = noted

    def notify_checkpoint_complete(self, checkpoint_id):
        """Record it."""
        self.noted.touch()

    def open(self, runtime_context):
        """Record the attempt."""
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value):
        """Forward a row."""
        if value.item == "fail" and self.attempt == 0:
            raise ValueError("once")
        return value


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_table_is_replicated(server, table, identity, tmp_path):
    copy = f"{table}_copy"
    server.execute(f"CREATE TABLE {copy} (id BIGINT PRIMARY KEY, item TEXT)")
    server.execute(f"ALTER TABLE {table} REPLICA IDENTITY {identity}")
    server.execute(f"INSERT INTO {table} SELECT n, 'item' || n FROM generate_series(1, 50) AS n")
    env = environment(
        **{
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "2",
            "restart-strategy.fixed-delay.delay": "0 s",
            "execution.checkpointing.interval": "100 ms",
        }
    )
    connection = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    sink = JdbcSink.upsert(
        copy,
        ORDERS,
        ["id"],
        connection.with_url(f"jdbc:{server.url}").build(),
        JdbcExecutionOptions.builder().with_batch_size(7).build(),
    )
    changes = stream_of(env, source_of(server, table))
    changes.map(FailOnce(tmp_path / "checkpointed"), ORDERS).add_sink(sink)
    job = env.execute_async()
    try:
        counted = f"SELECT COUNT(*) FROM {copy}"
        eventually(lambda: server.execute(counted) == [(50,)], "the rows are copied")
        # Without a checkpoint after them a job would start over, with the rows as they are then.
        (tmp_path / "checkpointed").unlink(missing_ok=True)
        eventually((tmp_path / "checkpointed").exists, "a checkpoint is complete")
        server.execute(f"UPDATE {table} SET item = 'fail' WHERE id = 7")
        server.execute(f"DELETE FROM {table} WHERE id % 3 = 0")
        server.execute(f"UPDATE {table} SET id = id + 1000 WHERE id % 5 = 0")
        server.execute(f"INSERT INTO {table} VALUES (3, 'again'), (5000, 'last')")
        server.execute(f"DELETE FROM {table} WHERE id = 1005")
        expected = server.execute(f"SELECT id, item FROM {table} ORDER BY id")
        eventually(
            lambda: server.execute(f"SELECT id, item FROM {copy} ORDER BY id") == expected,
            "the copy has the rows of the table",
        )
    finally:
        job.cancel().result()


COLUMNS = {
    "price": ("NUMERIC(20, 4)", Types.BIG_DEC(), "1234567.8900"),
    "since": ("TIMESTAMPTZ", Types.INSTANT(), "'2026-01-02 03:04:05.678901+02'"),
    "at": ("TIMESTAMP", Types.SQL_TIMESTAMP(), "'2026-01-02 03:04:05.678901'"),
    "day": ("DATE", Types.SQL_DATE(), "'2026-01-02'"),
    "hour": ("TIME", Types.SQL_TIME(), "'03:04:05.5'"),
    "doc": ("JSONB", Types.STRING(), """'{"a": [1, null, "é"]}'"""),
    "code": ("UUID", Types.STRING(), "'0f8fad5b-d9cb-469f-a165-70867728950e'"),
    "raw": ("BYTEA", Types.PRIMITIVE_ARRAY(Types.BYTE()), r"'\x00ff'"),
    "numbers": ("BIGINT[]", Types.STRING(), "'{1,NULL,3}'"),
    "texts": ("TEXT[]", Types.STRING(), """'{"x y",NULL}'"""),
    "ratio": ("DOUBLE PRECISION", Types.DOUBLE(), "'NaN'"),
    "truth": ("BOOLEAN", Types.BOOLEAN(), "true"),
    "small": ("SMALLINT", Types.SHORT(), "-7"),
}


def test_columns_of_every_type_and_nulls_are_replicated(server, table):
    """Each value arrives in a column of its own type, from a row of the table and from a change."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, *_) in COLUMNS.items())
    values = ", ".join(literal for *_, literal in COLUMNS.values())
    names = ", ".join(COLUMNS)
    copy = f"{table}_copy"
    for name in (table, copy):
        server.execute(f"DROP TABLE IF EXISTS {name}")
        server.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, {columns})")
    server.execute(f"INSERT INTO {table} VALUES (1, {values})")
    server.execute(f"INSERT INTO {table} (id) VALUES (2)")
    rows = Types.ROW_NAMED(
        ["id", *COLUMNS], [Types.LONG(), *(kind for _, kind, _ in COLUMNS.values())]
    )
    connection = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    sink = JdbcSink.upsert(
        copy,
        rows,
        ["id"],
        connection.with_url(f"jdbc:{server.url}").build(),
        JdbcExecutionOptions.builder().with_batch_size(1).build(),
    )
    env = environment()
    stream_of(env, source_of(server, table, rows)).add_sink(sink)
    job = env.execute_async()

    def same():
        first, second = (
            server.execute(f"SELECT t::text FROM (SELECT * FROM {name} ORDER BY id) AS t")
            for name in (table, copy)
        )
        return first == second

    try:
        eventually(same, "the rows are copied")
        server.execute(f"INSERT INTO {table} VALUES (3, {values})")
        server.execute(f"INSERT INTO {table} (id) VALUES (4)")
        server.execute(f"UPDATE {table} SET ({names}) = ROW({values}) WHERE id = 2")
        nulls = ", ".join(f"{name} = NULL" for name in COLUMNS)
        server.execute(f"UPDATE {table} SET {nulls} WHERE id = 1")
        eventually(same, "the changes are copied")
    finally:
        job.cancel().result()
