"""Tables in topics: options, the layout of keys and values, upserts and metadata."""

import datetime

import pyarrow as pa
import pytest
from penstock.table.connectors.interfaces import TableContext
from penstock.table.connectors.kafka import (
    KafkaFactory,
    KafkaRecords,
    UpsertKafkaFactory,
    UpsertRows,
)
from penstock.table.connectors.kafka_messages import (
    BlocksOfTable,
    Message,
    MessageBlocks,
    MessageReader,
)
from penstock.table.connectors.kafka_options import specific_offsets
from penstock.table.exceptions import ValidationException
from penstock.table.schema.resolved_schema import (
    MetadataColumn,
    PhysicalColumn,
    ResolvedSchema,
    UniqueConstraint,
)
from penstock.table.types import DataTypes

BROKERS = {"properties.bootstrap.servers": "localhost:9092", "topic": "t"}
COLUMNS = [
    PhysicalColumn("id", DataTypes.INT().not_null()),
    PhysicalColumn("name", DataTypes.STRING()),
]
KEY = UniqueConstraint.primary_key("PK_id", ["id"])


def _context(options, columns=COLUMNS, key=None):
    return TableContext("c.d.t", ResolvedSchema(columns, (), key), {**BROKERS, **options})


class _Record:
    def key(self):
        return b'{"id":7}'

    def value(self):
        return b'{"id":1,"name":"a"}'

    def topic(self):
        return "t"

    def partition(self):
        return 3

    def offset(self):
        return 42

    def headers(self):
        return [("h", b"v")]

    def timestamp(self):
        return 1, 1500


def test_values_become_rows_with_metadata():
    source = KafkaFactory().source(
        _context({"format": "json", "scan.startup.mode": "earliest-offset"})
    )
    assert not source.is_bounded
    assert "timestamp" in source.metadata
    read = MessageReader(["partition", "offset", "timestamp", "headers", "timestamp-type"])
    message = read(_Record())
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=datetime.UTC)
    assert message.metadata == (3, 42, moment, {"h": b"v"}, "CreateTime")
    layout = source._layout
    blocks = MessageBlocks(BlocksOfTable(layout, layout.row_type))
    [batch] = blocks.elements([([None], [message.value], [])])
    assert batch.to_pylist() == [{"id": 1, "name": "a"}]
    assert list(blocks.elements([([None], [None], [])])) == []


def test_keys_hold_columns():
    options = {
        "key.format": "json",
        "key.fields": "id",
        "value.format": "csv",
        "value.fields-include": "EXCEPT_KEY",
    }
    layout = KafkaFactory().source(_context(options))._layout
    assert list(layout.rows(Message(b'{"id":7}', b"x"))) == [(0, [7, "x"], [])]
    assert layout.record(0, [7, "x"]) == (b'{"id":7}', b"x")


def test_upserts_and_tombstones():
    options = {"key.format": "json", "value.format": "json"}
    source = UpsertKafkaFactory().source(_context(options, key=KEY))
    assert len(source.kinds) == 4
    rows = UpsertRows(source._layout)
    [row] = rows(Message(b'{"id":1}', b'{"id":1,"name":"a"}'))
    assert str(row.get_row_kind()) == "+U"
    assert tuple(row) == (1, "a")
    [row] = rows(Message(b'{"id":1}', None))
    assert str(row.get_row_kind()) == "-D"
    layout = source._layout
    records = KafkaRecords(layout, layout.row_type, {}, "t")
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([1, 1, 1, 1], pa.int32()),
            pa.array(["a", "a", "b", "b"]),
            pa.array([0, 1, 2, 3], pa.int8()),
        ],
        names=["id", "name", "$row_kind"],
    )
    assert [(r.key, r.value) for r in records(batch)] == [
        (b'{"id":1}', b'{"id":1,"name":"a"}'),
        (b'{"id":1}', None),
        (b'{"id":1}', b'{"id":1,"name":"b"}'),
        (b'{"id":1}', None),
    ]


def test_metadata_is_written():
    columns = [*COLUMNS, MetadataColumn("ts", DataTypes.TIMESTAMP_LTZ(3), None, "timestamp")]
    sink = KafkaFactory().sink(_context({"format": "json"}, columns))
    records = KafkaRecords(sink._layout, sink._written, sink._metadata, "t")
    moment = datetime.datetime(1970, 1, 1, 0, 0, 2, tzinfo=datetime.UTC)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([1], pa.int32()),
            pa.array(["a"]),
            pa.array([moment], pa.timestamp("ms", "UTC")),
        ],
        names=["id", "name", "ts"],
    )
    [record] = records(batch)
    assert record.timestamp == 2000
    assert record.value == b'{"id":1,"name":"a"}'


@pytest.mark.parametrize(
    ("factory", "options", "message"),
    [
        (KafkaFactory, {}, "format"),
        (KafkaFactory, {"format": "json", "topik": "x"}, "topik"),
        (KafkaFactory, {"format": "json", "topic-pattern": "x"}, "one of the options"),
        (KafkaFactory, {"format": "json", "key.fields": "id"}, r"key\.format"),
        (KafkaFactory, {"format": "json", "scan.startup.mode": "soon"}, "earliest-offset"),
        (UpsertKafkaFactory, {"key.format": "json", "value.format": "json"}, "PRIMARY KEY"),
    ],
)
def test_wrong_options(factory, options, message):
    with pytest.raises(ValidationException, match=message):
        factory().source(_context(options))


def test_specific_offsets():
    found = specific_offsets("scan.startup", "partition:0,offset:42;partition:1,offset:300", "t")
    assert [(p.partition, offset) for p, offset in found.items()] == [(0, 42), (1, 300)]
    with pytest.raises(ValidationException, match="partition:0"):
        specific_offsets("scan.startup", "0:42", "t")


def test_metadata_of_records_and_of_their_format_stand_in_the_wanted_order():
    source = KafkaFactory().source(_context({"format": "debezium-json"}))
    assert {"offset", "value.source.table", "value.ingestion-timestamp"} <= set(source.metadata)
    keys = ["value.source.table", "offset", "value.source.properties", "value.source.timestamp"]
    read = source.with_metadata(keys)
    message = MessageReader(["offset"])(_Record())
    change = (
        b'{"op":"u","before":{"id":1,"name":"a"},"after":{"id":1,"name":"b"},"ts_ms":5,'
        b'"source":{"table":"people","ts_ms":1500,"lsn":[7,{"a":"b"}],"snapshot":null}}'
    )
    names = [f"$metadata${key}" for key in keys]
    fields = [DataTypes.FIELD(n, source.metadata[k]) for n, k in zip(names, keys, strict=True)]
    row_type = DataTypes.ROW([*read._layout.row_type.fields, *fields])
    blocks = MessageBlocks(BlocksOfTable(read._layout, row_type, keys, with_kinds=True))
    metadata = [[value] for value in message.metadata]
    [batch] = blocks.elements([([message.key], [change], metadata)])
    assert batch.column(1).to_pylist() == ["a", "b"]
    assert [batch.column(i).to_pylist()[1] for i in range(2, 6)] == [
        "people",
        42,
        [("table", "people"), ("ts_ms", "1500"), ("lsn", '[7,{"a":"b"}]'), ("snapshot", None)],
        datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=datetime.UTC),
    ]
    [(_, row)] = _rows_of_canal(["table", "pk-names", "event-timestamp"])
    assert row == ["x", "t", ["id"], datetime.datetime(1970, 1, 1, 0, 0, 2, tzinfo=datetime.UTC)]


def _rows_of_canal(keys):
    from penstock.table.formats.registry import create_row_format

    kind = DataTypes.ROW([DataTypes.FIELD("name", DataTypes.STRING())])
    row_format = create_row_format("canal-json", "kafka", kind, {}).with_metadata(keys)
    return row_format.decode(
        b'{"type":"INSERT","table":"t","pkNames":["id"],"es":2000,"data":[{"name":"x"}]}'
    )
