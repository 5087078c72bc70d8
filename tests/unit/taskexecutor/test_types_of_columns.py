"""The conversion of columns of files to values of declared types, and back.

Goal: each pair of types is cast without loss or rejected, alike at the top and within structs,
lists and maps; instants stay instants in every format, in any local zone.
"""

import datetime
import json
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from penstock.common import Instant, Row, Types
from penstock.datastream.formats.arrow import ArrowBulkWriters, ArrowColumnarRowInputFormat
from penstock.datastream.formats.avro import AvroSchema
from penstock.datastream.formats.orc import OrcBulkWriters, OrcColumnarRowInputFormat
from penstock.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
    ParquetColumnInputFormat,
)
from penstock.errors import FormatError
from pyarrow import orc, parquet
from support.zones import machine_in
from unit.connectors.test_bulk_file_sink import finish, read_arrow, sink, visible
from unit.taskexecutor.test_file_formats import elements, source

UTC = datetime.UTC
NOON = datetime.datetime(2024, 1, 1, 12)
NOON_UTC = NOON.replace(tzinfo=UTC)
AT_NOON = Instant(1_704_110_400, 0)
DAY = datetime.date(2024, 1, 1)
HOUR = datetime.time(13, 14, 15, 16)

US, NS = pa.timestamp("us"), pa.timestamp("ns")
ZONED = pa.timestamp("ms", "America/New_York")


def column(values, kind):
    return pa.array(values, kind)


#: A column, the declared type, and the values.
CAST = [
    (column([True, None], pa.bool_()), Types.BOOLEAN(), [True, None]),
    (column([True], pa.bool_()), Types.INT(), [1]),
    (column([1, None, -2], pa.int64()), Types.BYTE(), [1, None, -2]),
    (column([300], pa.uint16()), Types.SHORT(), [300]),
    (column([2.0, -3.0], pa.float64()), Types.LONG(), [2, -3]),
    (column([Decimal("2.00")], pa.decimal128(5, 2)), Types.INT(), [2]),
    (column([2**64 - 1], pa.uint64()), Types.BIG_INT(), [2**64 - 1]),
    (column([Decimal(10**30), None], pa.decimal128(38, 0)), Types.BIG_INT(), [10**30, None]),
    (column([2**53], pa.int64()), Types.DOUBLE(), [2.0**53]),
    (column([1.5, None], pa.float32()), Types.DOUBLE(), [1.5, None]),
    (column([1.5, float("inf")], pa.float64()), Types.FLOAT(), [1.5, float("inf")]),
    (column([Decimal("2.50")], pa.decimal128(5, 2)), Types.DOUBLE(), [2.5]),
    (column([Decimal("2.50")], pa.decimal128(5, 2)), Types.BIG_DEC(), [Decimal("2.50")]),
    (column([2**62], pa.int64()), Types.BIG_DEC(), [Decimal(2**62)]),
    (column(["é", None], pa.large_string()), Types.STRING(), ["é", None]),
    (column(["é"], pa.string()).dictionary_encode(), Types.CHAR(), ["é"]),
    (column(["é".encode()], pa.binary()), Types.STRING(), ["é"]),
    (column(["é"], pa.string()), Types.PRIMITIVE_ARRAY(Types.BYTE()), ["é".encode()]),
    (column([b"ab"], pa.binary(2)), Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"ab"]),
    (column([-7], pa.int64()), Types.STRING(), ["-7"]),
    (column([1.5], pa.float64()), Types.STRING(), ["1.5"]),
    (column([DAY], pa.date32()), Types.STRING(), ["2024-01-01"]),
    (column([NOON], pa.timestamp("s")), Types.STRING(), ["2024-01-01 12:00:00"]),
    (column([NOON_UTC], ZONED), Types.STRING(), ["2024-01-01 12:00:00.000Z"]),
    (column([DAY, None], pa.date64()), Types.SQL_DATE(), [DAY, None]),
    (column([HOUR, None], pa.time64("ns")), Types.SQL_TIME(), [HOUR, None]),
    (column([NOON, None], NS), Types.SQL_TIMESTAMP(), [NOON, None]),
    (column([DAY], pa.date32()), Types.SQL_TIMESTAMP(), [datetime.datetime(2024, 1, 1)]),
    (column([NOON_UTC, None], ZONED), Types.SQL_TIMESTAMP(), [NOON_UTC, None]),
    (column([NOON_UTC], ZONED), Types.TIMESTAMP_LTZ(), [NOON_UTC]),
    (column([NOON_UTC], ZONED), Types.PICKLED_BYTE_ARRAY(), [NOON_UTC]),
    (column([[NOON_UTC]], pa.list_(ZONED)), Types.PICKLED_BYTE_ARRAY(), [[NOON_UTC]]),
    (column([HOUR, None], pa.time64("ns")), Types.PICKLED_BYTE_ARRAY(), [HOUR, None]),
    (column([{"t": NOON}], pa.struct([("t", NS)])), Types.PICKLED_BYTE_ARRAY(), [{"t": NOON}]),
    (column([NOON_UTC, None], ZONED), Types.INSTANT(), [AT_NOON, None]),
    (column([-1], pa.timestamp("ns", "UTC")), Types.INSTANT(), [Instant(-1, 999_999_999)]),
    (
        column([2**61], pa.timestamp("us", "UTC")),
        Types.INSTANT(),
        [Instant(2305843009213, 693952000)],
    ),
    (column([None], pa.null()), Types.DOUBLE(), [None]),
]

#: A column, a type that it does not fit, and the reason.
REFUSED = [
    (column([NOON], US), Types.LONG(), r"timestamp\[us\], which is not read"),
    (column([NOON_UTC], ZONED), Types.LONG(), r"timestamp\[ms, tz=America/New_York\]"),
    (column([NOON], US), Types.SQL_DATE(), r"timestamp\[us\], which is not read"),
    (column([NOON], US), Types.INSTANT(), "it has no zone"),
    (column([NOON], US), Types.TIMESTAMP_LTZ(), "it has no zone"),
    (column([DAY], pa.date32()), Types.INT(), "date32.*, which is not read"),
    (column([1], pa.int64()), Types.SQL_TIMESTAMP(), "int64, which is not read"),
    (column([1], pa.int64()), Types.BOOLEAN(), "int64, which is not read"),
    (column(["1"], pa.string()), Types.INT(), "string, which is not read"),
    (column([True], pa.bool_()), Types.DOUBLE(), "bool, which is not read"),
    (column([300], pa.int64()), Types.BYTE(), "int64: Integer value 300 not in range"),
    (column([2**64 - 1], pa.uint64()), Types.LONG(), "uint64: .*not in range"),
    (column([1.5], pa.float64()), Types.LONG(), "double: Float value 1.5"),
    (column([0.1], pa.float64()), Types.FLOAT(), "double: 0.1 would change"),
    (column([1e300], pa.float64()), Types.FLOAT(), r"double: 1e\+300 would change"),
    (column([2**53 + 1], pa.int64()), Types.DOUBLE(), "int64: .*not in range"),
    (column([Decimal("2.5")], pa.decimal128(2, 1)), Types.BIG_INT(), "data loss"),
    (column([b"\xff"], pa.binary()), Types.STRING(), "binary: Invalid UTF8"),
    (column(["ab"], pa.string()), Types.CHAR(), "string: a text is not one character"),
    (column([1], NS), Types.PICKLED_BYTE_ARRAY(), r"timestamp\[ns\]: .*would lose data"),
    (column([1], pa.time64("ns")), Types.PICKLED_BYTE_ARRAY(), "would lose data"),
    (column([[1]], pa.list_(pa.time64("ns"))), Types.PICKLED_BYTE_ARRAY(), "would lose data"),
    (column([1], pa.duration("ns")), Types.PICKLED_BYTE_ARRAY(), "would lose data"),
    (column([1], NS), Types.SQL_TIMESTAMP(), r"timestamp\[ns\]: .*would lose data"),
    (column([2**61], US), Types.SQL_TIMESTAMP(), "outside of the years 1 to 9999"),
    (column([2**61], pa.timestamp("us", "UTC")), Types.TIMESTAMP_LTZ(), "outside of the years"),
    (column([[1]], pa.list_(pa.int64())), Types.LONG(), "list<.*>, which is not read"),
    (column([1], pa.int64()), Types.LIST(Types.LONG()), "int64, which is not read"),
    (column([[1, None]], pa.list_(pa.int32())), Types.PRIMITIVE_ARRAY(Types.INT()), "is NULL"),
    (column([1], pa.int64()), Types.ROW_NAMED(["a"], [Types.LONG()]), "int64, which is not read"),
]


def placed(values, declared, place):
    """Return a column that contains another one, its type, and a function that wraps the values."""
    if place == "struct":
        made = pa.StructArray.from_arrays([values], ["n"])
        return made, Types.ROW_NAMED(["n"], [declared]), lambda found: [row.n for row in found]
    if place == "tuple":
        made = pa.StructArray.from_arrays([values], ["n"])
        return made, Types.TUPLE([declared]), lambda found: [each for (each,) in found]
    offsets = pa.array([0, len(values)], pa.int32())
    if place == "list":
        made = pa.ListArray.from_arrays(offsets, values)
        return made, Types.LIST(declared), lambda found: found[0]
    if place == "map":
        keys = pa.array([str(n) for n in range(len(values))])
        made = pa.MapArray.from_arrays(offsets, keys, values)
        return made, Types.MAP(Types.STRING(), declared), lambda found: list(found[0].values())
    return values, declared, lambda found: found


PATHS = {"top": "c", "struct": "c.n", "tuple": "c.n", "list": "c", "map": "c"}


def read(path, table, declared):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    row_type = Types.ROW_NAMED(["c"], [declared])
    return [row.c for row in elements(source(ArrowColumnarRowInputFormat(row_type), path)).values]


@pytest.mark.parametrize("place", PATHS)
def test_columns_are_cast_without_a_loss_wherever_they_are(tmp_path, place):
    for values, declared, expected in CAST:
        made, kind, taken = placed(values, declared, place)
        found = taken(read(tmp_path / "a", pa.table({"c": made}), kind))
        assert found == expected, (values.type, declared)
        assert list(map(type, found)) == list(map(type, expected))
        zones = [getattr(value, "tzinfo", None) for value in found]
        assert zones == [getattr(value, "tzinfo", None) for value in expected]


@pytest.mark.parametrize("place", PATHS)
def test_columns_that_would_change_are_refused_with_file_column_and_types(tmp_path, place):
    for values, declared, reason in REFUSED:
        made, kind, _ = placed(values, declared, place)
        words = f"a, rows from 0 of piece 0: the field '{PATHS[place]}' does not fit .*: .*{reason}"
        with pytest.raises(FormatError, match=words):
            read(tmp_path / "a", pa.table({"c": made}), kind)


def test_nulls_stay_none_and_parts_of_a_column_are_its_own(tmp_path):
    """The values around a slice of a column are not visible."""
    rows = [{"n": 1}, None, {"n": 3}, {"n": None}]
    columns = {
        "r": (column(rows, pa.struct([("n", pa.int32())])), Types.ROW_NAMED(["n"], [Types.LONG()])),
        "l": (column([[1], None, [], [4, None]], pa.list_(pa.int8())), Types.LIST(Types.LONG())),
        "f": (column([[1], None, [3], [4]], pa.list_(pa.int8(), 1)), Types.LIST(Types.LONG())),
        "m": (
            column(
                [[("a", 1)], None, [], [("b", 2), ("c", None)]], pa.map_(pa.string(), pa.int8())
            ),
            Types.MAP(Types.STRING(), Types.LONG()),
        ),
    }
    expected = {
        "r": [Row(n=1), None, Row(n=3), Row(n=None)],
        "l": [[1], None, [], [4, None]],
        "f": [[1], None, [3], [4]],
        "m": [{"a": 1}, None, {}, {"b": 2, "c": None}],
    }
    for name, (values, declared) in columns.items():
        for first in range(4):
            table = pa.table({"c": values.slice(first)})
            assert read(tmp_path / "a", table, declared) == expected[name][first:], name
    with pytest.raises(
        FormatError, match=r"field 'c.x' does not fit .* no such field, it has \['n'\]"
    ):
        read(
            tmp_path / "a", pa.table({"c": columns["r"][0]}), Types.ROW_NAMED(["x"], [Types.LONG()])
        )


def write_arrow(table, path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


FILES = {
    "parquet": (
        parquet.write_table,
        ParquetColumnarRowInputFormat,
        ParquetBulkWriters.for_row_type,
        lambda path: parquet.read_table(path).to_pylist(),
    ),
    "orc": (
        orc.write_table,
        OrcColumnarRowInputFormat,
        OrcBulkWriters.for_row_type,
        lambda path: orc.read_table(path).to_pylist(),
    ),
    "arrow": (write_arrow, ArrowColumnarRowInputFormat, ArrowBulkWriters.for_row_type, read_arrow),
}
ROW = {
    "Arrow's": (pa.schema([("t", pa.timestamp("us", "UTC"))]), NOON_UTC),
    "TIMESTAMP_LTZ": (Types.ROW_NAMED(["t"], [Types.TIMESTAMP_LTZ()]), NOON_UTC),
    "INSTANT": (Types.ROW_NAMED(["t"], [Types.INSTANT()]), AT_NOON),
}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("row", ROW)
@pytest.mark.parametrize("name", FILES)
def test_instants_of_files_are_instants(tmp_path, name, row, zone):
    write, read_format, writers, read_back = FILES[name]
    row_type, expected = ROW[row]
    berlin = NOON_UTC.astimezone(ZoneInfo("Europe/Berlin"))
    with machine_in(zone):
        write(
            pa.table({"t": pa.array([berlin], pa.timestamp("us", "Europe/Berlin"))}), tmp_path / "a"
        )
        (found,) = elements(source(read_format(row_type), tmp_path / "a")).values
        assert (found.t, getattr(found.t, "tzinfo", UTC)) == (expected, UTC)
        # A datetime without a zone is in UTC.
        writing = sink(tmp_path / "b", writers(row_type))
        writing.write(found, (AT_NOON,), (NOON_UTC,), (berlin,), (NOON,), (None,))
        finish(writing)
        stored = [each["t"] for each in read_back(visible(tmp_path / "b")[0])]
    assert stored == [NOON_UTC] * 5 + [None]
    assert all(each.tzinfo is not None for each in stored[:-1])


def test_a_column_without_a_zone_takes_no_instants(tmp_path):
    """Arrow would write the time in UTC, which no reader could recognise."""
    row_type = Types.ROW_NAMED(["r"], [Types.ROW_NAMED(["t"], [Types.SQL_TIMESTAMP()])])
    writing = sink(tmp_path, ParquetBulkWriters.for_row_type(row_type))
    writing.write(Row(r=Row(t=NOON_UTC)))
    with pytest.raises(
        FormatError, match=r"'r.t' .* it has a zone, .* declare Types.TIMESTAMP_LTZ"
    ):
        writing.snapshot(1)
    writing.close()
    writing = sink(tmp_path / "utc", ParquetBulkWriters.for_row_type(row_type, utc_timestamp=True))
    writing.write(Row(r=Row(t=NOON_UTC)), Row(r=Row(t=NOON)))
    finish(writing)
    stored = parquet.read_table(visible(tmp_path / "utc")[0]).to_pylist()
    assert stored == [{"r": {"t": NOON_UTC}}] * 2


def test_an_instant_of_nanoseconds_is_refused(tmp_path):
    writing = sink(tmp_path, ParquetBulkWriters.for_row_type(ROW["INSTANT"][0]))
    writing.write((Instant(1, 1),))
    with pytest.raises(FormatError, match=r"the field 't' does not fit Instant: .*has nanoseconds"):
        writing.snapshot(1)
    writing.close()


@pytest.mark.parametrize("declared", [Types.TIMESTAMP_LTZ(), Types.INSTANT()], ids=str)
def test_parquet_without_zones_may_be_of_utc(tmp_path, declared):
    """Spark and Hive write instants in 96 bits, without a known zone."""
    table = pa.table({"t": pa.array([NOON_UTC], pa.timestamp("us", "UTC"))})
    parquet.write_table(table, tmp_path / "a", use_deprecated_int96_timestamps=True)
    row_type = Types.ROW_NAMED(["t"], [declared])
    read_format = ParquetColumnarRowInputFormat(row_type, is_utc_timestamp=True)
    (found,) = elements(source(read_format, tmp_path / "a")).values
    assert found.t == (AT_NOON if declared == Types.INSTANT() else NOON_UTC)
    naive = Types.ROW_NAMED(["t"], [Types.SQL_TIMESTAMP()])
    read_format = ParquetColumnarRowInputFormat(naive, is_utc_timestamp=True)
    assert elements(source(read_format, tmp_path / "a")).values == [Row(t=NOON)]


def test_a_single_column_of_instants(tmp_path):
    parquet.write_table(pa.table({"t": pa.array([NOON_UTC], ZONED)}), tmp_path / "a")
    for declared, expected in ((Types.INSTANT(), AT_NOON), (Types.TIMESTAMP_LTZ(), NOON_UTC)):
        read_format = ParquetColumnInputFormat("t", declared)
        assert elements(source(read_format, tmp_path / "a")).values == [expected]


def test_parquet_by_an_avro_schema_tells_times_of_utc_from_those_without_a_zone(tmp_path):
    fields = [
        {"name": name, "type": {"type": "long", "logicalType": f"{name}-micros"}}
        for name in ("timestamp", "local-timestamp")
    ]
    for field in fields:
        field["name"] = field["name"].replace("-", "_")
    schema = AvroSchema(json.dumps({"type": "record", "name": "A", "fields": fields}))
    writing = sink(tmp_path, AvroParquetWriters.for_generic_record(schema))
    writing.write((NOON, NOON), (NOON_UTC, NOON))
    finish(writing)
    (path,) = visible(tmp_path)
    assert [kind.tz for kind in parquet.read_schema(path).types] == ["UTC", None]
    found = elements(source(AvroParquetReaders.for_generic_record(schema), path)).values
    assert found == [Row(timestamp=NOON_UTC, local_timestamp=NOON)] * 2
