"""Records that a writer passes to the library: their partition, and tombstones of change rows."""

from types import SimpleNamespace

from penstock.common import Row, RowKind, SimpleStringSchema
from penstock.connectors.kafka.descriptions import SinkDescription
from penstock.connectors.kafka.serialization import KafkaRecordSerializationSchema
from penstock.connectors.kafka.writer import _RecordWriter


class FullQueue:
    """Deliveries whose producer has no space for a record at first."""

    def __init__(self):
        self.producer = self
        self.written = []

    def produce(self, *record):
        raise BufferError

    def write(self, topic, value, key, timestamp, partition=-1, headers=None):
        self.written.append((topic, value, key, partition))

    def poll(self):
        pass

    def number_of_partitions(self, topic):
        return 4


class Writer(_RecordWriter):
    def _begin(self):
        self._deliveries = FullQueue()
        return self._deliveries

    def flush(self, end_of_input):
        self._write_old_rows()


def written_by(sink, elements):
    """Write records, and return them as the library gets them."""
    writer = Writer(sink, SimpleNamespace(get_index_of_subtask=lambda: 6))
    for element in elements:
        writer.write(element, SimpleNamespace(timestamp=lambda: None))
    writer.flush(True)
    return writer._deliveries.written


def test_a_record_that_waits_for_space_goes_to_the_partition_of_its_subtask():
    builder = KafkaRecordSerializationSchema.builder().set_topic("t")
    sink = SinkDescription()
    sink.record_serializer = builder.set_value_serialization_schema(SimpleStringSchema()).build()
    sink.has_fixed_partitions = True
    assert written_by(sink, ["a"]) == [("t", b"a", None, 2)]


def test_an_old_row_is_a_tombstone_unless_a_row_of_its_key_follows():
    class Text(SimpleStringSchema):
        def serialize(self, value):
            return value.text.encode()

    def change(kind, key, text):
        row = Row.of_kind(kind, key, text)
        row.set_field_names(["key", "text"])
        return row

    builder = KafkaRecordSerializationSchema.builder().set_topic("t").set_upsert_key("key")
    sink = SinkDescription()
    sink.record_serializer = builder.set_value_serialization_schema(Text()).build()
    written = written_by(
        sink,
        [
            change(RowKind.INSERT, 1, "a"),
            change(RowKind.UPDATE_BEFORE, 1, "a"),
            change(RowKind.UPDATE_AFTER, 1, "b"),
            change(RowKind.UPDATE_BEFORE, 1, "b"),
            change(RowKind.UPDATE_AFTER, 2, "c"),
            change(RowKind.DELETE, 3, "d"),
            change(RowKind.UPDATE_BEFORE, 2, "c"),
        ],
    )
    assert [(value, key) for _, value, key, _ in written] == [
        (b"a", b'{"key":1}'),
        (b"b", b'{"key":1}'),
        (None, b'{"key":1}'),
        (b"c", b'{"key":2}'),
        (None, b'{"key":3}'),
        (None, b'{"key":2}'),
    ]
