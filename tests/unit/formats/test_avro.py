"""Avro's binary form as rows, and rows in it."""

import datetime
import json
import pickle
import sys
from decimal import Decimal

import pytest
from penstock.common import Row
from penstock.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
)
from penstock.errors import DependencyError, FormatError, InvalidProgramError, JvmOnlyError

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


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (changed(i="x"), "n.A.i is <x> of type .* expected int"),
        (changed(sub=Row(x=None)), r"n.B.x\) is None expected long"),
        (changed(sub=5), "the field 'sub': 5 is no row"),
        ((1, 2), "2 fields, not the 9"),
    ],
)
def test_errors_name_the_field(row, reason):
    writer = AvroRowSerializationSchema(avro_schema_string=SCHEMA)
    with pytest.raises(FormatError, match=reason + ".*; the row is"):
        writer.serialize(row)


def test_what_is_no_record():
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
    with pytest.raises(DependencyError, match=r"penstock\[avro\]"):
        AvroSchema.parse_string(SCHEMA)
