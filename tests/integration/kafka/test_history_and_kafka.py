"""HybridSource: files, or another topic, and then a topic of a real broker."""

import pytest
from integration.kafka.test_kafka_source import environment
from penstock.common import SimpleStringSchema, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from penstock.datastream.window import Time, TumblingEventTimeWindows
from support.environments import in_process
from support.gates import GATES, Gate, Gated, stopped

pytestmark = pytest.mark.kafka


def topic_source(topics, name, *, bounded):
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(topics.servers)
        .set_topics(name)
        .set_group_id(name)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
    )
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    return builder.build()


def lines_source(folder):
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()


def write_lines(folder, numbers, files=3):
    folder.mkdir()
    for file in range(files):
        (folder / str(file)).write_text("".join(f"{n}\n" for n in numbers[file::files]))


def test_files_and_then_two_topics(topics, tmp_path):
    """In this order, with any reader: an enumerated source follows the parts before it."""
    write_lines(tmp_path / "history", range(1000))
    names = [topics.create(partitions=3), topics.create(partitions=2)]
    for number, name in enumerate(names, 1):
        values = range(1000 * number, 1000 * number + 1000)
        topics.write(name, [{"value": str(n), "partition": n % 2} for n in values])
    source = HybridSource.builder(lines_source(tmp_path / "history"))
    for name in names:
        source.add_source(topic_source(topics, name, bounded=True))
    env = environment(parallelism=1)
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "all")
    with stream.execute_and_collect() as found:
        seen = [int(text) for text in found]
    assert sorted(seen) == list(range(3000))
    assert [n // 1000 for n in seen] == sorted(n // 1000 for n in seen)


@pytest.mark.parametrize("until", [100, 400])
def test_a_savepoint_before_and_within_the_topic(until, topics, tmp_path):
    """Each record once, at another parallelism."""
    count = 5000
    write_lines(tmp_path / "history", range(300))
    name = topics.create(partitions=3)
    topics.write(name, [{"value": str(n), "partition": n % 3} for n in range(300, count)])

    def started(gate, parallelism, **options):
        GATES["hybrid"] = gate
        env = in_process(parallelism, **options)
        source = HybridSource.builder(lines_source(tmp_path / "history"))
        source.add_source(topic_source(topics, name, bounded=False))
        stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "all")
        stream.map(Gated("hybrid"), Types.STRING()).sink_to(DiscardingSink())
        return env.execute_async()

    first, second = Gate(), Gate()
    job = started(first, 2)
    first.let(until)
    first.wait_for(until)
    assert all(int(text) < 300 for text in first.seen[:300]), "the topic comes behind all files"
    path = stopped(job, first, str(tmp_path / "savepoints"))
    job = started(second, 3, **{"execution.state-recovery.path": path})
    second.let(count)
    second.wait_for(count - len(first.seen))
    job.cancel().result()
    assert sorted(map(int, first.seen + second.seen)) == list(range(count))


class AsTimestamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value)


def test_each_partition_behind_the_files_has_its_watermarks(topics, tmp_path):
    """A partition that is far ahead makes no record of another one late."""
    write_lines(tmp_path / "history", range(100), files=1)
    name = topics.create(partitions=2)
    records = [{"value": str(n), "partition": 0} for n in range(1_000_000, 1_005_000)]
    records += [{"value": str(n), "partition": 1} for n in range(100, 5100)]
    topics.write(name, records)
    source = HybridSource.builder(lines_source(tmp_path / "history"))
    source.add_source(topic_source(topics, name, bounded=True))
    env = environment(parallelism=1)
    env.get_config().set_auto_watermark_interval(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(AsTimestamp())
    stream = env.from_source(source.build(), strategy, "all")
    counts = (
        stream.map(lambda text: (int(text) // 1_000_000, 1), Types.TUPLE([Types.LONG()] * 2))
        .key_by(lambda pair: pair[0], Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    with counts.execute_and_collect() as found:
        assert sum(pair[1] for pair in found) == 100 + 5000 + 5000
