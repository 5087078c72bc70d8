"""A user's own operators: life cycle, keys, timers, watermarks and snapshots."""

import pytest
from penstock.common import Types
from penstock.datastream import (
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.operators import (
    InternalTimer,
    OneInputStreamOperator,
    TwoInputStreamOperator,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import InvalidProgramError
from penstock.testing import (
    KeyedOneInputStreamOperatorTestHarness,
    KeyedTwoInputStreamOperatorTestHarness,
    OneInputStreamOperatorTestHarness,
    PipelineTestHarness,
    TwoInputStreamOperatorTestHarness,
)

LATE = OutputTag("late")


class CountUntil(OneInputStreamOperator):
    """Counts a key's records until event time has passed them by ten; late ones are side output."""

    def open(self):
        self.counts = self.get_runtime_context().get_state(
            ValueStateDescriptor("count", Types.LONG())
        )
        self.timers = self.get_internal_timer_service()

    def process_element(self, value, timestamp):
        if timestamp <= self.timers.current_watermark():
            self.output.collect_side(LATE, value, timestamp)
            return
        self.counts.update((self.counts.value() or 0) + 1)
        self.timers.register_event_time_timer("until", timestamp + 10)
        self.timers.delete_event_time_timer("until", timestamp + 9)

    def on_event_time(self, timer):
        self.output.collect((*timer, self.get_current_key(), self.counts.value()), timer.timestamp)


class Buffering(OneInputStreamOperator):
    """Stores records in operator state, and records calls."""

    def initialize_state(self, context):
        self.calls = [("initialize_state", context.is_restored())]
        self.kept = context.get_operator_state_store().get_list_state(
            ListStateDescriptor("kept", Types.LONG())
        )
        self.buffer = list(self.kept.get())

    def open(self):
        self.calls.append("open")
        clock = self.get_processing_time_service()
        clock.register_timer(5, lambda time: self.calls.append(("clock", time)))
        clock.register_timer(6, lambda time: self.calls.append(("never", time))).cancel()

    def process_element(self, value, timestamp):
        self.buffer.append(value)

    def process_watermark(self, timestamp):
        super().process_watermark(timestamp - 1)

    def prepare_snapshot_pre_barrier(self, checkpoint_id):
        self.output.collect(("before", checkpoint_id))

    def snapshot_state(self, context):
        self.kept.update(self.buffer)

    def notify_checkpoint_complete(self, checkpoint_id):
        self.calls.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.calls.append(("aborted", checkpoint_id))

    def end_input(self):
        self.calls.append("end_input")

    def finish(self):
        self.output.collect(list(self.buffer), 7)

    def close(self):
        self.calls.append("close")


class Both(TwoInputStreamOperator):
    """Adds up the numbers of both inputs by key, and emits the sums at the end of both."""

    def open(self):
        self.ended = []
        self.sums = self.get_runtime_context().get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element1(self, value, timestamp):
        self._add(value[1], timestamp)

    def process_element2(self, value, timestamp):
        self._add(-value[1], timestamp)

    def _add(self, number, timestamp):
        self.sums.update((self.sums.value() or 0) + number)
        self.output.collect((self.get_current_key(), self.sums.value()), timestamp)

    def end_input(self, input_id):
        self.ended.append(input_id)


def key_of(value):
    return value[0]


def test_keyed_state_timers_and_side_outputs_of_a_user_operator():
    with KeyedOneInputStreamOperatorTestHarness(CountUntil(), key_of) as harness:
        harness.process_element("a1", 1)
        harness.process_element("a2", 1)
        harness.process_element("b1", 2)
        assert harness.num_event_time_timers == 2
        harness.process_watermark(11)
        assert harness.records == [((*InternalTimer(11, "a", "until"), "a", 2), 11)]
        harness.process_element("c1", 3)
        assert harness.output.side_output(LATE) == [("c1", 3)]
        assert harness.output.watermarks == [11]


def test_a_user_operator_starts_with_the_state_and_timers_of_a_snapshot():
    with KeyedOneInputStreamOperatorTestHarness(CountUntil(), key_of) as harness:
        harness.process_element("a1", 1)
        snapshot = harness.snapshot(1)
    restored = KeyedOneInputStreamOperatorTestHarness(CountUntil(), key_of)
    restored.initialize_state(snapshot)
    with restored:
        restored.process_element("a2", 1)
        restored.process_watermark(11)
        assert restored.values == [(11, "a", "until", "a", 2)]


def test_the_life_cycle_of_a_user_operator():
    with OneInputStreamOperatorTestHarness(Buffering()) as harness:
        harness.process_element(1)
        harness.process_watermark(20)
        harness.process_watermark_status(idle=True)
        harness.set_processing_time(6)
        snapshot = harness.snapshot(4)
        harness.notify_checkpoint_complete(4)
        harness.notify_checkpoint_aborted(5)
        harness.end_input()
        calls = harness.operator.user_operator.calls
    assert harness.records == [(("before", 4), None), ([1], 7)]
    assert harness.output.watermarks == [19]
    assert harness.output.statuses == [True]
    assert calls == [
        *(("initialize_state", False), "open", ("clock", 5)),
        *(("complete", 4), ("aborted", 5), "end_input", "close"),
    ]
    restored = OneInputStreamOperatorTestHarness(Buffering())
    restored.initialize_state(snapshot)
    with restored:
        restored.end_input()
        assert restored.values == [[1]]


def test_only_operators_that_override_it_hear_of_complete_checkpoints():
    assert OneInputStreamOperatorTestHarness(Buffering()).operator.hears_of_completion
    counting = KeyedOneInputStreamOperatorTestHarness(CountUntil(), key_of)
    assert not counting.operator.hears_of_completion


def test_two_inputs_share_keys_and_have_the_smaller_watermark():
    with KeyedTwoInputStreamOperatorTestHarness(Both(), key_of, key_of) as harness:
        harness.process_element1(("a", 5))
        harness.process_element2(("a", 2))
        harness.process_element2(("b", 2))
        assert harness.values == [("a", 5), ("a", 3), ("b", -2)]
        harness.process_watermark1(9)
        assert harness.output.watermarks == []
        harness.process_watermark2(4)
        assert harness.output.watermarks == [4]
        harness.process_watermark_status1(idle=True)
        assert harness.output.statuses == []
        harness.process_watermark_status2(idle=True)
        assert harness.output.statuses == [True]
        harness.end_inputs()
        assert harness.operator.user_operator.ended == [1, 2]


class WithTimers(OneInputStreamOperator):
    """Requests timers when it is opened."""

    def open(self):
        self.get_internal_timer_service()

    def process_element(self, value, timestamp):
        """Drop the record."""


class WithKey(TwoInputStreamOperator):
    """Requests the key of each record."""

    def process_element1(self, value, timestamp):
        self.get_current_key()

    def process_element2(self, value, timestamp):
        """Drop the record."""


def test_timers_and_keys_need_a_keyed_input():
    with pytest.raises(InvalidProgramError, match=r"no timers of keys.*call key_by"):
        OneInputStreamOperatorTestHarness(WithTimers()).open()
    with (
        TwoInputStreamOperatorTestHarness(WithKey()) as harness,
        pytest.raises(InvalidProgramError, match="no current key, because no input is keyed"),
    ):
        harness.process_element1(1)


class KeyAtTheEnd(OneInputStreamOperator):
    """Requests a key when none is current."""

    def process_element(self, value, timestamp):
        """Drop the record."""

    def finish(self):
        self.get_current_key()


def test_a_method_without_a_key_is_named_when_it_asks_for_one():
    with KeyedOneInputStreamOperatorTestHarness(KeyAtTheEnd(), key_of) as harness:
        harness.process_element("a")
        with pytest.raises(InvalidProgramError, match=r"KeyAtTheEnd\.finish\(\)"):
            harness.end_input()


def test_services_are_missing_before_setup():
    with pytest.raises(RuntimeError, match="WithTimers has no services yet"):
        WithTimers().open()


def test_streams_are_transformed_by_user_operators():
    harness = PipelineTestHarness()
    left = harness.source("left", Types.TUPLE([Types.STRING(), Types.LONG()]))
    right = harness.source("right", Types.TUPLE([Types.STRING(), Types.LONG()]))
    summed = left.key_by(key_of).connect(right.key_by(key_of)).transform("Both", None, Both())
    counted = summed.key_by(key_of, Types.STRING()).transform("Count", None, CountUntil())
    harness.sink("sums", summed)
    harness.sink("late", counted.get_side_output(LATE))
    with harness:
        harness.process_element("left", ("a", 4), 3)
        harness.process_element("right", ("a", 1), 4)
        harness.process_watermark("left", 4)
        harness.process_watermark("right", 4)
        harness.process_element("left", ("b", 1), 2)
        assert harness.values("sums") == [("a", 4), ("a", 3), ("b", 1)]
        assert harness.values("late") == [("b", 1)]


class InOrder(OneInputStreamOperator):
    """Emits the records of a key in the order of their arrival, with event time."""

    def process_element(self, value, timestamp):
        now = self.get_internal_timer_service().current_watermark()
        self.get_internal_timer_service().register_event_time_timer(None, timestamp)
        self.output.collect((value, timestamp, now == -(2**63)))

    def on_event_time(self, timer):
        self.output.collect(("end of", timer.key))


def test_batch_execution_sorts_the_input_of_a_keyed_user_operator():
    harness = KeyedOneInputStreamOperatorTestHarness(
        InOrder(), key_of, configuration={"execution.runtime-mode": "BATCH"}
    )
    with harness:
        for value, timestamp in (("a2", 2), ("b1", 1), ("a1", 1)):
            harness.process_element(value, timestamp)
        harness.process_watermark(2**63 - 1)
    assert harness.values == [
        *(("a1", 1, True), ("a2", 2, True), ("end of", "a"), ("end of", "a")),
        *(("b1", 1, True), ("end of", "b")),
    ]


class Plain(ProcessFunction):
    """Forwards records."""

    def process_element(self, value, ctx):
        yield value


def test_transform_refuses_what_is_no_operator():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    numbers = env.from_collection([1], Types.INT())
    with pytest.raises(TypeError, match="transform takes a OneInputStreamOperator"):
        numbers.transform("none", None, Plain())
    with pytest.raises(TypeError, match="pass an instance: Buffering"):
        numbers.transform("none", None, Buffering)
    with pytest.raises(TypeError, match="transform takes a TwoInputStreamOperator"):
        numbers.connect(numbers).transform("none", None, Buffering())
