"""Values of a real PostgreSQL as PostgresCdcSource reads them, and unreadable ones."""

import datetime
from decimal import Decimal

import pytest
from integration.postgres_tables import (
    drop_slot,
    environment,
    runtime,
    server,
    source_of,
    stream_of,
    table,
    taken,
)
from penstock.common import Types
from penstock.common.time import Instant
from penstock.datastream.formats.dead_letters import dead_letter_tag
from penstock.errors import (
    UndecodableRecordError,
)
from support.zones import machine_in

__all__ = ["runtime", "server", "table"]


pytest.importorskip("psycopg")
pytestmark = pytest.mark.server


def test_values_of_every_type(server, table):
    columns = {
        "small": ("SMALLINT", Types.SHORT(), "-7", -7),
        "number": ("INT", Types.INT(), "70000", 70000),
        "real8": ("DOUBLE PRECISION", Types.DOUBLE(), "0.1", 0.1),
        "price": ("NUMERIC(10, 2)", Types.BIG_DEC(), "2.50", Decimal("2.50")),
        "truth": ("BOOLEAN", Types.BOOLEAN(), "true", True),
        "day": ("DATE", Types.SQL_DATE(), "'2020-02-29'", datetime.date(2020, 2, 29)),
        "hour": ("TIME", Types.SQL_TIME(), "'13:14:15'", datetime.time(13, 14, 15)),
        "at": (
            "TIMESTAMP",
            Types.SQL_TIMESTAMP(),
            "'2020-02-29 13:14:15.25'",
            datetime.datetime(2020, 2, 29, 13, 14, 15, 250_000),
        ),
        "since": (
            "TIMESTAMPTZ",
            Types.INSTANT(),
            "'1970-01-01 01:00:01.5+01'",
            Instant(1, 500_000_000),
        ),
        "raw": ("BYTEA", Types.PRIMITIVE_ARRAY(Types.BYTE()), r"'\x00ff'", b"\x00\xff"),
        "doc": ("JSONB", Types.STRING(), """'{"a": "é"}'""", '{"a": "é"}'),
        "Odd Name": ("TEXT[]", Types.STRING(), "'{a,b}'", "{a,b}"),
    }
    for name, (kind, *_) in columns.items():
        server.execute(f'ALTER TABLE {table} ADD COLUMN "{name}" {kind}')
    values = ", ".join(literal for _, _, literal, _ in columns.values())
    names = ", ".join(f'"{name}"' for name in columns)
    insert = f"INSERT INTO {table} (id, {names}) VALUES (NUMBER, {values})"
    declared = Types.ROW_NAMED(list(columns), [kind for _, kind, _, _ in columns.values()])
    expected = {name: value for name, (*_, value) in columns.items()}
    expected["raw"] = [0, -1]  # the collected form of arrays of bytes
    server.execute(insert.replace("NUMBER", "1"))
    stream = stream_of(environment(), source_of(server, table, declared))
    with stream.execute_and_collect() as found:
        assert next(found).as_dict() == expected
        server.execute(insert.replace("NUMBER", "2"))
        assert next(found).as_dict() == expected


EDGES = {
    "infinity": (datetime.datetime.max, Instant(31_556_889_864_403_199, 999_999_999)),
    "-infinity": (datetime.datetime.min, Instant(-31_557_014_167_219_200, 0)),
    "2024-01-01 12:00:00+05:30": (
        datetime.datetime(2024, 1, 1, 6, 30),
        Instant(1_704_090_600, 0),
    ),
    "0044-03-15 12:00:00+00 BC": (None, Instant(-63_517_780_800, 0)),
    "10000-01-01 00:00:00+00": (None, Instant(253_402_300_800, 0)),
}


@pytest.mark.parametrize("zone", ["America/New_York"])
def test_instants_of_all_years(server, table, zone):
    """In the existing rows, and in changes; instants beyond datetime become dead letters."""
    server.execute(f"ALTER TABLE {table} ADD COLUMN t TIMESTAMPTZ, ADD COLUMN u TIMESTAMPTZ")
    inserts = [
        f"INSERT INTO {table} VALUES ({number}, 'x', '{text}', '{text}')"
        for number, text in enumerate(EDGES)
    ]
    server.execute("; ".join(inserts))
    bad = dead_letter_tag("bad")
    names = ["id", "t", "u"]
    instants = Types.ROW_NAMED(names, [Types.LONG(), Types.INSTANT(), Types.INSTANT()])
    moments = Types.ROW_NAMED(names, [Types.LONG(), Types.TIMESTAMP_LTZ(), Types.SQL_TIMESTAMP()])
    with machine_in(zone):
        source = source_of(server, table, instants, bounded=True)
        with stream_of(environment(), source).execute_and_collect() as found:
            assert [row.t for row in found] == [instant for _, instant in EDGES.values()]
        drop_slot(server, source._table.slot)
        source = source_of(server, table, moments, dead_letters=bad)
        stream = stream_of(environment(), source)
        letters = stream.get_side_output(bad).map(lambda row: row.error, Types.STRING())
        shown = stream.map(lambda row: repr((row.t, row.u)), Types.STRING())
        with shown.union(letters).execute_and_collect() as found:
            for part in range(2):
                texts = taken(found, len(EDGES))
                assert sum("UndecodableRecordError" in text for text in texts) == 2
                assert sum("datetime.datetime(2024, 1, 1, 6, 30" in text for text in texts) == 1
                utc = "datetime.datetime(2024, 1, 1, 6, 30, tzinfo=datetime.timezone.utc)"
                assert any(text == f"({utc}, {utc})" for text in texts)
                assert sum("9999, 12, 31" in text or "(1, 1, 1" in text for text in texts) == 2
                if part == 0:
                    server.execute(f"DELETE FROM {table}; " + "; ".join(inserts))
                    taken(found, len(EDGES))  # the deletes, which contain only the key


def test_a_row_that_cannot_be_read_is_not_tried_again(server, table):
    """Whatever the restart strategy: it would fail at the same row for ever."""
    server.execute(f"ALTER TABLE {table} ADD COLUMN t TIMESTAMPTZ")
    server.execute(f"INSERT INTO {table} VALUES (1, 'x', '10000-01-01 00:00:00+00')")
    declared = Types.ROW_NAMED(["id", "t"], [Types.LONG(), Types.SQL_TIMESTAMP()])
    env = environment()
    env.enable_checkpointing(20)
    stream = stream_of(env, source_of(server, table, declared))
    with (
        pytest.raises(UndecodableRecordError, match=r"'t' is '10000-01-01 00:") as caught,
        stream.execute_and_collect() as found,
    ):
        next(found)
    assert any("skip_undecodable_records=True" in note for note in caught.value.__notes__)


def test_texts_that_need_care(server, table, runtime):
    """The server writes rows as lines of columns, in which some characters are escaped."""
    texts = ["a\\b", "\\N", "\t", "1\n2\r3", "\b\f\v", "", "\\t", "é \U0001f600"]
    for number, text in enumerate(texts):
        quoted = "E'" + text.encode("unicode_escape").decode().replace("\\x", "\\u00") + "'"
        server.execute(f"INSERT INTO {table} VALUES ({number}, {quoted})")
    server.execute(f"INSERT INTO {table} VALUES (100, NULL)")
    with stream_of(environment(), source_of(server, table)).execute_and_collect() as found:
        assert [row.item for row in taken(found, len(texts) + 1)] == [*texts, None]
