"""Tables in topics read blocks of messages as columns, with the rows that single messages have."""

from types import SimpleNamespace

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.connectors.kafka.descriptions import SourceDescription
from penstock.connectors.kafka.partitions import KafkaPartitionSplit
from penstock.connectors.kafka.reader import KafkaSourceReader
from penstock.connectors.split_source import InputStatus
from penstock.errors import FormatError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.connectors.interfaces import TableContext
from penstock.table.connectors.kafka import KafkaFactory
from penstock.table.connectors.kafka_messages import BlocksOfTable, MessageBlocks
from penstock.table.schema.resolved_schema import PhysicalColumn, ResolvedSchema
from penstock.table.types import DataTypes, RowField, RowType

COLUMNS = [PhysicalColumn("id", DataTypes.INT()), PhysicalColumn("name", DataTypes.STRING())]
EOF = -191


class Record:
    """A record, or an error, of the client."""

    def __init__(self, partition, offset, value, key=None, code=None):
        self._fields = partition, offset, value, key
        self._error = None if code is None else SimpleNamespace(code=lambda: code, fatal=bool)

    def __len__(self):
        return len(self.value() or b"")

    def error(self):
        return self._error

    def topic(self):
        return "t"

    def partition(self):
        return self._fields[0]

    def offset(self):
        return self._fields[1]

    def value(self):
        return self._fields[2]

    def key(self):
        return self._fields[3]

    def headers(self):
        return [("h", b"v")]

    def timestamp(self):
        return 1, self._fields[1]


class Consumer:
    """A client whose queue is a list."""

    def __init__(self, queue):
        self.queue = queue

    def consume(self, most, timeout_s):
        assert timeout_s == 0
        taken, self.queue[:] = self.queue[:most], self.queue[most:]
        return taken

    def incremental_assign(self, partitions):
        pass

    def incremental_unassign(self, partitions):
        pass

    def get_watermark_offsets(self, partition, cached):
        return 0, 0

    def close(self):
        pass


class Metrics(dict):
    def gauge(self, name, read):
        self[name] = read

    def counter(self, name):
        return SimpleNamespace(inc=None)

    def counts(self):
        return self["numBlocksInColumns"](), self["numBlocksInRows"]()


class Splits:
    """The outputs of a reader: what each split has emitted."""

    def __init__(self):
        self.batches = {}
        self.released = []

    def create_output_for_split(self, name):
        found = self.batches.setdefault(name, [])
        return SimpleNamespace(collect=found.append)

    def release_output_for_split(self, name):
        self.released.append((name, len(self.batches[name])))


def schema_of(options=(), keys=()):
    given = {"properties.bootstrap.servers": "b:9092", "topic": "t", "value.format": "json"}
    table = TableContext("c.d.t", ResolvedSchema(COLUMNS), given | dict(options))
    source = KafkaFactory().source(table).with_metadata(keys)
    fields = [*source._layout.row_type.fields]
    fields += [RowField(f"$metadata${key}", source.metadata[key]) for key in keys]
    return BlocksOfTable(source._layout, RowType(fields), keys)


@pytest.fixture
def reading(monkeypatch):
    """Return a function that creates a reader of a queue."""

    def create(queue, *splits):
        library = SimpleNamespace(
            Message=Record,
            TopicPartition=SimpleNamespace,
            Consumer=lambda settings, logger: Consumer(queue),
            KafkaError=SimpleNamespace(_PARTITION_EOF=EOF),
        )
        library.TopicPartition = lambda *parts: parts
        monkeypatch.setattr("penstock.connectors.kafka.reader.kafka_library", lambda _: library)
        description = SourceDescription()
        description.settings = {"bootstrap.servers": "b:9092"}
        description.deserializer = schema_of()
        metrics = Metrics()
        context = SimpleNamespace(metric_group=lambda: metrics, get_index_of_subtask=lambda: 0)
        reader = KafkaSourceReader(description, context)
        reader.add_splits(list(splits))
        return reader, metrics

    return create


def record(partition, offset):
    return Record(partition, offset, b'{"id": %d, "name": "n"}' % offset)


def ids(batches):
    return [number for batch in batches for number in batch["id"].to_pylist()]


def test_messages_of_the_client_become_one_batch_of_each_partition(reading):
    queue = [record(number % 2, number // 2) for number in range(2000)]
    reader, metrics = reading(queue, KafkaPartitionSplit("t", 0, 0), KafkaPartitionSplit("t", 1, 0))
    output = Splits()
    assert reader.poll_next(output) is InputStatus.MORE_AVAILABLE
    assert reader.poll_next(output) is InputStatus.NOTHING_AVAILABLE
    assert {name: len(found) for name, found in output.batches.items()} == {"t-0": 1, "t-1": 1}
    assert all(ids(found) == list(range(1000)) for found in output.batches.values())
    assert metrics.counts() == (2, 0)
    assert [split.starting_offset for split in reader.snapshot_state(1)] == [1000, 1000]


def test_many_messages_become_several_blocks(reading):
    reader, metrics = reading(
        [record(0, number) for number in range(10_000)], KafkaPartitionSplit("t", 0, 0)
    )
    output = Splits()
    while reader.poll_next(output) is InputStatus.MORE_AVAILABLE:
        pass
    assert ids(output.batches["t-0"]) == list(range(10_000))
    assert metrics.counts() == (len(output.batches["t-0"]), 0)
    assert 2 < len(output.batches["t-0"]) < 34


def test_large_messages_end_a_block(reading):
    large = b'{"id": 1, "name": "%s"}' % (b"x" * 10_000)
    reader, _ = reading(
        [Record(0, number, large) for number in range(1500)], KafkaPartitionSplit("t", 0, 0)
    )
    output = Splits()
    reader.poll_next(output)
    assert [batch.num_rows for batch in output.batches["t-0"]] == [600]


def test_a_partition_that_ends_emits_its_block_first(reading):
    queue = [
        *(record(0, number) for number in range(20)),
        record(1, 0),
        Record(1, 1, None, code=EOF),
    ]
    splits = KafkaPartitionSplit("t", 0, 0, 10), KafkaPartitionSplit("t", 1, 0, 1)
    reader, _ = reading(queue, *splits)
    reader.notify_no_more_splits()
    output = Splits()
    assert reader.poll_next(output) is InputStatus.MORE_AVAILABLE
    assert reader.poll_next(output) is InputStatus.END_OF_INPUT
    assert ids(output.batches["t-0"]) == list(range(10))
    assert ids(output.batches["t-1"]) == [0]
    assert sorted(output.released) == [("t-0", 1), ("t-1", 1)]


VALUES = (
    st.sampled_from(
        [
            *(b'{"id": 1, "name": "a"}', b'{"id": 2}', b"{}", b'{"name": "\\u00e9", "x": [1]}'),
            *(
                b'{"id": "3"}',
                b"[]",
                b'[{"id": 4}, {"id": 5}]',
                b"nothing",
                b'{\n"id": 1}',
                b"null",
            ),
        ]
    )
    | st.none()
)
KEYED = {"key.format": "json", "key.fields": "id", "value.fields-include": "EXCEPT_KEY"}


@settings(max_examples=60, deadline=None, database=None)
@given(
    messages=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=4),
    options=st.sampled_from([{}, {"value.json.ignore-parse-errors": "true"}, KEYED]),
    keys=st.sampled_from([(), ("offset", "headers", "timestamp")]),
)
def test_columns_have_the_rows_of_messages(messages, options, keys):
    records = [Record(0, n, value, key) for n, (value, key) in enumerate(messages)]
    found = []
    for reads_columns in (True, False):
        blocks = MessageBlocks(schema_of(options, keys))
        assert blocks._is_in_columns
        blocks._is_in_columns = reads_columns
        taken = [blocks.taken(records[:1]), blocks.taken(records[1:])]
        try:
            batches = list(blocks.elements(taken))
        except FormatError as error:
            found.append(str(error))
        else:
            found.append([(batch.schema, batch.to_pylist()) for batch in batches])
    assert found[0] == found[1]


def test_messages_of_csv_with_line_feeds_are_read_one_by_one():
    options = {"value.format": "csv"}
    blocks = MessageBlocks(schema_of(options))
    [batch] = blocks.elements([blocks.taken([Record(0, 0, b'1,"a\nb"'), Record(0, 1, b"2,c")])])
    assert batch.to_pylist() == [{"id": 1, "name": "a\nb"}, {"id": 2, "name": "c"}]
    assert (blocks.counts.in_columns, blocks.counts.in_rows) == (0, 1)


def test_byte_order_marks_of_messages_of_csv_are_left_out():
    blocks = MessageBlocks(schema_of({"value.format": "csv"}))
    records = [Record(0, n, b"\xef\xbb\xbf%d,c" % n) for n in range(2)]
    [batch] = blocks.elements([blocks.taken(records)])
    assert batch.to_pylist() == [{"id": 0, "name": "c"}, {"id": 1, "name": "c"}]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("n INT, s STRING", "t: blocks of messages as columns"),
        ("n INT, s ARRAY<INT>", "t: row by row, as the column 's' has values with parts"),
    ],
)
def test_explain_says_how_messages_are_read(columns, expected):
    pytest.importorskip("confluent_kafka")
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql(
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'kafka', 'topic' = 't', "
        "'properties.bootstrap.servers' = 'b:9092', 'format' = 'json', "
        "'scan.startup.mode' = 'earliest-offset')"
    )
    text = tables.explain_sql("SELECT s, COUNT(n) FROM t GROUP BY s")
    assert expected in text.split("== Sources ==")[1]


def test_members_that_a_query_does_not_use_are_not_parsed():
    table = TableContext(
        "c.d.t",
        ResolvedSchema(COLUMNS),
        {"properties.bootstrap.servers": "b:9092", "topic": "t", "format": "json"},
    )
    layout = KafkaFactory().source(table).with_columns([1])._layout
    [column, other] = layout.columns([None], [b'{"id": "no number", "name": "a"}'])
    assert (column.to_pylist(), other.to_pylist()) == ([None], ["a"])
