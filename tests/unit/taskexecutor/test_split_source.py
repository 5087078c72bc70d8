"""The watermark of a reader of several splits."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from penstock.common import Duration, SimpleStringSchema, WatermarkStrategy
from penstock.common.watermark_generator import WatermarkGenerator
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.connectors.kafka.partitions import KafkaPartitionSplit
from penstock.connectors.split_source import (
    Boundedness,
    InputStatus,
    PythonSource,
    SourceReader,
    SourceSplit,
)
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from penstock.graph import operators
from penstock.rpc.messages import AddSplits, WatermarkAlignment
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.compiled import MORE_AVAILABLE, NOTHING_AVAILABLE
from penstock.taskexecutor.sources.split_outputs import ReaderOutputs
from penstock.testing import OneInputStreamOperatorTestHarness
from penstock.testing.test_output import TestOutput

pytestmark = pytest.mark.usefixtures("unhurried_sources")


class Itself(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


def outputs(strategy, clock=lambda: 0.0):
    output = TestOutput()
    context = SimpleNamespace(is_batch=False, input_clock=clock)
    return ReaderOutputs(context, strategy, output), output


def test_the_slowest_split_decides_the_watermark():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3))
    reader, found = outputs(strategy)
    a, b = reader.create_output_for_split("a"), reader.create_output_for_split("b")
    assert reader.create_output_for_split("a") is a
    a.collect("x", 100)
    b.collect("y", 50)
    reader.on_interval()
    assert found.watermarks == [46]
    b.mark_idle()
    assert found.watermarks == [46, 96]
    b.collect("z", 60)
    reader.on_interval()
    assert found.watermarks == [46, 96]
    reader.release_output_for_split("b")
    a.collect("x", 200)
    reader.on_interval()
    assert found.watermarks == [46, 96, 196]
    assert [(r.value, r.timestamp) for r in found.records] == [
        ("x", 100),
        ("y", 50),
        ("z", 60),
        ("x", 200),
    ]


@pytest.mark.parametrize("assigner", [None, Itself()])
def test_records_of_one_timestamp_at_once(assigner):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3))
    if assigner is not None:
        strategy = strategy.with_timestamp_assigner(assigner)
    output = TestOutput()
    harness_context = SimpleNamespace(
        is_batch=False,
        input_clock=lambda: 0.0,
        evaluation=SimpleNamespace(without_call=lambda function, *_: function),
        timestamped_type=None,
        runtime_context=None,
    )
    reader = ReaderOutputs(harness_context, strategy, output)
    split = reader.create_output_for_split("a")
    split.mark_idle()
    split.collect_all([], 7)
    assert reader.is_idle
    split.collect_all([5, 90, 20], 100)
    assert not reader.is_idle
    reader.on_interval()
    assert [(r.value, r.timestamp) for r in output.records] == (
        [(5, 100), (90, 100), (20, 100)] if assigner is None else [(5, 5), (90, 90), (20, 20)]
    )
    assert output.watermarks == [96 if assigner is None else 86]


def test_a_generator_of_the_users_own_sees_each_of_many_records():
    class Counting(WatermarkGenerator):
        def on_event(self, event, event_timestamp, output):
            output.emit_watermark(event)

        def on_periodic_emit(self, output):
            pass

    reader, found = outputs(WatermarkStrategy.for_generator(Counting))
    reader.create_output_for_split("a").collect_all([1, 2, 3])
    assert found.watermarks == [1, 2, 3]
    reader.collect_all([4])
    assert [r.value for r in found.records] == [1, 2, 3, 4]


def each_element():
    """Return a strategy that emits a watermark after each record."""

    class AtOnce(WatermarkGenerator):
        def on_event(self, event, event_timestamp, output):
            output.emit_watermark(event_timestamp)

        def on_periodic_emit(self, output):
            pass

    return WatermarkStrategy.for_generator(AtOnce)


def test_the_end_of_the_slowest_split_counts_from_the_next_interval_on():
    reader, found = outputs(each_element())
    a, b = reader.create_output_for_split("a"), reader.create_output_for_split("b")
    a.collect("x", 10)
    b.collect("y", 1000)
    reader.release_output_for_split("a")
    assert found.watermarks == [10]
    reader.on_interval()
    assert found.watermarks == [10, 1000]


def test_the_split_that_replaces_the_slowest_holds_the_watermark_back():
    reader, found = outputs(each_element())
    a, b = reader.create_output_for_split("a"), reader.create_output_for_split("b")
    a.collect("x", 10)
    b.collect("y", 1000)
    reader.release_output_for_split("a")
    c = reader.create_output_for_split("c")
    reader.on_interval()
    assert found.watermarks == [10]
    c.collect("z", 50)
    assert found.watermarks == [10, 50]


def test_the_end_of_a_split_emits_nothing_of_its_own_either():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3))
    reader, found = outputs(strategy)
    reader.create_output_for_split("a").collect("x", 10)
    reader.create_output_for_split("b").collect("y", 1000)
    reader.release_output_for_split("a")
    reader.create_output_for_split("c").collect("z", 5)
    reader.on_interval()
    assert found.watermarks == [1]


def test_event_time_reaches_the_end_of_the_last_split():
    """The reader has no split until more are found, which may never happen."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3))
    reader, found = outputs(strategy)
    reader.create_output_for_split("a").collect("x", 10)
    reader.create_output_for_split("b").collect("y", 1000)
    reader.release_output_for_split("b")
    reader.release_output_for_split("a")
    assert found.watermarks == []
    reader.on_interval()
    reader.on_interval()
    assert found.watermarks == [996]


def test_splits_do_not_hold_back_a_reader_that_emits_as_a_whole():
    """For example, a reader that gets splits and does not name them when it emits."""
    reader, found = outputs(each_element())
    reader.create_output_for_split("a")
    reader.collect("x", 10)
    assert found.watermarks == [10]
    reader.mark_idle()
    assert not reader.is_idle  # the split is not


def test_watermarks_that_the_reader_emits_itself_count():
    reader, found = outputs(None)
    reader.emit_watermark(5)
    reader.emit_watermark(4)
    reader.collect("x")
    reader.mark_idle()
    reader.mark_active()
    reader.emit_watermark(9)
    assert found.watermarks == [5, 9]
    assert reader.watermark == 9
    assert not reader.is_idle


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


def idle_after_a_second():
    return WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(1))


def test_an_idle_split_does_not_hold_event_time_back_until_it_continues():
    clock = Clock()
    reader, found = outputs(idle_after_a_second(), clock)
    busy, quiet = reader.create_output_for_split("busy"), reader.create_output_for_split("quiet")
    for clock.now_s in (0.5, 1.0):
        busy.collect("x", 100)
        reader.on_interval()
    assert found.watermarks == [99]
    assert not reader.is_idle
    clock.now_s = 2.0
    reader.on_interval()
    assert reader.is_idle
    quiet.collect("y", 150)
    reader.on_interval()
    assert not reader.is_idle
    assert found.watermarks == [99, 149]


@pytest.mark.parametrize("names", [("busy", "quiet"), ("quiet", "busy")])
def test_splits_that_become_idle_together_emit_the_watermark_reached(names):
    """A split without records no longer counts when the others fall silent."""
    clock = Clock()
    reader, found = outputs(idle_after_a_second(), clock)
    splits = {name: reader.create_output_for_split(name) for name in names}
    splits["busy"].collect("x", 100)
    reader.on_interval()
    clock.now_s = 1.0
    reader.on_interval()
    assert found.watermarks == [99]
    assert reader.is_idle


def test_a_reader_without_splits_becomes_idle_until_it_gets_one():
    """A subtask of a source with fewer splits than subtasks must not hold up event time."""
    clock = Clock()
    reader, found = outputs(idle_after_a_second(), clock)
    clock.now_s = 0.9
    reader.on_interval()
    assert not reader.is_idle
    clock.now_s = 1.0
    reader.on_interval()
    assert reader.is_idle
    assert found.statuses == [True]
    reader.create_output_for_split("late")
    assert found.statuses == [True, False]
    reader.release_output_for_split("late")
    clock.now_s = 3.0
    reader.on_interval()
    assert found.statuses == [True, False, True]


def test_a_split_that_waits_for_others_does_not_become_idle():
    """D10: an idle split would let event time pass the elements that it may not emit yet."""
    clock = Clock()
    reader, found = outputs(idle_after_a_second(), clock)
    ahead, behind = reader.create_output_for_split("ahead"), reader.create_output_for_split("b")
    ahead.collect("x", 100)
    behind.collect("y", 10)
    reader.on_interval()
    for clock.now_s in (2.0, 4.0):
        behind.collect("y", 200)
        reader.on_interval(held=["ahead"])
    assert found.watermarks == [9, 99]
    clock.now_s = 6.0
    reader.on_interval(is_held=True)
    assert not reader.is_idle
    assert found.watermarks == [9, 99]
    clock.now_s = 8.0
    reader.on_interval()  # it had no chance for all of that time
    clock.now_s = 9.0
    behind.collect("y", 201)
    reader.on_interval()
    assert found.watermarks == [9, 99, 199, 200]


def test_a_source_that_waits_for_its_group_does_not_become_idle():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(
        "group", Duration.of_millis(10), Duration.of_millis(5)
    )
    strategy = strategy.with_idleness(Duration.of_millis(500)).with_timestamp_assigner(Itself())
    descriptor = operators.NumberSequenceSource(start=0, end=200, watermark_strategy=strategy)
    with OneInputStreamOperatorTestHarness(descriptor, coordinator=lambda message: None) as test:
        test.operator.emit_next(10)
        set_limit(test, 0)
        for now_ms in range(200, 3000, 200):
            test.set_processing_time(now_ms)
        assert True not in test.output.statuses
        set_limit(test, 1000)
        for now_ms in range(3000, 4000, 200):
            test.set_processing_time(now_ms)
        assert test.output.statuses == [True]


def test_any_source_waits_when_it_is_ahead_of_its_group():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(
        "group", Duration.of_millis(10), Duration.of_millis(5)
    )
    strategy.with_timestamp_assigner(Itself())
    arguments = {"start": 0, "end": 200, "watermark_strategy": strategy}
    sent = []
    descriptor = operators.NumberSequenceSource(**arguments)
    with OneInputStreamOperatorTestHarness(descriptor, coordinator=sent.append) as test:
        assert test.operator.emit_next(1000) == MORE_AVAILABLE
        assert test.values == list(range(64))
        test.set_processing_time(200)
        test.set_processing_time(205)
        assert {type(message).__name__ for message in sent} == {"ReportedWatermark"}
        assert [message.watermark for message in sent][-1] == 62
        limit = WatermarkAlignment(bytes(40), bytes(16), 61)
        test.operator.handle_operator_event(limit)
        assert test.operator.emit_next(1000) == NOTHING_AVAILABLE
        test.operator.handle_operator_event(WatermarkAlignment(bytes(40), bytes(16), 62))
        assert test.operator.emit_next(1000) == MORE_AVAILABLE
        assert test.values == list(range(128))
        test.set_processing_time(400)
        assert test.operator.emit_next(1000) == NOTHING_AVAILABLE
        test.operator.cancel()
        assert test.operator.emit_next(1000) != NOTHING_AVAILABLE
        test.operator.finish()
        assert sent[-1].watermark == 2**63 - 1


class TwoSplits(SourceReader):
    """Emits the next number of each unpaused split, in turn."""

    def __init__(self):
        self.next = {"slow": 0, "fast": 1000}
        self.paused = set()
        self.calls = []

    def poll_next(self, output):
        for split in self.next:
            if split not in self.paused:
                output.create_output_for_split(split).collect(self.next[split])
                self.next[split] += 1
        return InputStatus.MORE_AVAILABLE

    def add_splits(self, splits):
        pass

    def notify_no_more_splits(self):
        pass


class PausableSplits(TwoSplits):
    def pause_or_resume_splits(self, splits_to_pause, splits_to_resume):
        self.calls.append((splits_to_pause, splits_to_resume))
        self.paused |= set(splits_to_pause)
        self.paused -= set(splits_to_resume)


class SourceOf(PythonSource):
    def __init__(self, reader):
        super().__init__()
        self.reader = reader

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context):
        raise AssertionError("not asked for")

    def create_reader(self, reader_context):
        return self.reader


def aligned(reader, **configuration):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(
        "group", Duration.of_millis(10), Duration.of_millis(5)
    )
    strategy.with_timestamp_assigner(Itself())
    descriptor = operators.SplitSource(SourceOf(reader), watermark_strategy=strategy)
    return OneInputStreamOperatorTestHarness(descriptor, configuration=configuration)


def set_limit(test, limit):
    test.operator.handle_operator_event(WatermarkAlignment(bytes(40), bytes(16), limit))


def test_only_the_splits_that_are_ahead_are_paused():
    """D10: the slow split of a reader continues while the fast one waits for its group."""
    reader = PausableSplits()
    with aligned(reader) as test:
        set_limit(test, 500)
        test.operator.emit_next(2)
        test.set_processing_time(200)  # the generators emit: 0 and 1000
        assert reader.calls == [(["fast"], [])]
        test.operator.emit_next(3)
        assert test.values == [0, 1000, 1, 1001, 2, 3, 4]
        set_limit(test, 2000)
        assert reader.calls == [(["fast"], []), ([], ["fast"])]
        test.operator.emit_next(1)
        assert test.values[-2:] == [5, 1002]


def test_a_single_split_makes_its_reader_wait():
    reader = PausableSplits()
    del reader.next["slow"]
    with aligned(reader) as test:
        set_limit(test, 500)
        test.operator.emit_next(2)
        test.set_processing_time(200)
        assert reader.calls == []
        assert test.operator.emit_next(1) == NOTHING_AVAILABLE


def test_a_reader_that_cannot_pause_splits_fails_unless_it_may_go_unaligned():
    with aligned(TwoSplits()) as test:
        set_limit(test, 500)
        test.operator.emit_next(2)
        with pytest.raises(NotImplementedError, match=r"pause_or_resume_splits: \['fast'\]"):
            test.set_processing_time(200)
    option = "pipeline.watermark-alignment.allow-unaligned-source-splits"
    with aligned(TwoSplits(), **{option: "true"}) as test:
        set_limit(test, 500)
        test.operator.emit_next(2)
        test.set_processing_time(200)
        assert test.operator.emit_next(1) == MORE_AVAILABLE
        assert test.values[-2:] == [2, 1002]


@dataclass
class Part(SourceSplit):
    name: str

    def split_id(self):
        return self.name


class Parts(SourceReader):
    """Emits records as the test says, to the outputs of splits."""

    def __init__(self):
        self.to_emit = []
        self.splits = []

    def poll_next(self, output):
        if not self.to_emit:
            return InputStatus.NOTHING_AVAILABLE
        split, number = self.to_emit.pop(0)
        output.create_output_for_split(split).collect(number, number)
        return InputStatus.MORE_AVAILABLE

    def add_splits(self, splits):
        self.splits += splits

    def notify_no_more_splits(self):
        pass

    def snapshot_state(self, checkpoint_id):
        return self.splits


def source_of_parts(reader):
    descriptor = operators.SplitSource(SourceOf(reader), watermark_strategy=each_element())
    return OneInputStreamOperatorTestHarness(descriptor)


def assign(test, *splits):
    serializer = TypeSerializer()
    written = tuple(map(serializer.serialize, splits))
    test.operator.handle_operator_event(AddSplits(bytes(40), bytes(16), written))


def emit(test, reader, *elements):
    reader.to_emit += elements
    while test.operator.emit_next(100) == MORE_AVAILABLE:
        pass


def test_a_split_holds_the_watermark_back_from_its_assignment_on():
    reader = Parts()
    with source_of_parts(reader) as test:
        assign(test, Part("one"), Part("two"))
        emit(test, reader, ("one", 300))
        assert test.output.watermarks == []
        emit(test, reader, ("two", 150), ("two", 400))
        assert test.output.watermarks == [150, 300]
        assign(test, Part("three"))
        emit(test, reader, ("one", 500))
        assert test.output.watermarks == [150, 300]
        snapshot = test.snapshot(1)
    restored = Parts()
    again = source_of_parts(restored)
    again.initialize_state(snapshot)
    with again as test:
        emit(test, restored, ("one", 600), ("two", 700))
        assert test.output.watermarks == []
        emit(test, restored, ("three", 650))
        assert test.output.watermarks == [600]


def test_data_that_names_no_split_has_no_output():
    """A reader may get any splits, and emit without naming one."""
    reader = Parts()
    with source_of_parts(reader) as test:
        assign(test, "anything")
        assert reader.splits == ["anything"]
        emit(test, reader, ("one", 300))
        assert test.output.watermarks == [300]


def test_an_empty_partition_holds_nothing_back():
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:1")
        .set_topics("t")
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    descriptor = operators.SplitSource(source, watermark_strategy=each_element())
    with OneInputStreamOperatorTestHarness(descriptor) as test:
        assign(test, KafkaPartitionSplit("t", 0, 7, 7))
        assert test.operator.outputs.multiplexer.watermarks() == {"t-0": -(2**63)}
        assert test.operator.emit_next(1) == NOTHING_AVAILABLE
        assert test.operator.outputs.multiplexer.watermarks() == {}
