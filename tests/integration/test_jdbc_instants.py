"""Instants of databases: timestamps with a zone, and values that no datetime can represent."""

import datetime

import pytest
from penstock.common import Instant, Row, Time, Types
from penstock.datastream import AsyncDataStream
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcLookup, JdbcSink
from penstock.errors import UndecodableRecordError
from support.environments import in_process
from support.postgres_server import PostgresServer
from support.zones import machine_in

pytest.importorskip("psycopg")

pytestmark = pytest.mark.server

NOON = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture
def options():
    server = PostgresServer()
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    with machine_in("America/New_York"):
        yield server, builder.with_url(f"jdbc:{server.url}").build()
    server.stop()


def looked_up(options, query):
    lookup = JdbcLookup(query, lambda _: (), lambda _, rows: [row.t for row in rows], options)
    env = in_process()
    env.enable_checkpointing(20)  # with checkpoints a job restarts without end
    ones = env.from_collection([1], Types.INT())
    stream = AsyncDataStream.ordered_wait(ones, lookup, Time.seconds(30), 1, Types.SQL_TIMESTAMP())
    with stream.rebalance().execute_and_collect() as found:
        return list(found)


def test_instants_are_stored_and_looked_up_as_such(options):
    server, connection = options
    server.execute("CREATE TABLE moments (t TIMESTAMPTZ)")
    row_type = Types.ROW_NAMED(["t"], [Types.INSTANT()])
    env = in_process()
    rows = [Row(t=Instant(1_704_110_400, 0)), Row(t=NOON), Row(t=None)]
    sink = JdbcSink.sink("INSERT INTO moments VALUES (?)", row_type, connection)
    env.from_collection(rows).add_sink(sink)
    env.execute()
    found = looked_up(connection, "SELECT t FROM moments WHERE t IS NOT NULL")
    assert [(each, each.tzinfo) for each in found] == [(NOON, datetime.UTC)] * 2
    for text in ("infinity", "0044-03-15 BC", "10000-01-01"):
        with pytest.raises(
            UndecodableRecordError, match="has a value that Python cannot represent"
        ):
            looked_up(connection, f"SELECT '{text}'::timestamptz AS t")
