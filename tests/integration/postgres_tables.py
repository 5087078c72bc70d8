"""Tables of a real PostgreSQL whose changes are read, each with its own slot and publication."""

import os

import pytest
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.postgres_cdc import PostgresCdcSource
from support.postgres_server import PostgresServer
from support.sessions import eventually

ORDERS = Types.ROW_NAMED(["id", "item"], [Types.LONG(), Types.STRING()])


@pytest.fixture(scope="module")
def server():
    found = PostgresServer(wal_level="logical", max_replication_slots=50, max_wal_senders=50)
    yield found
    found.stop()


@pytest.fixture
def table(server, request):
    """Yield the name of a new table, its slot and its publication."""
    name = f"t{abs(hash(request.node.name))}"
    server.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, item TEXT)")
    return name


@pytest.fixture(params=["native", "pure"])
def runtime(request, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", request.param)


def environment(target="in-process", **options):
    configuration = Configuration.from_dict(options)
    if os.environ.get("PENSTOCK_RUNTIME") != "pure":  # the pure runtime needs processes
        configuration.set_string("execution.target", target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env


def source_of(server, table, rows=ORDERS, **settings):
    return PostgresCdcSource(server.url, table, rows, **{"slot": table, **settings})


def drop_slot(server, slot):
    """Drop a slot, once the server has noticed the end of its reader."""
    named = f"FROM pg_replication_slots WHERE slot_name = '{slot}'"

    def do():
        server.execute(f"SELECT pg_drop_replication_slot(slot_name) {named} AND NOT active")
        return not server.execute(f"SELECT 1 {named}")

    eventually(do, f"the slot {slot} is free")


def stream_of(env, source):
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "changes")


def shown(stream):
    """Return each row with its kind, as a text."""
    return stream.map(
        lambda row: f"{row.get_row_kind()} " + " ".join(map(str, row)), Types.STRING()
    )


def taken(found, count):
    return [next(found) for _ in range(count)]


def read(source):
    env = environment()
    env.set_parallelism(1)
    with shown(stream_of(env, source)).execute_and_collect() as found:
        return list(found)


def is_followed(server, slot):
    """Return whether changes are read from a slot, which is also active while it is created."""
    return server.execute(
        "SELECT 1 FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid "
        f"WHERE slot_name = '{slot}' AND state = 'streaming'"
    )


def confirmed(server, slot):
    """Return the position up to which the server may drop its log for the slot."""
    return server.execute(
        "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '" + slot + "'"
    )[0][0]
