"""IcebergSource reads what pyiceberg has written to the tables."""

import datetime
import sys

import pyarrow as pa
import pytest
from integration.test_iceberg import Lake, lake
from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.connectors.iceberg import IcebergSource
from penstock.errors import DependencyError, InvalidProgramError, SourceError
from pyiceberg.types import TimestampType
from support.environments import in_process
from support.gates import GATES, Gate, Gated, stopped

__all__ = ["lake"]


def numbers(begin, end):
    return pa.table({"n": range(begin, end), "text": [f"t{n}" for n in range(begin, end)]})


@pytest.fixture
def table(lake):
    return lake.catalog.create_table("db.t", schema=numbers(0, 1).schema)


def snapshot(lake, columns=None, **arguments):
    given = {"catalog": lake.properties, "name": "lake", **arguments}
    return IcebergSource.for_snapshot("db.t", columns, **given)


def appends(lake, **arguments):
    given = {"catalog": lake.properties, "name": "lake", "discovery_interval_ms": 20, **arguments}
    return IcebergSource.for_appends("db.t", ["n"], **given)


def rows(source, parallelism=2):
    stream = in_process(parallelism).from_source(source, WatermarkStrategy.no_watermarks(), "t")
    with stream.execute_and_collect() as found:
        return sorted(found, key=lambda row: row[0])


def test_a_snapshot_with_columns_and_a_filter(lake: Lake, table):
    table.append(numbers(0, 3000))
    first = table.current_snapshot().snapshot_id
    table.append(numbers(3000, 3100))
    assert [(row.n, row.text) for row in rows(snapshot(lake))] == [
        (n, f"t{n}") for n in range(3100)
    ]
    assert len(rows(snapshot(lake, snapshot_id=first))) == 3000
    assert [row.n for row in rows(snapshot(lake, row_filter="n >= 3095"))] == [*range(3095, 3100)]
    turned = rows(snapshot(lake, ["text", "n"], row_filter="n < 2"))
    assert [(tuple(row), list(row.as_dict())) for row in turned] == [
        (("t0", 0), ["text", "n"]),
        (("t1", 1), ["text", "n"]),
    ]


def test_appends_with_a_filter(lake, table):
    """Of the existing rows, and of later ones."""
    table.append(numbers(0, 10))
    stream = in_process(2).from_source(
        appends(lake, row_filter="n >= 8"), WatermarkStrategy.no_watermarks(), "t"
    )
    found = []
    with stream.execute_and_collect() as elements:
        for row in elements:
            found.append(row.n)
            if len(found) == 2:
                table.append(numbers(5, 10))
            if len(found) == 4:
                break
    assert sorted(found) == [8, 8, 9, 9]


def test_an_empty_table(lake, table):
    assert rows(snapshot(lake)) == []


def test_rows_that_are_deleted_and_columns_that_changed(lake, table):
    table.append(numbers(0, 10))
    table.delete("n < 8")
    with table.update_schema() as update:
        update.rename_column("text", "name")
        update.add_column("at", TimestampType())
    when = datetime.datetime(2024, 5, 6, 7, 8)
    table.append(pa.table({"n": [10], "name": ["x"], "at": pa.array([when], pa.timestamp("us"))}))
    assert [tuple(row) for row in rows(snapshot(lake))] == [
        (8, "t8", None),
        (9, "t9", None),
        (10, "x", when),
    ]


@pytest.mark.parametrize("snapshot_first", [True, False])
def test_appends_are_followed_over_a_savepoint(lake, table, tmp_path, snapshot_first):
    """Each row once, at another parallelism, including rows written in between."""
    table.append(numbers(0, 2000))

    def started(name, parallelism, **options):
        GATES[name] = gate = Gate()
        source = appends(lake, snapshot=snapshot_first)
        env = in_process(parallelism, **options)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "t")
        stream.map(lambda row: row.n, Types.LONG()).map(Gated(name)).sink_to(DiscardingSink())
        return env.execute_async(), gate

    begin = 0 if snapshot_first else 2000
    job, first = started("first", 2)
    table.append(numbers(2000, 6000))
    first.let(500)
    first.wait_for(500)
    path = stopped(job, first, str(tmp_path / "savepoints"))
    table.append(numbers(6000, 6100))
    job, second = started("second", 3, **{"execution.state-recovery.path": path})
    second.let(10_000)
    second.wait_for(6100 - begin - len(first.seen))
    table.append(numbers(6100, 6200))
    second.wait_for(6200 - begin - len(first.seen))
    job.cancel().result()
    assert sorted(first.seen + second.seen) == list(range(begin, 6200))


def test_a_snapshot_that_deletes_fails_who_follows_appends(lake, table):
    table.append(numbers(0, 10))
    start = table.current_snapshot().snapshot_id
    table.delete("n < 8")
    with pytest.raises(SourceError, match="is not an append"):
        rows(appends(lake, start_snapshot_id=start))


def test_a_history_that_is_gone_fails_who_follows_it(lake, table):
    table.append(numbers(0, 10))
    former = table.current_snapshot().snapshot_id
    source = appends(lake, start_snapshot_id=former, snapshot=False)
    lake.catalog.drop_table("db.t")
    lake.catalog.create_table("db.t", schema=numbers(0, 1).schema).append(numbers(0, 1))
    with pytest.raises(SourceError, match="does not lead from snapshot"):
        rows(source)


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({}, "Table does not exist: db.nowhere"),
        ({"type": "nothing"}, "'nothing' is not a valid CatalogType"),
        ({"type": "rest", "uri": "http://127.0.0.1:1"}, "Connection refused"),
    ],
)
def test_a_table_that_cannot_be_opened_is_named(lake, properties, reason):
    name = "cannot open the table db.nowhere of the catalog 'lake' for IcebergSource: .*"
    with pytest.raises(SourceError, match=f"{name}{reason}.*; check the table's name"):
        IcebergSource.for_snapshot(
            "db.nowhere", catalog={**lake.properties, **properties}, name="lake"
        )


def test_wrong_arguments_are_refused(lake, table, monkeypatch):
    with pytest.raises(InvalidProgramError, match="has no column 'm', it has"):
        snapshot(lake, ["m"])
    with pytest.raises(InvalidProgramError, match="has no snapshot 7, it has"):
        snapshot(lake, snapshot_id=7)
    with pytest.raises(InvalidProgramError, match="'n >>> 1' is not a filter"):
        snapshot(lake, row_filter="n >>> 1")
    for wrong in ("nosuch > 1", "n > 'a'"):
        with pytest.raises(InvalidProgramError, match=f"{wrong!r:.5}.* is not a filter of"):
            snapshot(lake, row_filter=wrong)
    with pytest.raises(InvalidProgramError, match="an interval must be positive"):
        appends(lake, discovery_interval_ms=0)
    with pytest.raises(InvalidProgramError, match="with its namespace"):
        IcebergSource.for_snapshot("t", catalog={})
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(DependencyError, match=r"penstock-engine\[iceberg\]"):
        snapshot(lake)
