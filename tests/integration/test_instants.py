"""Columns of instants stay instants through streams, in any local zone.

Method: the process is in New York; a datetime that has lost its zone is five hours off there.
"""

import datetime
from zoneinfo import ZoneInfo

import deltalake
import pandas
import polars
import pyarrow as pa
import pytest
from integration.test_iceberg import Lake
from penstock.common import Instant, Row, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import ProcessWindowFunction
from penstock.datastream.connectors.delta import DeltaSink, DeltaSource
from penstock.datastream.connectors.iceberg import IcebergSource
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import InvalidProgramError
from support.environments import in_process
from support.zones import machine_in

UTC = datetime.UTC
NOON = datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)
AT_NOON = Instant(1_704_110_400, 0)
ZONED = pa.timestamp("us", "Europe/Berlin")
TABLE = pa.table(
    {"t": pa.array([NOON, None], ZONED), "n": pa.array([NOON.replace(tzinfo=None)] * 2)}
)
ROWS = [Row(t=NOON, n=NOON.replace(tzinfo=None)), Row(t=None, n=NOON.replace(tzinfo=None))]
TYPE = Types.ROW_NAMED(["t", "n"], [Types.TIMESTAMP_LTZ(), Types.SQL_TIMESTAMP()])
INSTANTS = Types.ROW_NAMED(["t"], [Types.INSTANT()])
MOMENTS = Types.ROW_NAMED(["t"], [Types.TIMESTAMP_LTZ()])


@pytest.fixture(autouse=True)
def in_new_york():
    with machine_in("America/New_York"):
        yield


def taken(stream):
    with stream.execute_and_collect() as results:
        return list(results)


FRAMES = {
    "from_arrow": lambda env: env.from_arrow(TABLE),
    "from_pandas": lambda env: env.from_pandas(TABLE.to_pandas()),
    "from_polars": lambda env: env.from_polars(polars.from_arrow(TABLE)),
    "from_collection of Arrow": lambda env: env.from_collection(TABLE),
    "from_collection of pandas": lambda env: env.from_collection(TABLE.to_pandas()),
    "from_collection of Polars": lambda env: env.from_collection(polars.from_arrow(TABLE)),
    "from_collection of a type": lambda env: env.from_collection(TABLE.to_pandas(), TYPE),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_have_datetimes_of_utc(name):
    stream = FRAMES[name](in_process(2))
    if "collection" not in name:
        assert stream.get_type() == TYPE
    found = taken(stream.rebalance().map(lambda row: row))
    assert sorted(found, key=str, reverse=True) == sorted(ROWS, key=str, reverse=True)
    zones = {(getattr(row.t, "tzinfo", UTC), row.n.tzinfo) for row in found}
    assert zones == {(UTC, None)}


def test_instants_of_a_declared_type():
    for frame in (TABLE.select(["t"]), TABLE.select(["t"]).to_pandas()):
        found = taken(in_process().from_collection(frame, INSTANTS).rebalance())
        assert found == [Row(t=AT_NOON), Row(t=None)]


def test_a_declared_timestamp_keeps_its_zone_behind_an_exchange():
    declared = Types.ROW_NAMED(["t"], [Types.SQL_TIMESTAMP()])
    stream = in_process().from_arrow(TABLE.select(["t"])).map(lambda row: row, declared)
    (found,) = taken(stream.rebalance().filter(lambda row: row.t is not None))
    assert (found.t, found.t.tzinfo) == (NOON, UTC)


def test_streams_become_columns_of_utc():
    utc = pa.timestamp("us", "UTC")
    env = in_process()
    assert env.from_arrow(TABLE).to_arrow() == TABLE.set_column(0, "t", TABLE["t"].cast(utc))
    assert env.from_pandas(TABLE.to_pandas()).to_pandas()["t"][0] == pandas.Timestamp(NOON)
    assert env.from_polars(polars.from_arrow(TABLE)).to_polars()["t"][0] == NOON
    berlin = NOON.astimezone(ZoneInfo("Europe/Berlin"))
    values = [Row(t=AT_NOON), Row(t=NOON), Row(t=berlin)]
    for schema in (INSTANTS, MOMENTS, pa.schema([("t", utc)])):
        found = env.from_collection(values).to_arrow(schema)
        assert found == pa.table({"t": pa.array([NOON] * 3, utc)})


@pytest.mark.parametrize("kind", [pa.timestamp("ns", "UTC"), pa.timestamp("ns")])
def test_nanoseconds_are_refused_when_the_program_is_built(kind):
    """A worker could report that only when it meets such values."""
    table = pa.table({"t": pa.array([1], kind)})
    env = in_process()
    for build in (
        lambda: env.from_arrow(table),
        lambda: env.from_pandas(table.to_pandas()),
        lambda: env.from_polars(polars.from_arrow(table)),
        lambda: env.from_collection(table),
        lambda: env.from_collection(table.to_pandas()),
        lambda: env.from_collection(polars.from_arrow(table)),
    ):
        with pytest.raises(InvalidProgramError, match=r"'t' .*(nanoseconds|would lose data)"):
            build()


class OfRow(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.t


class Starts(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield context.window().start, [row.t for row in elements]


@pytest.mark.parametrize("declared", [MOMENTS, INSTANTS], ids=["datetime", "Instant"])
def test_event_time_is_that_of_the_instants(declared):
    """Behind an exchange as well as before it."""
    moments = [NOON + datetime.timedelta(hours=hours) for hours in (0, 11, 12)]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OfRow())
    table = pa.table({"t": pa.array(moments, pa.timestamp("s", "Asia/Kolkata"))})
    stream = in_process().from_collection(table, declared).rebalance()
    windows = (
        stream.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda row: 0)
        .window(TumblingEventTimeWindows.of(Time.days(1)))
        .process(Starts())
    )
    found = taken(windows)
    assert [(start, len(rows)) for start, rows in found] == [
        (1_704_067_200_000, 2),
        (1_704_153_600_000, 1),
    ]


def delta_rows(source):
    env = in_process()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "delta")
    return taken(stream.rebalance())


@pytest.mark.parametrize("schema", [MOMENTS, INSTANTS, pa.schema([("t", ZONED)])], ids=str)
def test_instants_of_delta_tables(tmp_path, schema):
    table = str(tmp_path / "t")
    env = in_process()
    values = [Row(t=AT_NOON), Row(t=NOON), Row(t=NOON.astimezone(ZoneInfo("Asia/Kolkata")))]
    env.from_collection(values).sink_to(DeltaSink(table, schema))
    env.execute()
    assert deltalake.DeltaTable(table).schema().fields[0].type.type == "timestamp"
    stored = deltalake.DeltaTable(table).to_pyarrow_table()["t"].to_pylist()
    assert stored == [NOON] * 3
    for source in (DeltaSource.for_snapshot(table), DeltaSource.for_changes(table, end_version=1)):
        found = delta_rows(source)
        assert [(row.t, row.t.tzinfo) for row in found] == [(NOON, UTC)] * 3


def test_instants_of_partitions_of_delta_tables(tmp_path):
    table = str(tmp_path / "t")
    rows = pa.table({"n": [1], "t": pa.array([NOON], ZONED), "w": [NOON.replace(tzinfo=None)]})
    deltalake.write_deltalake(table, rows, partition_by=["t", "w"])
    for source in (DeltaSource.for_snapshot(table), DeltaSource.for_changes(table, end_version=0)):
        assert delta_rows(source) == [Row(n=1, t=NOON, w=NOON.replace(tzinfo=None))]


@pytest.mark.parametrize("schema", [MOMENTS, INSTANTS, pa.schema([("t", ZONED)])], ids=str)
def test_instants_of_iceberg_tables(tmp_path, schema):
    lake = Lake(tmp_path)
    values = [Row(t=AT_NOON), Row(t=NOON), Row(t=NOON.astimezone(ZoneInfo("Asia/Kolkata")))]
    env = in_process()
    env.from_collection(values).sink_to(lake.sink(schema))
    env.execute()
    assert str(lake.table().schema().fields[0].field_type) == "timestamptz"
    assert [row["t"] for row in lake.rows()] == [NOON] * 3
    source = IcebergSource.for_snapshot("db.t", catalog=lake.properties, name="lake")
    stream = in_process().from_source(source, WatermarkStrategy.no_watermarks(), "iceberg")
    found = taken(stream.rebalance())
    assert [(row.t, row.t.tzinfo) for row in found] == [(NOON, UTC)] * 3
