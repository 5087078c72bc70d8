"""Checkpoints in the operators' life cycle: order of hooks, contents of a snapshot (M28, M58)."""

import asyncio
from types import SimpleNamespace

import pytest
from penstock.common import Types
from penstock.connectors.split_source import Boundedness, InputStatus, PythonSource, SourceReader
from penstock.connectors.writer_sink import PythonSink, SinkWriter
from penstock.datastream.functions import (
    AsyncFunction,
    CheckpointedFunction,
    CheckpointListener,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    TumblingEventTimeWindows,
)
from penstock.graph import operators
from penstock.graph.job_graph import ChainConfig, ChainedOutput, OperatorConfig
from penstock.graph.key_groups import key_group_range
from penstock.taskexecutor.task.stream_task import StreamTask
from penstock.taskexecutor.task.task_failure import OPERATOR_ATTRIBUTE
from penstock.testing import (
    KeyedOneInputStreamOperatorTestHarness,
    OneInputStreamOperatorTestHarness,
    redistribute,
)


def itself(value):
    return value


class Recorder(MapFunction, CheckpointedFunction, CheckpointListener):
    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def initialize_state(self, context):
        self.calls.append(f"initialize {self.name}")

    def open(self, runtime_context):
        self.calls.append(f"open {self.name}")

    def map(self, value):
        return value

    def snapshot_state(self, context):
        self.calls.append(f"snapshot {self.name} {context.get_checkpoint_id()}")

    def notify_checkpoint_complete(self, checkpoint_id):
        self.calls.append(f"complete {self.name} {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.calls.append(f"aborted {self.name} {checkpoint_id}")


class RecordingSink(PythonSink):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def create_writer(self, context):
        sink = self

        class Writer(SinkWriter):
            def write(self, element, context):
                pass

            def flush(self, end_of_input):
                sink.calls.append(f"flush {end_of_input}")

        return Writer()


def chain_task(*descriptors, names):
    """Return a StreamTask of a chain that starts with a source, restored but not invoked."""
    last = len(descriptors) - 1
    chain = ChainConfig(
        tuple(
            OperatorConfig(
                id=bytes([index]) * 16,
                uid=None,
                name=name,
                descriptor=descriptor,
                chained_outputs=() if index == last else (ChainedOutput(index + 1),),
            )
            for index, (descriptor, name) in enumerate(zip(descriptors, names, strict=True))
        )
    )
    environment = SimpleNamespace(
        restored=None,
        report_checkpoint=None,
        task_name="task",
        job_id=b"",
        temp_directory=None,
        subtask=0,
        parallelism=1,
        max_parallelism=128,
        attempt_number=0,
        configuration={},
        partitions=[],
        gates=[],
        network=None,
        metrics={},
        operator_metrics={},
    )
    task = StreamTask(chain, environment)
    task.restore()
    return task


NUMBERS = operators.NumberSequenceSource(start=1, end=2)


def test_hooks_run_in_the_order_of_the_chain():
    """State is initialized and the operator opened tail to head, one after the other; a checkpoint
    calls head to tail before the barrier and tail to head for state; so do notifications.
    """
    calls = []
    task = chain_task(
        NUMBERS,
        operators.Map(Recorder("a", calls)),
        operators.Map(Recorder("b", calls)),
        operators.SinkWriter(RecordingSink(calls)),
        names=["source", "a", "b", "sink"],
    )
    assert calls == ["initialize b", "open b", "initialize a", "open a"]
    calls.clear()
    chain = task._opened_chain()
    chain.prepare_snapshot_pre_barrier(7)
    snapshots = chain.snapshot_state(7, 1000)
    chain.notify_checkpoint_complete(7)
    chain.notify_checkpoint_aborted(8)
    assert calls == [
        "flush False",
        "snapshot b 7",
        "snapshot a 7",
        "complete b 7",
        "complete a 7",
        "aborted b 8",
        "aborted a 8",
    ]
    assert list(snapshots) == [bytes(16)], "none but the source has state"
    assert {snapshot.checkpoint_id for snapshot in snapshots.values()} == {7}
    chain.close()


def test_failure_in_a_hook_names_the_operator():
    class Broken(Recorder):
        def snapshot_state(self, context):
            raise ValueError("no state")

    descriptors = [NUMBERS, operators.Map(Broken("a", [])), RECORDS]
    task = chain_task(*descriptors, names=["source", "broken", "sink"])
    chain = task._opened_chain()
    with pytest.raises(ValueError, match="no state") as caught:
        chain.snapshot_state(1, 0)
    task._name_operator(caught.value)
    assert getattr(caught.value, OPERATOR_ATTRIBUTE) == "broken"
    chain.close()


RECORDS = operators.FunctionSink(lambda _: None)


class CountAndRemind(KeyedProcessFunction):
    """Counts by key; emits the count one second of event time after each element."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
        ctx.timer_service().register_processing_time_timer(50)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.count.value()


def counting(**options):
    return KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(CountAndRemind()), itself, **options
    )


def test_keyed_state_and_timers_are_restored():
    with counting() as old:
        old.process_element("a", 1)
        old.process_element("a", 2)
        snapshot = old.snapshot(1)
        old.process_element("a", 3)  # after the snapshot, so not in it
    new = counting()
    new.initialize_state(snapshot)
    with new:
        assert (new.num_event_time_timers, new.num_processing_time_timers) == (2, 1)
        new.process_element("a", 500)
        new.process_watermark(1600)
        assert new.values == [("a", 1001, 3), ("a", 1002, 3), ("a", 1500, 3)]
        new.set_processing_time(50)
        assert new.values[3:] == [("a", 50, 3)]


def test_a_snapshot_is_independent_and_can_be_restored_twice():
    with counting() as old:
        old.process_element("a", 1)
        snapshot = old.snapshot(1)
    for _ in range(2):
        new = counting()
        new.initialize_state(snapshot)
        with new:
            new.process_element("a", 2)
            new.process_watermark(1002)
            assert new.values == [("a", 1001, 2), ("a", 1002, 2)]


@pytest.mark.parametrize("key_type", [None, Types.LONG()])
def test_key_groups_move_when_the_parallelism_changes(key_type):
    """From 2 subtasks to 3: every key is in the subtask that owns its group, once."""
    options = {"max_parallelism": 8, "key_type": key_type}
    keys = range(100)
    whole = counting(**options)
    with whole:
        for key in keys:
            whole.process_element(key, 0)
        groups = whole.snapshot(1).entries("count")
    assert len(groups) == 8
    owner = {entry[1]: group for group, entries in groups.items() for entry in entries}

    def restored(snapshots, parallelism):
        harnesses = []
        for subtask, snapshot in enumerate(redistribute(snapshots, parallelism)):
            new = counting(subtask=subtask, parallelism=parallelism, **options)
            new.initialize_state(snapshot)
            new.open()
            harnesses.append(new)
        return harnesses

    with counting(**options) as old:
        for key in keys:
            old.process_element(key, 0)
        two = restored([old.snapshot(1)], 2)
    three = restored([harness.snapshot(2) for harness in two], 3)
    for parallelism, harnesses in ((2, two), (3, three)):
        for subtask, harness in enumerate(harnesses):
            first, last = key_group_range(8, parallelism, subtask)
            harness.process_watermark(1000)
            found = {key for key, _, _ in harness.values}
            assert found == {key for key in keys if first <= owner[key] <= last}
            harness.close()


class Lists(MapFunction, CheckpointedFunction):
    """Stores its elements in a list; snapshots update the union and broadcast state."""

    def initialize_state(self, context):
        self.restored_from = context.get_restored_checkpoint_id() if context.is_restored() else None
        store = context.get_operator_state_store()
        self.seen = store.get_list_state(ListStateDescriptor("seen", Types.INT()))
        self.all = store.get_union_list_state(ListStateDescriptor("all", Types.INT()))
        rules = MapStateDescriptor("rules", Types.STRING(), Types.INT())
        self.rules = store.get_broadcast_state(rules)

    def map(self, value):
        self.seen.add(value)

    def snapshot_state(self, context):
        self.all.update([sum(self.seen.get())])
        self.rules.put("at", context.get_checkpoint_timestamp())


def lists(function, **options):
    return OneInputStreamOperatorTestHarness(operators.Map(function), **options)


def test_operator_state_is_spread_by_its_kind():
    """F12: lists are cut into blocks, each subtask gets all union lists, broadcast is copied."""
    snapshots = []
    for subtask, elements in enumerate([[1, 2, 3], [4, 5]]):
        with lists(Lists(), subtask=subtask, parallelism=2) as old:
            for element in elements:
                old.process_element(element)
            snapshots.append(old.snapshot(3, timestamp=30))
    found = []
    for subtask, snapshot in enumerate(redistribute(snapshots, 3)):
        function = Lists()
        new = lists(function, subtask=subtask, parallelism=3)
        new.initialize_state(snapshot)
        with new:
            assert function.restored_from == 3
            assert list(function.all.get()) == [6, 9]
            assert function.rules.get("at") == 30
            found.append(list(function.seen.get()))
    assert found == [[1, 2], [3, 4], [5]]


def test_lists_stay_where_they_are_with_the_old_parallelism():
    snapshots = []
    for subtask, elements in enumerate([[1, 2, 3], []]):
        with lists(Lists(), subtask=subtask, parallelism=2) as old:
            for element in elements:
                old.process_element(element)
            snapshots.append(old.snapshot(1))
    assert [s.lists["seen"] for s in redistribute(snapshots, 2)] == [[1, 2, 3], []]


def test_surplus_elements_rotate_from_state_to_state():
    """F12: the receivers of one record more are not always the first ones."""

    class Two(Lists):
        def initialize_state(self, context):
            store = context.get_operator_state_store()
            for name in ("one", "two"):
                state = store.get_list_state(ListStateDescriptor(name, Types.INT()))
                if not context.is_restored():
                    state.add_all([1, 2, 3, 4])

        def snapshot_state(self, context):
            pass

    with lists(Two()) as old:
        parts = redistribute([old.snapshot(1)], 3)
    assert [part.lists["one"] for part in parts] == [[1, 2], [3], [4]]
    assert [part.lists["two"] for part in parts] == [[4], [1, 2], [3]]


class Raw(MapFunction, CheckpointedFunction):
    """Stores bytes itself, some by key group."""

    def initialize_state(self, context):
        self.partitions = [
            provider.get_stream().read() for provider in context.get_raw_operator_state_inputs()
        ]
        self.groups = {
            provider.get_key_group_id(): provider.get_stream().read()
            for provider in context.get_raw_keyed_state_inputs()
        }

    def map(self, value):
        return value

    def snapshot_state(self, context):
        operator = context.get_raw_operator_state_output()
        operator.write(b"first")
        operator.start_new_partition()
        operator.write(b"sec")
        operator.write(b"ond")
        keyed = context.get_raw_keyed_operator_state_output()
        for group in keyed.get_key_group_list():
            keyed.start_new_key_group(group)
            keyed.write(b"group %d" % group)


def test_raw_state_is_restored_by_partition_and_key_group():
    function = Raw()
    with lists(function, max_parallelism=4) as old:
        assert (function.partitions, function.groups) == ([], {})
        snapshot = old.snapshot(1)
    found = []
    for subtask, part in enumerate(redistribute([snapshot], 2)):
        function = Raw()
        new = lists(function, subtask=subtask, parallelism=2, max_parallelism=4)
        new.initialize_state(part)
        with new:
            found.append((function.partitions, function.groups))
    assert found == [
        ([b"first"], {0: b"group 0", 1: b"group 1"}),
        ([b"second"], {2: b"group 2", 3: b"group 3"}),
    ]


@pytest.mark.parametrize(
    ("groups", "message"),
    [([], "start_new_key_group"), ([2], "0 to 1"), ([0, 0], "written before")],
)
def test_raw_keyed_state_is_refused_outside_of_the_own_key_groups(groups, message):
    class Wrong(Raw):
        def snapshot_state(self, context):
            output = context.get_raw_keyed_operator_state_output()
            for group in groups:
                output.start_new_key_group(group)
            output.write(b"x")

    with (
        lists(Wrong(), parallelism=2, max_parallelism=4) as old,
        pytest.raises(ValueError, match=message),
    ):
        old.snapshot(1)


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, context.window().end, [value for _, value in elements]


class OtherTrigger(EventTimeTrigger):
    """Forces the general window operator."""


@pytest.mark.parametrize(
    ("assigner", "trigger"),
    [
        (TumblingEventTimeWindows(10, 0), EventTimeTrigger()),
        (TumblingEventTimeWindows(10, 0), OtherTrigger()),
        (EventTimeSessionWindows(10), EventTimeTrigger()),
    ],
    ids=["tumbling", "general", "session"],
)
def test_windows_are_restored(assigner, trigger):
    def windows():
        arguments = {
            "assigner": assigner,
            "trigger": trigger,
            "evictor": None,
            "lateness_ms": 0,
            "late_tag": None,
            "function_kind": "process",
            "state_descriptor": ListStateDescriptor("contents", Types.PICKLED_BYTE_ARRAY()),
        }
        return KeyedOneInputStreamOperatorTestHarness(
            operators.Window(Show(), **arguments), lambda value: value[0]
        )

    with windows() as old:
        old.process_element(("a", 1), 1)
        snapshot = old.snapshot(1)
    new = windows()
    new.initialize_state(snapshot)
    with new:
        new.process_element(("a", 2), 3)
        new.process_watermark(100)
        start, end = (1, 13) if isinstance(assigner, EventTimeSessionWindows) else (0, 10)
        assert new.values == [("a", start, end, [1, 2])]


class Echo(AsyncFunction):
    """Returns a record once it is released."""

    def __init__(self):
        self.may_answer = asyncio.Event()

    async def async_invoke(self, value):
        await self.may_answer.wait()
        return [value]


def test_calls_under_way_are_made_again():
    """The state of an asynchronous operator includes elements whose results have not left."""

    def waiting(function):
        arguments = {"timeout_ms": 0, "capacity": 4, "ordered": True}
        return OneInputStreamOperatorTestHarness(operators.AsyncWait(function, **arguments))

    with waiting(Echo()) as old:
        old.process_element("a", 1)
        old.process_element("b", 2)
        snapshot = old.snapshot(1)
    ready = Echo()
    ready.may_answer.set()
    new = waiting(ready)
    new.initialize_state(snapshot)
    with new:
        new.end_input()
        assert [(record.value, record.timestamp) for record in new.records] == [("a", 1), ("b", 2)]


class Reader(SourceReader):
    def __init__(self, log):
        self.log = log

    def start(self):
        self.log.append("start")

    def poll_next(self, output):
        return InputStatus.NOTHING_AVAILABLE

    def add_splits(self, splits):
        self.log.append(splits)

    def notify_no_more_splits(self):
        pass

    def snapshot_state(self, checkpoint_id):
        return ["half a split"]

    def notify_checkpoint_complete(self, checkpoint_id):
        self.log.append(f"complete {checkpoint_id}")


class Splits(PythonSource):
    def __init__(self, log):
        super().__init__()
        self.log = log

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context):
        raise AssertionError("not asked for")

    def create_reader(self, reader_context):
        return Reader(self.log)


def test_splits_that_are_being_read_are_restored():
    """D9: the reader's splits with their positions are operator list state."""
    log = []
    with OneInputStreamOperatorTestHarness(operators.SplitSource(Splits(log))) as old:
        snapshot = old.snapshot(1)
        old.notify_checkpoint_complete(1)
    assert log == ["start", "complete 1"]
    log.clear()
    new = OneInputStreamOperatorTestHarness(operators.SplitSource(Splits(log)))
    new.initialize_state(snapshot)
    with new:
        assert log == [["half a split"], "start"]
