"""PostgresCdcSource against a real PostgreSQL of Debian's package.

The tests are skipped without the package.
"""

import runpy
from pathlib import Path

import pytest
from integration.postgres_tables import (
    ORDERS,
    confirmed,
    drop_slot,
    environment,
    is_followed,
    read,
    runtime,
    server,
    shown,
    source_of,
    stream_of,
    table,
    taken,
)
from penstock.common import Types
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.connectors.postgres_cdc import PostgresCdcSource
from penstock.errors import (
    FormatError,
    InvalidProgramError,
    SourceError,
)
from pyarrow import parquet
from support.gates import GATES, Gate, Gated, stopped
from support.kill_once import KillOnce
from support.postgres_server import PostgresServer
from support.sessions import eventually
from support.source_scenarios import once_after_a_failure, once_at_another_parallelism

__all__ = ["runtime", "server", "table"]

pytest.importorskip("psycopg")

pytestmark = pytest.mark.server


def test_rows_and_then_their_changes(server, table, runtime):
    server.execute(f"INSERT INTO {table} VALUES (1, 'tea'), (2, NULL)")
    stream = shown(stream_of(environment(), source_of(server, table)))
    with stream.execute_and_collect() as found:
        assert sorted(taken(found, 2)) == ["+I 1 tea", "+I 2 None"]
        server.execute(f"INSERT INTO {table} VALUES (3, 'jam')")
        server.execute(f"UPDATE {table} SET item = 'cake' WHERE id = 2")
        server.execute(f"UPDATE {table} SET id = 4 WHERE id = 1")
        server.execute(f"DELETE FROM {table} WHERE id = 3")
        assert taken(found, 5) == ["+I 3 jam", "+U 2 cake", "-D 1 None", "+I 4 tea", "-D 3 None"]
        server.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        server.execute(f"ALTER TABLE {table} ADD COLUMN price REAL DEFAULT 2")
        server.execute(f"UPDATE {table} SET item = 'bun' WHERE id = 2")
        server.execute(f"DELETE FROM {table} WHERE id = 4")
        assert taken(found, 3) == ["-U 2 cake", "+U 2 bun", "-D 4 tea"]


@pytest.mark.parametrize("has_key", [True, False])
def test_the_log_says_that_checkpoints_wait_for_a_table_without_key(server, table, has_key, caplog):
    if not has_key:
        server.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey")
        server.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
    server.execute(f"INSERT INTO {table} VALUES (1, 'tea')")
    env = environment()
    env.enable_checkpointing(20)
    with stream_of(env, source_of(server, table, bounded=True)).execute_and_collect() as found:
        assert [row.id for row in found] == [1]
    assert ("has no key: checkpoints wait until all of its rows" in caplog.text) is not has_key


def test_a_bounded_source_ends_with_what_was_there(server, table):
    server.execute(f"INSERT INTO {table} SELECT n, 'x' FROM generate_series(1, 12345) n")
    found = read(source_of(server, table, bounded=True))
    assert sorted(found) == sorted(f"+I {n} x" for n in range(1, 12346))
    server.execute(f"DELETE FROM {table} WHERE id > 2")
    without_rows = source_of(server, table, bounded=True, snapshot=False)
    kept = read(without_rows)
    assert len(kept) == 12343
    assert all(text.startswith("-D") for text in kept)


def test_a_publication_of_another_name_is_made(server, table):
    server.execute(f"INSERT INTO {table} VALUES (1, 'tea')")
    assert read(source_of(server, table, bounded=True, publication=f"{table}_p")) == ["+I 1 tea"]
    names = server.execute(f"SELECT pubname FROM pg_publication_tables WHERE tablename = '{table}'")
    assert names == [(f"{table}_p",)]


def test_an_existing_publication_decides_which_changes_arrive(server, table):
    server.execute(f"CREATE PUBLICATION {table}_p FOR TABLE {table} WITH (publish = 'insert')")
    settings = {"publication": f"{table}_p", "bounded": True}
    assert read(source_of(server, table, **settings)) == []
    server.execute(f"INSERT INTO {table} VALUES (1, 'tea')")
    server.execute(f"UPDATE {table} SET item = 'jam'")
    server.execute(f"DELETE FROM {table}")
    assert read(source_of(server, table, snapshot=False, **settings)) == ["+I 1 tea"]


def test_long_values_that_an_update_leaves(server, table):
    """The server does not send them again: they are read from the old row, if that is complete."""
    server.execute(f"ALTER TABLE {table} ADD COLUMN price INT")
    server.execute(f"ALTER TABLE {table} ALTER item SET STORAGE EXTERNAL")
    server.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
    server.execute(f"INSERT INTO {table} VALUES (1, repeat('x', 10000), 1)")
    with stream_of(environment(), source_of(server, table)).execute_and_collect() as found:
        assert next(found).item == "x" * 10_000
        server.execute(f"UPDATE {table} SET price = 2")
        assert [row.item for row in taken(found, 2)] == ["x" * 10_000] * 2
        server.execute(f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT")
        server.execute(f"UPDATE {table} SET price = 3")
        with pytest.raises(SourceError, match="has not changed the long value of 'item'"):
            next(found)


def test_the_example_that_writes_files(server, table, tmp_path):
    """Changes become rows of Parquet files, read by pyarrow."""
    server.execute(f"ALTER TABLE {table} ADD COLUMN price REAL DEFAULT 2.5")
    server.execute(f"INSERT INTO {table} VALUES (1, 'tea'), (2, 'jam')")
    program = Path(__file__).resolve().parents[2] / "examples" / "cdc_to_parquet.py"
    example = runpy.run_path(str(program))
    env = environment()
    env.enable_checkpointing(20)
    example["define"](env, server.url, table, str(tmp_path), bounded=False)

    def written(count):
        """Wait for a number of rows in all files, and return them."""
        found = []
        while len(found) < count:
            files = [path for path in tmp_path.rglob("*") if not path.name.startswith(".")]
            tables = [parquet.read_table(path) for path in files if path.is_file()]
            found = [tuple(row.values()) for part in tables for row in part.to_pylist()]
        return found

    client = env.execute_async()
    try:
        # The rows may already show changes that happen before they are read.
        written(2)
        server.execute(f"UPDATE {table} SET item = 'cake' WHERE id = 1")
        server.execute(f"DELETE FROM {table} WHERE id = 2")
        found = written(4)
    finally:
        client.cancel().result()
    assert sorted(found, key=str) == [
        ("+I", 1, "tea", 2.5),
        ("+I", 2, "jam", 2.5),
        ("+U", 1, "cake", 2.5),
        ("-D", 2, None, None),
    ]


def test_exactly_once_when_workers_are_killed(server, table, tmp_path, runtime):
    """During the snapshot, in a long transaction and after it: every row arrives once."""
    server.execute(f"INSERT INTO {table} SELECT n, 'x' FROM generate_series(1, 3000) n")
    env = environment(
        "local",
        **{
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "3",
            "restart-strategy.fixed-delay.delay": "1 ms",
            "taskmanager.numberOfTaskSlots": "2",
        },
    )
    env.enable_checkpointing(20)
    kill = KillOnce(tmp_path, 1500, 14_000, 20_000, part=lambda row: row.id)
    stream = shown(stream_of(env, source_of(server, table)).map(kill, ORDERS))
    with stream.execute_and_collect() as found:
        rows = taken(found, 3000)
        # Twice within one transaction, which is longer than the time between two checkpoints.
        server.execute(f"INSERT INTO {table} SELECT n, 'y' FROM generate_series(3001, 20000) n")
        rows += taken(found, 17_000)
        server.execute(f"DELETE FROM {table} WHERE id = 1")
        assert next(found) == "-D 1 None"
    assert sorted(rows) == sorted(f"+I {n} {'x' if n <= 3000 else 'y'}" for n in range(1, 20_001))
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("bounded", [True, False])
def test_the_source_continues_from_a_savepoint(server, table, tmp_path, bounded):
    count = 3000
    server.execute(f"INSERT INTO {table} SELECT n, n FROM generate_series(0, {count - 1}) n")

    def make(env):
        source = source_of(server, table, bounded=bounded)
        return stream_of(env, source).map(lambda row: row.id, Types.LONG())

    once_at_another_parallelism(make, tmp_path, count, ends=bounded)


def test_each_row_once_after_a_failure_among_them(server, table):
    """The job fails after checkpoints that contain a part of the rows."""
    server.execute(f"INSERT INTO {table} SELECT n, n FROM generate_series(0, 2999) n")

    def make(env):
        stream = stream_of(env, source_of(server, table))
        return stream.map(lambda row: row.id, Types.LONG())

    once_after_a_failure(make, 3000)


#: Tables whose rows are read in parts: the columns of the key, and its values for numbers.
#: Collations order these texts differently from bytes.
KEYS = {
    "number": ("a BIGINT", "n - 500"),
    "text": ("a TEXT", "CASE n % 3 WHEN 0 THEN 'é' WHEN 1 THEN 'Z' ELSE '-a' END || n"),
    "collated text": (
        'a TEXT COLLATE "en-x-icu"',
        "CASE n % 3 WHEN 0 THEN 'é' WHEN 1 THEN 'Z' ELSE '-a' END || n",
    ),
    "padded text": ("a CHAR(9)", "n % 7 || ' ' || n"),
    "uuid": ("a UUID", "md5(n::text)::uuid"),
    "decimal": ("a NUMERIC", "n * 1.5"),
    "time": ("a TIMESTAMPTZ", "to_timestamp(n * 1000)"),
    "bytes": ("a BYTEA", "sha256(n::text::bytea)"),
    "several": ("a INT, b TEXT", "n % 3, 'it''s ' || n"),
}


def folded(changes):
    """Return the remaining rows, by key; each change must match the present row."""
    rows, halves = {}, []
    for kind, key, value in changes:
        if kind in ("+I", "+U"):
            assert (key in rows) == (kind == "+U" and not halves), (kind, key)
            assert kind == "+U" or not halves
            rows[key], halves = value, []
        else:
            found = rows.pop(key)
            assert value in (None, found), (kind, key)
            halves = [key] if kind == "-U" else []
    return rows


@pytest.mark.parametrize(
    ("key", "identity", "is_read"),
    [
        *((key, "DEFAULT", True) for key in KEYS),
        ("number", "FULL", True),
        ("several", "FULL", True),
        ("text", "FULL", False),
        ("several", "INDEX", True),
    ],
)
def test_rows_in_parts_with_changes_between(server, table, tmp_path, key, identity, is_read):
    """A job stops among the rows, many change, and it continues: its output equals the table."""
    columns, value = KEYS[key]
    names = [column.split()[0] for column in columns.split(", ")]
    listed = ", ".join(names)
    server.execute(f"DROP TABLE {table}")
    server.execute(f"CREATE TABLE {table} ({columns}, v INT, id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO {table} SELECT {value}, 0, n FROM generate_series(0, 999) n")
    if identity == "INDEX":
        for name in names:
            server.execute(f"ALTER TABLE {table} ALTER {name} SET NOT NULL")
        server.execute(f"CREATE UNIQUE INDEX {table}_k ON {table} ({listed})")
        server.execute(f"ALTER TABLE {table} REPLICA IDENTITY USING INDEX {table}_k")
    else:
        server.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey")
        server.execute(f"ALTER TABLE {table} ADD PRIMARY KEY ({listed})")
        server.execute(f"ALTER TABLE {table} REPLICA IDENTITY {identity}")
    read_names = names if is_read else ["id"]
    rows = Types.ROW_NAMED(["v", *read_names], [Types.INT(), *[Types.STRING()] * len(read_names)])
    change_type = Types.PICKLED_BYTE_ARRAY()

    def started(gate, parallelism, **options):
        GATES[gate] = Gate()
        env = environment(**options)
        env.set_parallelism(parallelism)
        changes = (
            stream_of(env, source_of(server, table, rows))
            .uid("s")
            .map(lambda row: (str(row.get_row_kind()), tuple(row)[1:], row.v), change_type)
        )
        changes.map(Gated(gate), change_type).sink_to(DiscardingSink())
        return env.execute_async(), GATES[gate]

    def expected():
        shown_names = ", ".join(f"format('%s', {name})" for name in read_names)
        url = f"{server.url}&options=-c%20TimeZone%3DUTC"
        found = server.execute(f"SELECT v, {shown_names} FROM {table}", url)
        return {tuple(row[1:]): row[0] for row in found}

    job, first = started("first", 2)
    first.let(100)
    first.wait_for(100)
    path = stopped(job, first, str(tmp_path))
    job.get_job_execution_result().result()
    assert len(first.seen) < 1000
    server.execute(f"UPDATE {table} SET v = 1 WHERE id % 10 = 1")
    server.execute(f"DELETE FROM {table} WHERE id % 10 = 2")
    server.execute(f"INSERT INTO {table} SELECT {value}, 3, n FROM generate_series(1000, 1099) n")
    if is_read:
        moved = f"(SELECT {value} FROM (SELECT id + 5000 AS n) numbers)"
        server.execute(f"UPDATE {table} SET ({listed}) = {moved} WHERE id % 10 = 4")
        moved = f"(SELECT {value} FROM (SELECT id - 5000 AS n) numbers)"
        server.execute(f"UPDATE {table} SET ({listed}) = {moved} WHERE id % 10 = 5")
    start = {"execution.state-recovery.path": path}
    job, second = started("second", 3, **start)
    second.let(10_000)
    wanted = expected()
    eventually(lambda: folded(first.seen + second.seen) == wanted, "the rows are others")
    server.execute(f"UPDATE {table} SET v = 6 WHERE id % 2 = 0")
    server.execute(f"DELETE FROM {table} WHERE id % 3 = 0")
    wanted = expected()
    eventually(lambda: folded(first.seen + second.seen) == wanted, "later changes are others")
    job.cancel().result()


@pytest.mark.parametrize("change", ["slot", "key"])
def test_rows_that_cannot_be_read_on(server, table, tmp_path, change):
    server.execute(f"INSERT INTO {table} SELECT n, n FROM generate_series(0, 999) n")

    def started(gate, **options):
        GATES[gate] = Gate()
        stream = stream_of(environment(**options), source_of(server, table)).uid("s")
        stream.map(Gated(gate), ORDERS).sink_to(DiscardingSink())
        return stream.get_execution_environment().execute_async(), GATES[gate]

    job, gate = started("first")
    gate.let(10)
    gate.wait_for(10)
    path = stopped(job, gate, str(tmp_path))
    job.get_job_execution_result().result()
    if change == "slot":
        drop_slot(server, table)
    else:
        server.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey")
        server.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (item)")
    job, _ = started("second", **{"execution.state-recovery.path": path})
    message = "slot .* is gone" if change == "slot" else "the key .* has changed"
    with pytest.raises(SourceError, match=message):
        job.get_job_execution_result().result()


def test_each_change_once_after_a_failure(server, table):
    server.execute(f"CREATE PUBLICATION {table} FOR TABLE {table}")
    server.execute(f"SELECT pg_create_logical_replication_slot('{table}', 'pgoutput')")
    server.execute(f"INSERT INTO {table} SELECT n, n FROM generate_series(0, 999) n")
    server.execute(f"INSERT INTO {table} SELECT n, n FROM generate_series(1000, 2999) n")

    def make(env):
        source = source_of(server, table, snapshot=False)
        return stream_of(env, source).map(lambda row: row.id, Types.LONG())

    once_after_a_failure(make, 3000)


def test_the_server_need_not_keep_what_a_checkpoint_has(server, table):
    env = environment()
    env.enable_checkpointing(20)
    with shown(stream_of(env, source_of(server, table))).execute_and_collect() as found:
        server.execute(f"INSERT INTO {table} VALUES (1, 'tea')")
        assert next(found) == "+I 1 tea"
        before = confirmed(server, table)
        number = 1
        while confirmed(server, table) == before:
            number += 1
            server.execute(f"INSERT INTO {table} VALUES ({number}, 'tea')")
            assert next(found) == f"+I {number} tea"


def test_a_server_that_is_away_for_a_while(table):
    server = PostgresServer(wal_level="logical")
    try:
        server.execute(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, item TEXT)")
        with shown(stream_of(environment(), source_of(server, table))).execute_and_collect() as f:
            server.execute(f"INSERT INTO {table} VALUES (1, 'tea')")
            assert next(f) == "+I 1 tea"
            server.halt()
            server.start()
            server.execute(f"INSERT INTO {table} VALUES (2, 'jam')")
            assert next(f) == "+I 2 jam"
    finally:
        server.stop()
    with pytest.raises(SourceError, match="cannot begin to read public"):
        read(source_of(server, table, retry_timeout_ms=0))


def test_a_server_without_logical_log():
    server = PostgresServer()
    try:
        server.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, item TEXT)")
        with pytest.raises(SourceError, match=r"'replica'.*set wal_level = logical in postgresql"):
            read(source_of(server, "t"))
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("statements", "table_name", "settings", "expected"),
    [
        ([], "nowhere", {}, "there is no table public.nowhere"),
        (["ALTER TABLE {t} DROP COLUMN item"], None, {}, "has no column 'item'; it has id"),
        (["ALTER TABLE {t} DROP CONSTRAINT {t}_pkey"], None, {}, "ALTER TABLE public.* FULL"),
        (
            ["CREATE PUBLICATION {t}"],
            None,
            {},
            "does not have the table .*; ALTER PUBLICATION .* ADD TABLE",
        ),
        (
            ["SELECT pg_create_logical_replication_slot('{t}', 'test_decoding')"],
            None,
            {},
            "is of the plug-in 'test_decoding'",
        ),
        (["INSERT INTO {t} VALUES (1, 'tea')"], None, {"as_numbers": True}, "'item' is 'tea'"),
    ],
)
def test_tables_and_values_that_cannot_be_read(
    server, table, statements, table_name, settings, expected
):
    for statement in statements:
        server.execute(statement.format(t=table))
    rows = ORDERS
    if settings:
        rows = Types.ROW_NAMED(["id", "item"], [Types.LONG(), Types.LONG()])
    source = PostgresCdcSource(server.url, table_name or table, rows, slot=table, bounded=True)
    with pytest.raises((SourceError, FormatError), match=expected):
        read(source)


@pytest.fixture(scope="module")
def roles(server):
    """Create users with the password "p w": one reads tables, one changes, one copies both."""
    server.execute("CREATE ROLE reads LOGIN PASSWORD 'p w'")
    server.execute("CREATE ROLE changes LOGIN REPLICATION PASSWORD 'p w'")
    server.execute("CREATE ROLE copies LOGIN REPLICATION PASSWORD 'p w'")
    server.wants_passwords()


@pytest.mark.parametrize(
    ("user", "password", "database", "message"),
    [
        ("copies", "hidden", "postgres", "password authentication failed .* user and the password"),
        ("copies", "p%20w", "nowhere", 'database "nowhere" does not exist'),
        ("reads", "p%20w", "postgres", "ALTER ROLE .* REPLICATION"),
        ("copies", "p%20w", "postgres", "let the table's owner create the publication"),
        ("changes", "p%20w", "postgres", "permission denied for table .* GRANT SELECT"),
    ],
)
def test_users_and_rights(server, table, roles, user, password, database, message):
    server.execute(f"GRANT SELECT ON {table} TO reads, copies")
    if user == "changes":
        server.execute(f"CREATE PUBLICATION {table} FOR TABLE {table}")
    url = server.url_of(user, password, database)
    source = PostgresCdcSource(url, table, ORDERS, slot=table, bounded=True)
    with pytest.raises(SourceError, match=f"PostgresCdcSource: .*{message}") as raised:
        read(source)
    assert "hidden" not in str(raised.value)


def test_a_user_who_may_read_a_published_table(server, table, roles):
    server.execute(f"GRANT SELECT ON {table} TO copies")
    server.execute(f"CREATE PUBLICATION {table} FOR TABLE {table}")
    server.execute(f"INSERT INTO {table} VALUES (1, 'tea')")
    url = server.url_of("copies", "p%20w")
    assert read(PostgresCdcSource(url, table, ORDERS, slot=table, bounded=True)) == ["+I 1 tea"]


def test_a_checkpoint_does_not_wait_for_many_changes(server, table, tmp_path):
    """A savepoint interrupts a function that is slow for each change after a few of them."""
    GATES["changes"] = gate = Gate()
    env = environment()
    env.set_parallelism(1)
    changes = stream_of(env, source_of(server, table)).map(lambda row: row.id, Types.LONG())
    changes.map(Gated("changes"), Types.LONG()).sink_to(DiscardingSink())
    job = env.execute_async()
    eventually(lambda: is_followed(server, table), "the source does not read changes")
    server.execute(f"INSERT INTO {table} SELECT n, 'x' FROM generate_series(1, 90) n")
    gate.let(1)
    gate.wait_for(1)
    stopped(job, gate, str(tmp_path))
    job.get_job_execution_result().result()
    assert len(gate.seen) < 90


def test_a_slot_that_has_gone_on(server, table, tmp_path):
    """An old savepoint cannot be restored: the server has dropped the changes after it."""
    server.execute(f"INSERT INTO {table} VALUES (1, 'tea')")
    env = environment("local")
    env.enable_checkpointing(20)
    env.set_parallelism(1)
    shown(stream_of(env, source_of(server, f"public.{table}", slot=table)).uid("s")).print()
    client = env.execute_async()
    eventually(lambda: is_followed(server, table), "the source does not read changes")
    savepoint = client.stop_with_savepoint(False, str(tmp_path)).result()
    server.execute(f"INSERT INTO {table} VALUES (2, 'jam')")
    server.execute(
        f"SELECT pg_replication_slot_advance('{table}', pg_current_wal_lsn())",
    )
    env = environment("local", **{"execution.state-recovery.path": savepoint})
    stream = shown(stream_of(env, source_of(server, table)).uid("s"))
    with pytest.raises(SourceError, match="from its last checkpoint, or without its state"):
        stream.print()
        env.execute()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"slot": "Wrong-Name"}, "not a name of a slot"),
        ({"row_type": Types.LONG()}, "takes a row type"),
        ({"row_type": Types.ROW_NAMED(["a"], [Types.LIST(Types.INT())])}, "map it"),
        ({"url": "secret word"}, "neither"),
        ({"retry_timeout_ms": -1}, "at least 0"),
    ],
)
def test_wrong_arguments(arguments, expected):
    given = {"url": "postgresql://h/d", "table": "t", "row_type": ORDERS, "slot": "s", **arguments}
    with pytest.raises(InvalidProgramError, match=expected) as failed:
        PostgresCdcSource(**given)
    assert "secret" not in str(failed.value)
