"""A writer of one partition keeps to it while the library's queue is full."""

from types import SimpleNamespace

from penstock.common import SimpleStringSchema
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

    def write(self, topic, value, key, timestamp, partition=-1):
        self.written.append((topic, value, partition))

    def poll(self):
        pass

    def number_of_partitions(self, topic):
        return 4


class Writer(_RecordWriter):
    def _begin(self):
        self._deliveries = FullQueue()
        return self._deliveries

    def flush(self, end_of_input):
        pass


def test_a_record_that_waits_for_space_goes_to_the_partition_of_its_subtask():
    builder = KafkaRecordSerializationSchema.builder().set_topic("t")
    sink = SinkDescription()
    sink.record_serializer = builder.set_value_serialization_schema(SimpleStringSchema()).build()
    sink.has_fixed_partitions = True
    writer = Writer(sink, SimpleNamespace(get_index_of_subtask=lambda: 6))
    writer.write("a", SimpleNamespace(timestamp=lambda: None))
    assert writer._deliveries.written == [("t", b"a", 2)]
