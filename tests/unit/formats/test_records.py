"""Records of classes are rows in every format, in both directions.

Method: one record of each kind of class is written as a row of its fields, and read back.
"""

import datetime
import io
import json
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, NotRequired, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq
import pydantic
import pytest
from penstock.common import RowKind, Types
from penstock.common.record_types import as_row_type
from penstock.common.types import Row
from penstock.common.values.change_rows import change_row
from penstock.common.values.record_reading import RecordReader
from penstock.datastream.formats.avro import AvroRowSerializationSchema
from penstock.datastream.formats.csv import (
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)
from penstock.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit
from penstock.testing import PipelineTestHarness


class Colour(Enum):
    RED = "red"


@dataclass
class Place:
    town: str
    at: datetime.date | None = None


@dataclass(frozen=True, slots=True)
class Click:
    user: str
    place: Place
    colour: Colour = Colour.RED
    tags: list[str] = field(default_factory=list)


class Order(pydantic.BaseModel):
    user: str
    place: Place
    colour: Colour = Colour.RED
    tags: list[str] = []


class Visit(NamedTuple):
    user: str
    place: Place
    colour: Colour = Colour.RED
    tags: list[str] = []  # noqa: RUF012


class Event(TypedDict):
    user: str
    place: Place
    colour: Colour
    tags: NotRequired[list[str]]


ROME = Place("Rome", datetime.date(2026, 1, 31))
NAMES = ["user", "place", "colour", "tags"]
PLAIN = {
    "user": "ada",
    "place": {"town": "Rome", "at": "2026-01-31"},
    "colour": "red",
    "tags": ["a"],
}
RECORDS = [
    Click("ada", ROME, Colour.RED, ["a"]),
    Order(user="ada", place=ROME, tags=["a"]),
]


VISIT = Visit("ada", ROME, Colour.RED, ["a"])


@pytest.mark.parametrize("record", RECORDS)
def test_fields_are_taken_by_name(record):
    assert field_values(record, ["tags", "user"]) == [["a"], "ada"]
    assert field_values(record, ["colour"]) == ["red"]
    with pytest.raises(Misfit, match="has no field 'usr'; did you mean 'user'"):
        field_values(record, ["usr"])


def test_a_named_tuple_goes_by_position_and_by_name_if_it_has_more_fields():
    assert field_values(VISIT, ["a", "b", "c", "d"]) == ["ada", ROME, "red", ["a"]]
    assert field_values(VISIT, ["tags", "user"]) == [["a"], "ada"]


@pytest.mark.parametrize(
    "record", [*RECORDS, VISIT, {"user": "ada", "place": ROME, "colour": Colour.RED, "tags": ["a"]}]
)
def test_every_kind_of_record_is_written_with_the_values_of_members(record):
    declared = Types.of(Event if isinstance(record, dict) else type(record))
    json_writer = JsonRowSerializationSchema.builder().with_type_info(declared).build()
    assert json.loads(json_writer.serialize(record)) == PLAIN
    csv_writer = CsvRowSerializationSchema.Builder(declared).build()
    assert csv_writer.serialize(record).strip() == b"ada,Rome;2026-01-31,red,a"
    changed = change_row(RowKind.DELETE, record)
    assert (changed["colour"], changed.get_row_kind()) == ("red", RowKind.DELETE)


def test_avro_has_the_values_of_members():
    fields = [{"name": "user", "type": "string"}, {"name": "colour", "type": "string"}]
    schema = json.dumps({"type": "record", "name": "Click", "fields": fields})
    writer = AvroRowSerializationSchema(avro_schema_string=schema)
    written = {
        writer.serialize(record)
        for record in (
            VISIT,
            Click("ada", ROME),
            {"user": "ada", "colour": Colour.RED},
            {"user": "ada", "colour": "red"},
        )
    }
    assert len(written) == 1


class Palette(NamedTuple):
    colours: list[Colour | None]
    counts: dict[Colour, int]
    pair: tuple[Colour, int]
    first: Colour | None = None


def test_members_within_lists_dictionaries_and_tuples_are_written_as_their_values():
    palette = Palette([None, Colour.RED], {Colour.RED: 3}, (Colour.RED, 1))
    json_writer = JsonRowSerializationSchema.builder().with_type_info(Types.of(Palette)).build()
    written = {"colours": [None, "red"], "counts": {"red": 3}, "first": None}
    assert json.loads(json_writer.serialize(palette)) == {
        **written,
        "pair": {"f0": "red", "f1": 1},
    }
    file = io.BytesIO()
    writer = ParquetBulkWriters.for_row_type(Types.of(Palette)).create(file)
    writer.add_element(palette)
    writer.finish()
    columns = pq.read_table(pa.BufferReader(file.getvalue())).to_pylist()
    pair = {"f0": "red", "f1": 1}
    assert columns == [{**written, "counts": [("red", 3)], "pair": pair}]
    assert palette.colours == [None, Colour.RED]


@pytest.mark.parametrize("record", RECORDS)
def test_json_there_and_back(record):
    declared = Types.of(type(record))
    writer = JsonRowSerializationSchema.builder().with_type_info(declared).build()
    written = writer.serialize(record)
    assert json.loads(written) == PLAIN
    reader = JsonRowDeserializationSchema.builder().type_info(declared).build()
    assert reader.get_produced_type() == declared
    assert reader.deserialize(written) == record


@pytest.mark.parametrize("record_class", [Click, Order, Visit])
def test_members_that_are_missing_have_the_default_of_the_class(record_class):
    reader = JsonRowDeserializationSchema.builder().type_info(Types.of(record_class)).build()
    read = reader.deserialize(b'{"user": "ada", "place": {"town": "Rome"}}')
    assert read == record_class(user="ada", place=Place("Rome"))


def test_a_typed_dictionary_is_read():
    reader = JsonRowDeserializationSchema.builder().type_info(Types.of(Event)).build()
    assert reader.deserialize(json.dumps(PLAIN).encode()) == {
        "user": "ada",
        "place": ROME,
        "colour": Colour.RED,
        "tags": ["a"],
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"place": {"town": "Rome"}}', "missing 1 required positional argument: 'user'"),
        (b'{"user": "ada", "place": 3}', "'place': 3 is not a JSON object"),
        (b'{"user": "ada", "place": {"town": "R"}, "colour": "x"}', "'x' is not a valid Colour"),
    ],
)
def test_json_that_is_no_such_record_is_refused(text, why):
    reader = JsonRowDeserializationSchema.builder().type_info(Types.of(Click)).build()
    with pytest.raises(FormatError, match=why):
        reader.deserialize(text)


@pytest.mark.parametrize("record", RECORDS)
def test_parquet_has_a_column_for_each_field(record):
    file = io.BytesIO()
    writer = ParquetBulkWriters.for_row_type(Types.of(type(record))).create(file)
    writer.add_element(record)
    writer.finish()
    table = pq.read_table(pa.BufferReader(file.getvalue()))
    place = {"town": "Rome", "at": ROME.at}
    assert table.to_pylist() == [{**PLAIN, "place": place}]


@pytest.mark.parametrize("record", [ROME, *RECORDS, VISIT])
def test_csv_there_and_back(record):
    declared = Types.of(type(record))
    line = CsvRowSerializationSchema.Builder(declared).build().serialize(record)
    reader = CsvRowDeserializationSchema.Builder(declared).build()
    assert reader.get_produced_type() == declared
    assert reader.deserialize(line) == record


def test_csv_that_is_no_such_record_is_refused():
    builder = CsvRowDeserializationSchema.Builder(Types.of(Click))
    line = b"ada,Rome;2026-01-31,green,a"
    with pytest.raises(FormatError, match="'green' is not a valid Colour; the CSV is"):
        builder.build().deserialize(line)
    assert builder.set_ignore_parse_errors(True).build().deserialize(line) is None


@pytest.mark.parametrize(
    "value",
    [
        Row(user="ada", place=Row(town="Rome", at=ROME.at), colour="red", tags=["a"], more=1),
        Row("ada", Row("Rome", ROME.at), "red", ["a"]),
        ("ada", ("Rome", ROME.at), "red", ["a"]),
        {"place": {"town": "Rome", "at": ROME.at}, "user": "ada", "tags": ["a"]},
        Order(user="ada", place=ROME, tags=["a"]),
    ],
)
@pytest.mark.parametrize("record_class", [Click, Order, Visit])
def test_rows_become_records(value, record_class):
    expected = record_class(user="ada", place=ROME, colour=Colour.RED, tags=["a"])
    assert RecordReader(Types.of(record_class))(value) == expected


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (("ada",), "has 1 fields, and Click has 4: user, place, colour, tags"),
        (3, "3 has no fields for a Click"),
        ({"user": "ada"}, "missing 1 required positional argument: 'place'"),
    ],
)
def test_other_values_become_no_records(value, why):
    with pytest.raises(FormatError, match=why):
        RecordReader(Types.of(Click))(value)


def test_a_stream_of_rows_becomes_one_of_records():
    harness = PipelineTestHarness()
    rows = harness.source("in", Types.ROW_NAMED(["town", "more"], [Types.STRING(), Types.INT()]))
    places = rows.as_records(Place)
    assert places.get_type() == Types.of(Place)
    harness.sink("out", places.key_by("town").max_by("town"))
    with harness:
        harness.process_element("in", Row(town="Rome", more=1))
        assert harness.values("out") == [Place("Rome")]


def test_a_class_that_needs_another_field_is_refused():
    rows = PipelineTestHarness().source("in", Types.ROW_NAMED(["twn"], [Types.STRING()]))
    with pytest.raises(
        InvalidProgramError, match=r"Place needs the field 'town'.*did you mean 'twn'"
    ):
        rows.as_records(Place)
    with pytest.raises(InvalidProgramError, match="as_records takes a class with fields"):
        rows.as_records(int)


def test_columns_of_records_are_those_of_their_rows():
    place = Types.ROW_NAMED(["town", "at"], [Types.STRING(), Types.SQL_DATE()])
    expected = Types.ROW_NAMED(
        NAMES, [Types.STRING(), place, Types.STRING(), Types.LIST(Types.STRING())]
    )
    assert as_row_type(Types.of(Click)) == expected
