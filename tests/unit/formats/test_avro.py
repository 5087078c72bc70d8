"""Rows read from Avro's binary form, and written to it."""

import datetime
import io
import json
import pickle
import sys
import zoneinfo
from decimal import Decimal

import fastavro
import pytest
from penstock.common import Instant, Row
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.formats.avro import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from penstock.errors import DependencyError, FormatError, InvalidProgramError, JvmOnlyError
from penstock.formats.avro_files import AvroReaderFormat
from penstock.formats.file_format import FileRange
from support.environments import in_process

SCHEMA = json.dumps(
    {
        "type": "record", "name": "A", "namespace": "n", "fields": [
            {"name": "i", "type": "int"},
            {"name": "s", "type": ["null", "string"]},
            {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5,
                                   "scale": 2}},
            {"name": "sub", "type": {"type": "record", "name": "B", "fields": [
                {"name": "x", "type": "long"}]}},
            {"name": "subs", "type": {"type": "array", "items": "B"}},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["P", "Q"]}},
            {"name": "m", "type": {"type": "map", "values": ["null", "B"]}},
            {"name": "again", "type": ["null", "A"]},
        ],
    }
)  # fmt: skip
ROW = Row(
    i=1, s=None, ts=datetime.datetime(2020, 1, 2, 3, 4, 5, 6000), d=Decimal("1.25"), sub=Row(x=1),
    subs=[Row(x=2)], e="P", m={"k": Row(x=3)}, again=None,
)  # fmt: skip


def changed(**fields):
    return Row(**{**ROW.as_dict(), **fields})


def test_rows_there_and_back():
    writer = AvroRowSerializationSchema(avro_schema_string=SCHEMA)
    reader = AvroRowDeserializationSchema(avro_schema_string=SCHEMA)
    for row in (ROW, changed(s="x", again=ROW), changed(m={"k": None})):
        data = writer.serialize(row)
        assert reader.deserialize(data) == row
        assert pickle.loads(pickle.dumps(reader)).deserialize(data) == row
        assert pickle.loads(pickle.dumps(writer)).serialize(row) == data
    assert writer.serialize(tuple(ROW)) == writer.serialize(ROW.as_dict()) == writer.serialize(ROW)


def test_types_of_schemas():
    produced = AvroRowDeserializationSchema(avro_schema_string=SCHEMA).get_produced_type()
    assert repr(produced) == (
        "RowTypeInfo(i: Integer, s: String, ts: TimestampTypeInfo, d: BigDecimal, "
        "sub: RowTypeInfo(x: Long), subs: ObjectArrayTypeInfo<RowTypeInfo(x: Long)>, e: String, "
        "m: MapTypeInfo<String, RowTypeInfo(x: Long)>, again: PickledByteArrayTypeInfo)"
    )


@pytest.mark.parametrize("unit", ["millis", "micros"])
def test_instants_are_written_as_such(unit):
    """Datetimes with a zone, without one (then in UTC), and Instants, in any local zone."""
    kind = {"type": "long", "logicalType": f"timestamp-{unit}"}
    fields = [{"name": "t", "type": ["null", kind]}]
    schema = json.dumps({"type": "record", "name": "T", "fields": fields})
    noon = datetime.datetime(2024, 1, 1, 12, 0, 0, 5000)
    zoned = noon.replace(tzinfo=datetime.UTC).astimezone(zoneinfo.ZoneInfo("Asia/Kolkata"))
    writer = AvroRowSerializationSchema(avro_schema_string=schema)
    reader = AvroRowDeserializationSchema(avro_schema_string=schema)
    instant = Instant(1_704_110_400, 5_000_000)
    (data,) = {writer.serialize(Row(t=value)) for value in (noon, zoned, instant)}
    assert reader.deserialize(data) == Row(t=noon)
    assert reader.deserialize(writer.serialize(Row(t=None))) == Row(t=None)
    with pytest.raises(FormatError, match=r"the field 't': .* it would lose a part of a second"):
        writer.serialize(Row(t=Instant(0, 1)))


WRONG = [
    (changed(i="x"), "the field 'i': 'x' is not a valid int"),
    # fastavro would truncate the fraction, and write values too large for any other reader.
    (changed(i=1.5), "the field 'i': 1.5 is not a valid int"),
    (changed(i=2**31), "the field 'i': 2147483648 is not a valid int"),
    (changed(sub=Row(x=2**63)), "the field 'sub.x': 9223372036854775808 is not a valid long"),
    (changed(sub=Row(x=None)), "the field 'sub.x': None is not a valid long"),
    (changed(sub=5), "the field 'sub': 5 is not a row"),
    (changed(subs=5), "the field 'subs': 5 is not an array"),
    (changed(subs=[Row(x=1), Row(x="a")]), "the field 'subs.1.x': 'a' is not a valid long"),
    (changed(subs=[Row(x=1), Row(x=2**64)]), "the field 'subs.1.x': 18446744073709551616 is no"),
    (changed(m=[1]), r"the field 'm': \[1\] is not a valid map"),
    (changed(m={"k": Row(x="a")}), "the field 'm.k.x': 'a' is not a valid long"),
    (changed(e="R"), r"the field 'e': 'R' is not a valid enum of symbols \['P', 'Q'\]"),
    (changed(d="x"), "the field 'd': 'x' is not a valid decimal of precision 5"),
    (
        changed(d=Decimal("123456.78")),
        "the field 'd': Decimal.* is not a valid decimal of precision 5",
    ),
    (changed(ts="x"), "the field 'ts': 'x' is not a valid timestamp-millis"),
    (changed(again=changed(i="x")), "the field 'again.i': 'x' is not a valid int"),
    ({"i": 1}, "the field 'ts': it is missing"),
    ((1, 2), "2 fields, not the 9"),
]


@pytest.mark.parametrize(("row", "reason"), WRONG)
def test_errors_name_the_field(row, reason):
    writer = AvroRowSerializationSchema(avro_schema_string=SCHEMA)
    with pytest.raises(FormatError, match=reason + ".*; the row is"):
        writer.serialize(row)
    file = AvroBulkWriters.for_generic_record(AvroSchema(SCHEMA)).create(io.BytesIO())
    with pytest.raises(FormatError, match=reason + ".*; the row is"):
        file.add_element(row)


def test_read_errors_name_the_field():
    data = AvroRowSerializationSchema(avro_schema_string=SCHEMA).serialize(
        changed(s="text", again=ROW)
    )
    reader = AvroRowDeserializationSchema(avro_schema_string=SCHEMA)
    cut = data.index(b"text") + 2
    with pytest.raises(FormatError, match=r"the field 's': .*; the Avro is"):
        reader.deserialize(data[:cut])
    with pytest.raises(FormatError, match="the field 's': UnicodeDecodeError"):
        reader.deserialize(data.replace(b"text", b"te\xff\xfe"))
    with pytest.raises(FormatError, match="the field 'again': "):
        reader.deserialize(data[:-2])


def test_read_errors_of_a_file_name_record_and_field():
    schema = AvroSchema(
        '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}, {"name": "o", '
        '"type": {"type": "record", "name": "O", "fields": [{"name": "s", "type": "string"}]}}]}'
    )
    file = io.BytesIO()
    writer = AvroBulkWriters.for_generic_record(schema).create(file)
    for n in range(3):
        writer.add_element((n, ("text" if n < 2 else "mark",)))
    writer.finish()
    data = file.getvalue().replace(b"mark", b"\xff\xfea\xff")
    found = AvroReaderFormat.for_generic_record(schema)
    with pytest.raises(FormatError, match=r"part-1, block at \d+, record 3: the field 'o.s': Uni"):
        list(found.read(io.BytesIO(data), FileRange("part-1", 0, len(data))))


def test_an_input_format_reads_dictionaries(tmp_path):
    schema = AvroSchema(
        '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}, {"name": "o", '
        '"type": {"type": "record", "name": "O", "fields": [{"name": "s", "type": "string"}]}}]}'
    )
    records = [{"n": 1, "o": {"s": "one"}}, {"n": 2, "o": {"s": "two"}}]
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, schema.parsed, records)
    env = in_process()
    stream = env.create_input(AvroInputFormat(str(tmp_path / "a.avro"), schema))
    assert stream.get_type() == GenericRecordAvroTypeInfo(schema)
    assert str(stream.get_type()) == f"GenericRecordAvroTypeInfo({schema})"
    assert list(stream.map(json.dumps).execute_and_collect()) == list(map(json.dumps, records))
    with pytest.raises(InvalidProgramError, match="takes an AvroSchema"):
        AvroInputFormat(str(tmp_path), str(schema))
    with pytest.raises(JvmOnlyError, match="use from_source"):
        env.create_input(object())


def test_values_that_are_not_records():
    data = AvroRowSerializationSchema(avro_schema_string=SCHEMA).serialize(ROW)
    reader = AvroRowDeserializationSchema(avro_schema_string=SCHEMA)
    for wrong in (b"", data[:5], data + b"x"):
        with pytest.raises(FormatError, match="the Avro is"):
            reader.deserialize(wrong)


def test_schemas(tmp_path, monkeypatch):
    (tmp_path / "a.avsc").write_text(SCHEMA)
    assert str(AvroSchema.parse_file(str(tmp_path / "a.avsc"))) == SCHEMA
    for wrong in ("{", '{"type":"zz"}'):
        with pytest.raises(InvalidProgramError, match="Avro schema"):
            AvroSchema.parse_string(wrong)
    with pytest.raises(InvalidProgramError, match="no-such"):
        AvroSchema.parse_file(str(tmp_path / "no-such"))
    with pytest.raises(JvmOnlyError, match="avro_schema_string"):
        AvroRowDeserializationSchema("com.example.Record")
    with pytest.raises(InvalidProgramError, match="should be specified"):
        AvroRowSerializationSchema()
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(DependencyError, match=r"penstock-engine\[avro\]"):
        AvroSchema.parse_string(SCHEMA)


def test_records_have_a_type(tmp_path):
    """PyFlink's example: a function returns dictionaries, which are written as records."""
    schema = AvroSchema.parse_string(
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
    )
    declared = GenericRecordAvroTypeInfo(schema)
    assert declared == pickle.loads(pickle.dumps(declared))
    assert repr(declared) == f"GenericRecordAvroTypeInfo({schema})"
    env = in_process()
    records = env.from_collection([1, 2]).map(lambda a: {"a": a}, declared)
    assert isinstance(records.get_type(), GenericRecordAvroTypeInfo)
    writers = AvroBulkWriters.for_generic_record(schema)
    records.rebalance().sink_to(FileSink.for_bulk_format(str(tmp_path), writers).build())
    env.execute()
    (file,) = tmp_path.rglob("part-*")
    with file.open("rb") as opened:
        assert list(fastavro.reader(opened)) == [{"a": 1}, {"a": 2}]
    with pytest.raises(InvalidProgramError, match="takes an AvroSchema"):
        GenericRecordAvroTypeInfo("{}")
