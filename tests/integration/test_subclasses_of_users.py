"""Subclasses of a user's module work as the guide documents them.

Method: each runs in a small job, in this process.
"""

import json

import pytest
from penstock.common import JobListener, Time, Types, WatermarkStrategy
from penstock.common.serialization import (
    BulkWriter,
    BulkWriterFactory,
    DeserializationSchema,
    Encoder,
)
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    KeySelector,
    MapPartitionFunction,
    OutputSelector,
    Partitioner,
    SourceFunction,
    TimeWindow,
    Trigger,
    TriggerResult,
    WindowAssigner,
    WindowFunction,
)
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    StreamFormat,
)
from penstock.datastream.operators import OneInputStreamOperator, TwoInputStreamOperator
from penstock.datastream.state import ReducingStateDescriptor
from penstock.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    SessionWindowTimeGapExtractor,
    TimeWindowSerializer,
)
from support.environments import in_process

#: Names and times in ms.
EVENTS = [("a", 10_000_000_001), ("bb", 10_000_000_002), ("a", 10_000_000_103)]


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Ascending(WatermarkGenerator):
    def on_event(self, event, timestamp, output):
        output.emit_watermark(timestamp - 1)

    def on_periodic_emit(self, output):
        pass


class ByName(KeySelector):
    def get_key(self, value):
        return value[0]


class ByLength(Partitioner):
    def partition(self, key, num_partitions):
        return len(key) % num_partitions


class Hundreds(WindowAssigner):
    def assign_windows(self, element, timestamp, context):
        start = timestamp - timestamp % 100
        return [TimeWindow(start, start + 100)]

    def get_default_trigger(self, env):
        return EventTimeTrigger()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


class First(Trigger):
    """Fires for the first record of each window."""

    def __init__(self):
        self._seen = ReducingStateDescriptor("seen", max, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        seen = ctx.get_partitioned_state(self._seen)
        if seen.get() is not None:
            return TriggerResult.CONTINUE
        seen.add(1)
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self._seen).clear()


class OnlyLast(Evictor):
    def evict_before(self, elements, window, watermark):
        return elements[-1:]

    def evict_after(self, elements, window, watermark):
        return elements


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 10 * len(element[0])


class Numbers(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, [value[1] % 1000 for value in inputs]


class Same(AsyncFunction):
    def __init__(self):
        self._calls = 0

    async def async_invoke(self, value):
        self._calls += 1
        if self._calls == 1:
            raise ConnectionError
        return [value]


class OfErrors(AsyncRetryPredicate):
    def result_predicate(self):
        return lambda results: False

    def exception_predicate(self):
        return lambda error: isinstance(error, ConnectionError)


class Twice(AsyncRetryStrategy):
    def can_retry(self, current_attempts):
        return current_attempts < 2

    def get_backoff_time_millis(self, current_attempts):
        return 1

    def get_retry_predicate(self):
        return OfErrors()


class Count(MapPartitionFunction):
    def map_partition(self, values):
        yield len(list(values))


class OfLength(OutputSelector):
    def select(self, value):
        return [str(len(value[0]))]


class Pass(OneInputStreamOperator):
    def process_element(self, value, timestamp):
        self.output.collect(value, timestamp)


class PassBoth(TwoInputStreamOperator):
    def process_element1(self, value, timestamp):
        self.output.collect(value, timestamp)

    def process_element2(self, value, timestamp):
        pass


class Three(SourceFunction):
    def run(self, ctx):
        for number in range(3):
            ctx.collect(number)

    def cancel(self):
        pass


def timed(env):
    strategy = WatermarkStrategy.for_generator(Ascending).with_timestamp_assigner(At())
    return env.from_collection(EVENTS).assign_timestamps_and_watermarks(strategy)


def windows(env, assigner=None):
    return timed(env).key_by(ByName()).window(assigner or Hundreds())


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda env: windows(env).apply(Numbers()), [("a", [1]), ("a", [103]), ("bb", [2])]),
        (
            lambda env: windows(env).trigger(First()).evictor(OnlyLast()).apply(Numbers()),
            [("a", [1]), ("a", [103]), ("bb", [2])],
        ),
        (
            lambda env: windows(env, EventTimeSessionWindows.with_dynamic_gap(Gap())).apply(
                Numbers()
            ),
            [("a", [1]), ("a", [103]), ("bb", [2])],
        ),
        (lambda env: timed(env).partition_custom(ByLength(), ByName()).map(len), [2, 2, 2]),
        (
            lambda env: AsyncDataStream.unordered_wait_with_retry(
                timed(env), Same(), Time.seconds(60), Twice()
            ),
            EVENTS,
        ),
        (lambda env: timed(env).full_window_partition().map_partition(Count()), [3]),
        (lambda env: timed(env).split(OfLength()).select("2"), [EVENTS[1]]),
        (lambda env: timed(env).transform("pass", None, Pass()), EVENTS),
        (lambda env: timed(env).connect(timed(env)).transform("pass", None, PassBoth()), EVENTS),
        (lambda env: env.add_source(Three()), [0, 1, 2]),
    ],
    ids=[
        "windows", "trigger and evictor", "gaps", "partitioner", "retries", "partitions",
        "selector", "operator", "operator of two inputs", "source",
    ],
)  # fmt: skip
def test_a_subclass_is_called_as_documented(build, expected):
    with build(in_process(1)).execute_and_collect() as found:
        assert sorted(found) == sorted(expected)


class Lines(Encoder):
    def __init__(self):
        super().__init__("utf-8")

    def encode(self, element):
        return json.dumps(element).encode() + b"\n"


class LinesOfFile(BulkWriter):
    def __init__(self, file):
        self._file = file

    def add_element(self, element):
        self._file.write(json.dumps(element).encode() + b"\n")

    def flush(self):
        pass

    def finish(self):
        pass


class WritersOfLines(BulkWriterFactory):
    def create(self, file):
        return LinesOfFile(file)


class FromLines(DeserializationSchema):
    def deserialize(self, message):
        return tuple(json.loads(message))


class OfName(BucketAssigner):
    def get_bucket_id(self, element, processing_time_ms):
        return f"name={element[0]}"


class Told(JobListener):
    def __init__(self):
        super().__init__()
        self.told = []

    def on_job_submitted(self, job_client, error):
        self.told.append(("submitted", error))

    def on_job_executed(self, job_execution_result, error):
        self.told.append(("executed", error))


@pytest.mark.parametrize("kind", ["row", "bulk"])
def test_files_are_written_and_read_by_subclasses(kind, tmp_path):
    folder, listener = str(tmp_path), Told()
    if kind == "row":
        builder = FileSink.for_row_format(folder, Lines())
    else:
        builder = FileSink.for_bulk_format(folder, WritersOfLines())
    env = in_process(1)
    env.register_job_listener(listener)
    timed(env).sink_to(builder.with_bucket_assigner(OfName()).build())
    env.execute()
    assert listener.told == [("submitted", None), ("executed", None)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["name=a", "name=bb"]
    lines = StreamFormat.line_format(FromLines())
    source = FileSource.for_record_stream_format(lines, folder).build()
    stream = in_process(1).from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    with stream.execute_and_collect() as found:
        assert sorted(found) == sorted(EVENTS)
