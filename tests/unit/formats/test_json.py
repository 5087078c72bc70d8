"""JSON is read and written as Flink 2.3's schemas do, except for text after an object."""

import datetime
import math
import pickle
import struct
from decimal import Decimal

import pytest
from penstock.common import Row, Types
from penstock.common.typeinfo import LocalTimeTypeInfo
from penstock.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from penstock.errors import FormatError, InvalidProgramError, JvmOnlyError

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
TYPES = {
    "s": Types.STRING(),
    "b": Types.BOOLEAN(),
    "i": Types.INT(),
    "l": Types.LONG(),
    "d": Types.DOUBLE(),
    "f": Types.FLOAT(),
    "bd": Types.BIG_DEC(),
    "bi": Types.BIG_INT(),
    "dt": Types.SQL_DATE(),
    "tm": Types.SQL_TIME(),
    "ts": Types.SQL_TIMESTAMP(),
    "arr": Types.OBJECT_ARRAY(Types.INT()),
    "nest": Types.ROW_NAMED(["x"], [Types.INT()]),
    "m": Types.MAP(Types.STRING(), Types.LONG()),
    "by": BYTES,
    "sh": Types.SHORT(),
}
#: Flink's value of a member, by the text of an object.
READ = {
    '{"s":1}': "1",
    '{"s":{"a":[1.5]}}': '{"a":[1.5]}',
    '{"s":true}': "true",
    '{"b":"true"}': True,
    '{"b":1}': False,
    '{"b":"nope"}': False,
    '{"i":" 12 "}': 12,
    '{"i":1.5}': 1,
    '{"i":1,"i":2}': 2,
    '{"l":"9"}': 9,
    '{"d":1}': 1.0,
    '{"d":"1.5"}': 1.5,
    '{"f":0.1}': 0.10000000149011612,
    '{"bd":1.10}': Decimal("1.10"),
    '{"bd":"1.10"}': Decimal("1.10"),
    '{"bi":12345678901234567890}': 12345678901234567890,
    '{"bi":1e30}': 10**30,
    '{"l":12e3}': 12000,
    '{"dt":"2020-01-02"}': datetime.date(2020, 1, 2),
    '{"tm":"10:11:12Z"}': datetime.time(10, 11, 12),
    '{"ts":"2020-01-02T10:11:12.123456Z"}': datetime.datetime(2020, 1, 2, 10, 11, 12, 123456),
    '{"arr":[1,null,"3"]}': [1, None, 3],
    '{"nest":{"x":"7","y":3}}': Row(x=7),
    '{"m":{"a":1,"b":null}}': {"a": 1, "b": None},
    '{"by":"AQI="}': b"\x01\x02",
}
#: Values that do not fit, with a part of the reason.
MISFITS = {
    '{"i":3000000000}': "the field 'i': 3000000000 does not fit into 32 bits",
    '{"i":true}': "the field 'i': True is not a whole number",
    '{"i":"x"}': "the field 'i': 'x' is not a whole number",
    '{"bi":1.5}': "the field 'bi'",
    '{"bi":1e999999999}': "the field 'bi': 1E.999999999 has more than 4300 digits",
    '{"bi":1e4300}': "the field 'bi': 1E.4300 has more than 4300 digits",
    '{"l":1e999999999}': "the field 'l': 1E.999999999 does not fit into 64 bits",
    '{"d":"x"}': "the field 'd'",
    '{"bd":"x"}': "the field 'bd'",
    '{"dt":5}': "the field 'dt'",
    '{"dt":"2020-01-02T00:00:00"}': "the field 'dt'",
    '{"tm":"10:11:12"}': "the field 'tm'",
    '{"ts":"2020-01-02 10:11:12"}': "the field 'ts'",
    '{"ts":"2020-01-02T10:11:12+02:00"}': "the field 'ts'",
    '{"ts":"2020-01-02T10:11:12+02:00Z"}': "the field 'ts'",
    '{"tm":"10:11:12+02:00Z"}': "the field 'tm'",
    '{"arr":5}': "the field 'arr'",
    '{"arr":[1,"x"]}': "the field 'arr.1'",
    '{"nest":{"x":"y"}}': "the field 'nest.x': 'y' is not a whole number",
    '{"m":{"a":"x"}}': "the field 'm.a'",
    '{"by":5}': "the field 'by'",
    '{"sh":70000}': "the field 'sh'",
}
MALFORMED = ["", "[]", "1", '"x"', '{"d":NaN}', '{"i":', '{"i":1} x', b"\xff"]


def schema(types=TYPES, **settings):
    builder = JsonRowDeserializationSchema.builder()
    builder.type_info(Types.ROW_NAMED(list(types), list(types.values())))
    for name in settings:
        getattr(builder, name)()
    return builder.build()


def encoded(text):
    return text if isinstance(text, bytes) else text.encode()


@pytest.mark.parametrize("text", list(READ))
def test_members_become_fields(text):
    field = text[2 : text.index('"', 2)]
    for reader in (schema(), schema({field: TYPES[field]})):
        row = reader.deserialize(text.encode())
        assert row[field] == READ[text]
        assert type(row[field]) is type(READ[text])
        assert [value for value in row if value is not None] == [READ[text]]


def test_missing_members_null_and_others():
    assert list(schema().deserialize(b'{"zz":1, "S": 2}')) == [None] * len(TYPES)
    assert schema().deserialize(b"null") is None
    assert math.isnan(schema().deserialize(b'{"d":"NaN"}')["d"])
    strict = schema({"a": Types.INT(), "b": Types.STRING()}, fail_on_missing_field=1)
    assert strict.deserialize(b'{"b":"x","a":1}') == Row(a=1, b="x")
    assert strict.deserialize(b'{"b":null,"a":1}') == Row(a=1, b=None)
    with pytest.raises(FormatError, match=r"the field 'b': is missing; the JSON is '\{\"a\":1\}'"):
        strict.deserialize(b'{"a":1}')


@pytest.mark.parametrize("text", list(MISFITS))
def test_errors_name_the_field_or_it_is_none(text):
    with pytest.raises(FormatError, match=MISFITS[text]):
        schema().deserialize(text.encode())
    row = schema(ignore_parse_errors=1).deserialize(text.encode())
    found = [value for value in row if value is not None]
    assert found in ([], [[1, None]], [Row(x=None)], [{"a": None}])


@pytest.mark.parametrize("text", MALFORMED)
def test_values_that_are_not_objects(text):
    for types in (TYPES, {"a": Types.INT()}):
        with pytest.raises(FormatError, match="the JSON is"):
            schema(types).deserialize(encoded(text))
        assert schema(types, ignore_parse_errors=1).deserialize(encoded(text)) is None


def test_rows_become_objects_and_return():
    row = Row(
        s='é"\n', b=True, i=1, l=2, d=1.5, f=0.5, bd=Decimal("1.10"), bi=10**30,
        dt=datetime.date(2020, 1, 2), tm=datetime.time(1, 2, 3),
        ts=datetime.datetime(2020, 1, 2, 10, 11, 12, 500_000),
        arr=[1, None], nest=Row(x=1), m={"a": 1}, by=b"\x01\x02", sh=None,
    )  # fmt: skip
    declared = Types.ROW_NAMED(list(TYPES), list(TYPES.values()))
    writer = JsonRowSerializationSchema.builder().with_type_info(declared).build()
    text = writer.serialize(row)
    assert b'"bd":1.10,' in text
    assert b'"ts":"2020-01-02T10:11:12.5Z","arr"' in text
    assert b'"dt":"2020-01-02","tm":"01:02:03Z"' in text
    assert b'"by":"AQI=","sh":null}' in text
    for travelled in (schema(), pickle.loads(pickle.dumps(schema()))):
        assert travelled.deserialize(text) == row
    assert writer.serialize(dict(row.as_dict(), nest={"x": 1})) == text
    assert writer.serialize(tuple(row)) == text
    assert pickle.loads(pickle.dumps(writer)).serialize(row) == text
    with pytest.raises(
        FormatError, match=r"the field 'nest.x': 'y' is not a valid int; the row is <Row"
    ):
        writer.serialize(Row(*list(row)[:12], Row(x="y"), None, None, None))
    with pytest.raises(FormatError, match="2 fields, not the 16"):
        writer.serialize((1, 2))


def test_numbers_have_the_digits_of_their_type():
    """A FLOAT that was written and read in between is 0.10000000149011612 in Python."""
    single = struct.unpack("f", struct.pack("f", 0.1))[0]
    declared = Types.ROW([Types.FLOAT(), Types.DOUBLE(), Types.DOUBLE(), Types.LIST(Types.FLOAT())])
    writer = JsonRowSerializationSchema.builder().with_type_info(declared).build()
    text = writer.serialize((single, single, 1, [single, 1, 3.4e38]))
    assert text == b'{"f0":0.1,"f1":0.10000000149011612,"f2":1.0,"f3":[0.1,1.0,3.4e38]}'


def test_infinite_numbers_are_texts():
    declared = Types.ROW([Types.DOUBLE(), Types.DOUBLE()])
    writer = JsonRowSerializationSchema.builder().with_type_info(declared).build()
    assert writer.serialize((math.nan, -math.inf)) == b'{"f0":"NaN","f1":"-Infinity"}'


def test_types_of_a_json_schema():
    text = """{"type": "object", "definitions": {"n": {"type": "integer"}}, "properties": {
        "a": {"$ref": "#/definitions/n"}, "b": {"type": "array", "items": {"type": "string"}},
        "c": {"type": "string", "format": "date-time"}, "d": {"type": "boolean"},
        "e": {"type": "string", "contentEncoding": "base64"},
        "f": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]},
        "g": {"type": ["string", "null"]}, "h": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "i": {"type": "object", "properties": {"k": {"type": "string", "format": "date"}}}}}"""
    produced = JsonRowDeserializationSchema.builder().json_schema(text).build().get_produced_type()
    assert repr(produced) == (
        "RowTypeInfo(a: BigDecimal, b: BasicArrayTypeInfo<String>, c: TimestampTypeInfo, "
        "d: Boolean, e: PrimitiveArrayTypeInfo<Byte>, f: RowTypeInfo(String, BigDecimal), "
        "g: String, h: String, i: RowTypeInfo(k: DateTypeInfo))"
    )
    for wrong in ("{", "[]", '{"type":"object"}', '{"type":"string"}',
                  '{"type":"object","properties":{"a":{"$ref":"#"}}}'):  # fmt: skip
        with pytest.raises(InvalidProgramError):
            JsonRowDeserializationSchema.builder().json_schema(wrong)


def test_arguments_that_builders_reject():
    builder = JsonRowDeserializationSchema.builder
    with pytest.raises(InvalidProgramError, match="type_info or json_schema"):
        builder().build()
    with pytest.raises(InvalidProgramError, match="takes a row"):
        builder().type_info(Types.INT())
    with pytest.raises(InvalidProgramError, match="exclude each other"):
        schema(fail_on_missing_field=1, ignore_parse_errors=1)
    with pytest.raises(InvalidProgramError, match="keys of its objects are strings"):
        schema({"a": Types.MAP(Types.INT(), Types.INT())})
    with pytest.raises(InvalidProgramError, match="cannot represent"):
        schema({"a": LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE)})
    with pytest.raises(InvalidProgramError, match="Typeinfo should be set"):
        JsonRowSerializationSchema.builder().build()
    with pytest.raises(JvmOnlyError):
        JsonRowDeserializationSchema(object())


@pytest.mark.parametrize("kind", [Types.STRING(), Types.PICKLED_BYTE_ARRAY()])
def test_half_a_character_is_a_question_mark_read_and_refused_written(kind):
    """By the fast and the general reader; PyFlink shows the same in Python."""
    read = schema({"a": kind}).deserialize
    assert read(rb'{"a": "\ud83d\ud83d\ude00 \\ud83d \ude00\n"}') == Row(
        a="?\U0001f600 \\ud83d ?\n"
    )
    with pytest.raises(FormatError, match=r"the JSON is"):
        read(rb'{"a": "\ud83d\x"}')
    declared = Types.ROW_NAMED(["a"], [kind])
    write = JsonRowSerializationSchema.builder().with_type_info(declared).build().serialize
    with pytest.raises(FormatError, match=r"surrogates not allowed; the row is Row\(a='\\ud83d'\)"):
        write(Row(a="\ud83d"))
