"""Avro in tables: schemas and bytes as Flink's, files, and messages of a schema registry."""

import datetime
import decimal
import json

import pytest

pytest.importorskip("fastavro")

from penstock.errors import FormatError
from penstock.table.connectors.interfaces import TableContext
from penstock.table.connectors.kafka import with_subject
from penstock.table.exceptions import ValidationException
from penstock.table.formats.avro_types import AvroMapping
from penstock.table.formats.registry import create_row_format
from penstock.table.plan.nodes import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.table.schema.resolved_schema import ResolvedSchema
from penstock.table.types import DataTypes
from support.schema_registry import Registry

D = DataTypes


def row_type(**columns):
    return D.ROW([D.FIELD(name, kind) for name, kind in columns.items()])


ALL = row_type(
    s=D.STRING().not_null(),
    i=D.SMALLINT(),
    n=D.BIGINT(),
    dc=D.DECIMAL(10, 3),
    b=D.BOOLEAN(),
    da=D.DATE(),
    ti=D.TIME(3),
    ts=D.TIMESTAMP(3),
    y=D.BYTES(),
    a=D.ARRAY(D.TIMESTAMP(3)),
    m=D.MAP(D.STRING(), D.DOUBLE()),
    r=D.ROW([D.FIELD("x", D.INT()), D.FIELD("z", D.STRING())]),
)
MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, 600000)
VALUES = [
    "text",
    -1,
    1 << 40,
    decimal.Decimal("-1.500"),
    True,
    datetime.date(2024, 1, 2),
    datetime.time(1, 2, 3),
    MOMENT,
    b"\n\xff",
    [MOMENT, None],
    {"k": 0.5},
    (7, None),
]


def made(name, kind, **options):
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return create_row_format(name, "kafka", kind, keys)


@pytest.fixture
def registry():
    found = Registry()
    yield found
    found.close()


def test_values_of_all_types():
    row_format = made("avro", ALL)
    [(kind, row)] = row_format.decode(row_format.encode(INSERT, VALUES))
    assert (kind, row) == (INSERT, VALUES)
    nulls = ["only", *[None] * 11]
    [(_, row)] = row_format.decode(row_format.encode(INSERT, nulls))
    assert row == nulls
    with pytest.raises(FormatError, match="not a record of Avro"):
        row_format.encode(INSERT, [None] * 12)
    with pytest.raises(FormatError):
        row_format.decode(b"\x00")


def test_bytes_are_those_of_flink():
    """Nullable fields are a union with null first: its branch 1, then the value."""
    kind = row_type(a=D.INT(), b=D.STRING().not_null())
    assert made("avro", kind).encode(INSERT, [3, "hi"]) == b"\x02\x06\x04hi"


def test_schemas_are_those_of_flink():
    kind = row_type(a=D.INT().not_null(), r=D.ROW([D.FIELD("t", D.TIMESTAMP(3))]))
    assert AvroMapping(kind).schema == {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.flink.avro.generated",
        "fields": [
            {"name": "a", "type": "int"},
            {
                "name": "r",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "record_r",
                        "fields": [
                            {
                                "name": "t",
                                "type": [
                                    "null",
                                    {"type": "long", "logicalType": "timestamp-millis"},
                                ],
                                "default": None,
                            }
                        ],
                    },
                ],
                "default": None,
            },
        ],
    }


def test_instants_need_the_newer_mapping_of_times():
    kind = row_type(t=D.TIMESTAMP(6), i=D.TIMESTAMP_LTZ(3))
    with pytest.raises(ValidationException, match="TIMESTAMP"):
        made("avro", kind)
    with pytest.raises(ValidationException, match="legacy' = 'false'"):
        made("avro", row_type(i=D.TIMESTAMP_LTZ(3)))
    row_format = create_row_format("avro", "kafka", kind, {"timestamp_mapping.legacy": "false"})
    values = [MOMENT.replace(microsecond=123456), MOMENT.replace(tzinfo=datetime.UTC)]
    assert row_format.decode(row_format.encode(INSERT, values)) == ((INSERT, values),)
    with pytest.raises(ValidationException, match="keys of its maps are texts"):
        made("avro", row_type(m=D.MAP(D.INT(), D.INT())))


def test_records_of_a_registry(registry):
    kind = row_type(id=D.INT(), name=D.STRING())
    row_format = made("avro-confluent", kind, url=registry.url, subject="people-value")
    message = row_format.encode(INSERT, [1, "a"])
    assert message[0] == 0
    assert row_format.decode(message) == ((INSERT, [1, "a"]),)
    assert [path for _, path in registry.asked] == [
        "/subjects/people-value/versions",
        "/schemas/ids/1",
    ]
    # A reader with fewer columns, and one with a column that the writer did not have.
    fewer = made("avro-confluent", row_type(name=D.STRING()), url=registry.url)
    assert fewer.decode(message) == ((INSERT, ["a"]),)
    more = made("avro-confluent", row_type(id=D.INT(), age=D.INT()), url=registry.url)
    assert more.decode(message) == ((INSERT, [1, None]),)
    with pytest.raises(FormatError, match="'subject'"):
        fewer.encode(INSERT, ["a"])
    with pytest.raises(ValidationException, match="Missing required options"):
        made("avro-confluent", kind)


def test_changes_of_a_registry(registry):
    kind = row_type(id=D.INT(), name=D.STRING())
    row_format = made("debezium-avro-confluent", kind, url=registry.url, subject="changes")
    for change in (INSERT, DELETE):
        [(found, row)] = row_format.decode(row_format.encode(change, (1, "a")))
        assert (found, tuple(row)) == (change, (1, "a"))
    [(found, _)] = row_format.decode(row_format.encode(UPDATE_AFTER, (1, "b")))
    assert found == INSERT
    update = row_format._message(((1, "a"), (1, "b"), "u"))
    assert [(k, tuple(row)) for k, row in row_format.decode(update)] == [
        (UPDATE_BEFORE, (1, "a")),
        (UPDATE_AFTER, (1, "b")),
    ]
    assert row_format.decode(b"") == ()
    with pytest.raises(FormatError, match="REPLICA IDENTITY FULL"):
        row_format.decode(row_format._message((None, (1, "b"), "u")))
    (schema,) = {found["schema"] for found in registry.schemas.values()}
    assert [field["name"] for field in json.loads(schema)["fields"]] == ["before", "after", "op"]


@pytest.mark.parametrize(
    ("options", "key", "subject"),
    [
        ({"format": "avro-confluent", "topic": "t"}, "format", "t-value"),
        ({"key.format": "avro-confluent", "topic": "t"}, "key.format", "t-key"),
        ({"value.format": "avro-confluent", "topic": "t"}, "value.format", "t-value"),
        ({"format": "avro-confluent", "topic": "t;u"}, "format", None),
        ({"format": "json", "topic": "t"}, "format", None),
        (
            {"format": "avro-confluent", "topic": "t", "avro-confluent.subject": "s"},
            "format",
            "s",
        ),
    ],
)
def test_topics_name_subjects(options, key, subject):
    context = with_subject(TableContext("t", ResolvedSchema([]), options), key)
    prefix = f"{key.removesuffix('format')}avro-confluent."
    assert context.options.get(f"{prefix}subject") == subject
