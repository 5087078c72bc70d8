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
