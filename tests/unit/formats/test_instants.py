"""Instants in JSON and CSV; JSON texts become the instants that Flink 2.3's schema returns."""

import datetime
import random

import pytest
from penstock.common import Instant, Row, Types
from penstock.common.values.instant_text import instant_of_text, instant_text
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from penstock.errors import FormatError

UTC = datetime.UTC
NOON = datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)
AT_NOON = 1_704_110_400
WEST = datetime.timezone(-datetime.timedelta(hours=5))


def row_type(declared):
    return Types.ROW_NAMED(["t"], [declared])


def read_json(declared, text):
    schema = JsonRowDeserializationSchema.builder().type_info(row_type(declared)).build()
    return schema.deserialize(f'{{"t":{text}}}'.encode()).t


def write_json(declared, value):
    schema = JsonRowSerializationSchema.builder().with_type_info(row_type(declared)).build()
    return schema.serialize(Row(t=value)).decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"2024-01-01T12:00:00Z"', Instant(AT_NOON, 0)),
        ('"2024-01-01T12:00:00.123456789Z"', Instant(AT_NOON, 123_456_789)),
        ('"2024-01-01T14:00:00+02:00"', Instant(AT_NOON, 0)),
        ('"+55971-02-10T00:00:00Z"', Instant(AT_NOON * 1000, 0)),
        ("1704110400", Instant(AT_NOON, 0)),
        ("1704110400.5", Instant(AT_NOON, 500_000_000)),
        ("-0.25", Instant(-1, 750_000_000)),
        ("null", None),
    ],
)
def test_instants_of_json(text, expected):
    assert read_json(Types.INSTANT(), text) == expected


@pytest.mark.parametrize("text", ['"2024-01-01T12:00:00"', '"x"', "true", '"2024-13-01T12:00:00Z"'])
@pytest.mark.parametrize("declared", [Types.INSTANT(), Types.TIMESTAMP_LTZ()], ids=str)
def test_invalid_instants_are_rejected(declared, text):
    refusal = r"the field 't': .* is not (an instant|a time with a zone) such as"
    with pytest.raises(FormatError, match=refusal):
        read_json(declared, text)


def test_instants_become_texts_of_utc():
    assert (
        write_json(Types.INSTANT(), Instant(AT_NOON, 5)) == '{"t":"2024-01-01T12:00:00.000000005Z"}'
    )
    for declared in (Types.TIMESTAMP_LTZ(), Types.SQL_TIMESTAMP()):
        assert write_json(declared, NOON.astimezone(WEST)) == '{"t":"2024-01-01T12:00:00Z"}'
    for text in ('"2024-01-01T12:00:00Z"', '"2024-01-01T07:00:00-05:00"'):
        found = read_json(Types.TIMESTAMP_LTZ(), text)
        assert (found, found.tzinfo) == (NOON, UTC)


def test_instants_of_csv():
    """SQL_TIMESTAMP has no zone there: a time in UTC would be in no zone at all."""
    zoned, naive = row_type(Types.TIMESTAMP_LTZ()), row_type(Types.SQL_TIMESTAMP())
    for value in (NOON, NOON.astimezone(WEST), NOON.replace(tzinfo=None)):
        written = CsvRowSerializationSchema.Builder(zoned).build().serialize(Row(t=value))
        assert written == b'"2024-01-01 12:00:00Z"\n'
    (found,) = CsvRowDeserializationSchema.Builder(zoned).build().deserialize(written)
    assert (found, found.tzinfo) == (NOON, UTC)
    with pytest.raises(FormatError, match=r"'t': .* has a zone, .* Types.TIMESTAMP_LTZ"):
        CsvRowSerializationSchema.Builder(naive).build().serialize(Row(t=NOON))


def test_csv_preserves_nanoseconds_and_years_of_an_instant():
    kind = row_type(Types.INSTANT())
    writer = CsvRowSerializationSchema.Builder(kind).build()
    reader = CsvRowDeserializationSchema.Builder(kind).build()
    for given, line in (
        (Instant(AT_NOON, 123_456_789), b'"2024-01-01 12:00:00.123456789Z"\n'),
        (Instant(-62_135_596_801, 0), b'"0000-12-31 23:59:59Z"\n'),
    ):
        assert writer.serialize(Row(t=given)) == line
        assert reader.deserialize(line) == Row(t=given)
    assert reader.deserialize(b"2024-01-01T07:00:00-05:00\n") == Row(t=Instant(AT_NOON, 0))
    with pytest.raises(FormatError, match=r"'t': .* is not an instant such as"):
        reader.deserialize(b"2024-01-01 12:00:00\n")
    with pytest.raises(FormatError, match=r"'t': .* is not an Instant"):
        writer.serialize(Row(t=NOON))


def test_texts_of_instants_of_all_years():
    numbers = random.Random(7)
    for _ in range(2000):
        given = Instant(numbers.randrange(-(10**13), 10**13), numbers.randrange(10**9))
        assert instant_of_text(instant_text(given)) == given
    assert instant_text(instant_of_text("10000-01-01 00:00:00+00")) == "+10000-01-01T00:00:00Z"
    ides = instant_of_text("0044-03-15 12:00:00+00", is_before_christ=True)
    assert instant_text(ides) == "-0043-03-15T12:00:00Z"
    for wrong in ("2024-02-30T00:00:00Z", "2024-01-01", "", "2024-01-01T00:00:00"):
        with pytest.raises(ValueError):
            instant_of_text(wrong)
