"""Operators one by one: functions, state, timers, side outputs, two inputs, async, batch."""

import pytest
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream.functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedMultipleInputProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ReduceFunction,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.errors import InvalidProgramError, SerializationError
from penstock.graph import operators
from penstock.taskexecutor.task.blame import blamed_position
from penstock.testing import (
    KeyedOneInputStreamOperatorTestHarness,
    KeyedTwoInputStreamOperatorTestHarness,
    MultipleInputStreamOperatorTestHarness,
    OneInputStreamOperatorTestHarness,
    ProcessFunctionTestHarnesses,
)

MAX_WATERMARK = 2**63 - 1
BATCH = {"execution.runtime-mode": "BATCH"}


def first(value):
    return value[0]


class TimestampOfValue(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


def test_map_flat_map_filter_keep_timestamps():
    for descriptor, value, expected in (
        (operators.Map(lambda v: v + 1), 2, [(3, 7)]),
        (operators.FlatMap(lambda v: (v, v)), 2, [(2, 7), (2, 7)]),
        (operators.Filter(lambda v: v > 2), 2, []),
        (operators.Project((1, 0)), (4, 5), [((5, 4), 7)]),
    ):
        with OneInputStreamOperatorTestHarness(descriptor) as test:
            test.process_element(value, 7)
            assert test.records == expected


def test_failing_function_is_found_by_its_operator():
    with OneInputStreamOperatorTestHarness(operators.Map(lambda v: 1 / v)) as test:
        with pytest.raises(ZeroDivisionError) as failure:
            test.process_element(0)
        assert blamed_position(failure.value, [test.operator]) == 0


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("sum", [("a", 3, 1), ("a", 4, 1), ("a", 9, 1)]),
        ("min", [("a", 3, 1), ("a", 1, 1), ("a", 1, 1)]),
        ("max", [("a", 3, 1), ("a", 3, 1), ("a", 5, 1)]),
        ("min_by", [("a", 3, 1), ("a", 1, 2), ("a", 1, 2)]),
        ("max_by", [("a", 3, 1), ("a", 3, 1), ("a", 5, 3)]),
    ],
)
def test_built_in_aggregations_run(operation, expected):
    descriptor = operators.AggregateField(operation=operation, position=1)
    with KeyedOneInputStreamOperatorTestHarness(descriptor, first) as test:
        for value in (("a", 3, 1), ("a", 1, 2), ("a", 5, 3)):
            test.process_element(value)
        assert test.values == expected


@pytest.mark.parametrize("operation", ["sum", "min", "max"])
@pytest.mark.parametrize("position", [1, "b", -1])
@pytest.mark.parametrize("value", [3, "text", {"a": 1}])
def test_types_without_fields_have_only_position_0(operation, position, value):
    descriptor = operators.AggregateField(operation=operation, position=position)
    with KeyedOneInputStreamOperatorTestHarness(descriptor, lambda _: 0) as test:
        test.process_element(value)
        with pytest.raises(InvalidProgramError, match="no field"):
            test.process_element(value)


def test_positions_count_from_the_end_too():
    descriptor = operators.AggregateField(operation="sum", position=-1)
    with KeyedOneInputStreamOperatorTestHarness(descriptor, first) as test:
        test.process_element(("a", 3, 1))
        test.process_element(("a", 1, 2))
        assert test.values == [("a", 3, 1), ("a", 3, 3)]


def test_reduce_is_final_only_in_batch():
    descriptor = operators.Reduce(lambda a, b: (a[0], a[1] + b[1]))
    elements = (("a", 1), ("b", 2), ("a", 3))
    with KeyedOneInputStreamOperatorTestHarness(descriptor, first) as test:
        for value in elements:
            test.process_element(value)
        assert test.values == [("a", 1), ("b", 2), ("a", 4)]
    with KeyedOneInputStreamOperatorTestHarness(descriptor, first, configuration=BATCH) as test:
        for value in elements:
            test.process_element(value)
        assert test.values == []
        test.process_watermark(MAX_WATERMARK)
        assert test.values == [("a", 4), ("b", 2)]


@pytest.mark.parametrize("configuration", [None, BATCH])
def test_a_reduce_function_has_state_of_its_own_for_each_key(configuration):
    """The function counts its calls: each key has its own number."""

    class Counting(ReduceFunction):
        def open(self, runtime_context):
            self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.INT()))

        def reduce(self, value1, value2):
            self.calls.update((self.calls.value() or 0) + 1)
            return value1[0], self.calls.value()

    settings = {} if configuration is None else {"configuration": configuration}
    descriptor = operators.Reduce(Counting())
    with KeyedOneInputStreamOperatorTestHarness(descriptor, first, **settings) as test:
        for value in (("a", 7), ("b", 8), ("a", 7), ("b", 8), ("a", 7)):
            test.process_element(value)
        test.process_watermark(MAX_WATERMARK)
        assert test.values[-2:] == ([("b", 1), ("a", 2)] if not settings else [("a", 2), ("b", 1)])


def test_keyed_process_function_has_state_timers_and_side_outputs():
    tag = OutputTag("odd", Types.INT())

    class Sum(KeyedProcessFunction):
        def open(self, runtime_context):
            self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.INT()))

        def process_element(self, value, ctx):
            self.sum.update((self.sum.value() or 0) + value[1])
            ctx.timer_service().register_event_time_timer(10)
            if value[1] % 2:
                yield tag, value[1]

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), self.sum.value(), ctx.time_domain().name

    test = ProcessFunctionTestHarnesses.for_keyed_process_function(Sum(), first)
    with test:
        for value in (("a", 1), ("b", 2), ("a", 3)):
            test.process_element(value, 1)
        test.process_watermark(10)
        assert test.records == [(("a", 4, "EVENT_TIME"), 10), (("b", 2, "EVENT_TIME"), 10)]
        assert test.output.side_output(tag) == [(1, 1), (3, 1)]


def test_timers_need_keys():
    class Timed(ProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(1)

    with (
        ProcessFunctionTestHarnesses.for_process_function(Timed()) as test,
        pytest.raises(InvalidProgramError, match="key_by"),
    ):
        test.process_element(1)


def test_state_refuses_values_of_another_type():
    class Wrong(KeyedProcessFunction):
        def open(self, runtime_context):
            self.value = runtime_context.get_state(ValueStateDescriptor("v", Types.INT()))

        def process_element(self, value, ctx):
            self.value.update(value)

    with ProcessFunctionTestHarnesses.for_keyed_process_function(Wrong(), lambda v: 0) as test:
        test.process_element(1)
        for value in ("text", 2**31, 1.5):
            with pytest.raises(SerializationError, match="'v'"):
                test.process_element(value)


def test_state_with_time_to_live_expires():
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).build()

    class Remember(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptors = (
                ValueStateDescriptor("v", Types.INT()),
                ListStateDescriptor("l", Types.INT()),
                MapStateDescriptor("m", Types.INT(), Types.INT()),
            )
            for descriptor in descriptors:
                descriptor.enable_time_to_live(ttl)
            self.v = runtime_context.get_state(descriptors[0])
            self.l = runtime_context.get_list_state(descriptors[1])
            self.m = runtime_context.get_map_state(descriptors[2])

        def process_element(self, value, ctx):
            yield self.v.value(), list(self.l.get()), sorted(self.m.keys())
            self.v.update(value)
            self.l.add(value)
            self.m.put(value, value)

    with ProcessFunctionTestHarnesses.for_keyed_process_function(Remember(), lambda v: 0) as test:
        for time_ms, value in ((0, 1), (60, 2), (120, 3), (300, 4)):
            test.set_processing_time(time_ms)
            test.process_element(value)
        assert test.values == [(None, [], []), (1, [1], [1]), (2, [2], [2]), (None, [], [])]


def test_two_inputs_share_the_smaller_watermark():
    class Timed(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value)

        def process_element2(self, value, ctx):
            yield value

        def on_timer(self, timestamp, ctx):
            yield timestamp, ctx.timer_service().current_watermark()

    test = ProcessFunctionTestHarnesses.for_keyed_co_process_function(
        Timed(), lambda v: 0, lambda v: 0
    )
    with test:
        test.process_element1(10)
        test.process_watermark1(100)
        assert test.values == []
        test.process_watermark2(50)
        assert test.values == [(10, 50)]
        assert test.output.watermarks == [50]
        test.process_watermark_status2(idle=True)
        assert test.output.watermarks == [50, 100]
        assert test.output.statuses == []


def test_broadcast_state_is_read_only_on_the_other_side():
    descriptor = MapStateDescriptor("m", Types.STRING(), Types.INT())

    class Scale(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            view = ctx.get_broadcast_state(descriptor)
            assert not hasattr(view, "put")
            yield value * view["factor"]

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(descriptor).put("factor", value)

    with ProcessFunctionTestHarnesses.for_broadcast_process_function(Scale()) as test:
        test.process_element2(10)
        test.process_element1(3)
        assert test.values == [30]


@pytest.mark.parametrize("kind", [BroadcastProcessFunction, KeyedBroadcastProcessFunction])
def test_records_without_a_key_have_time_but_no_timers(kind):
    """As in PyFlink, both sides have a timer service; a timer of a broadcast element has no key."""

    def set_timer(value, ctx):
        if value == "timer":
            ctx.timer_service().register_event_time_timer(5)
        yield ctx.timer_service().current_watermark()

    class Timed(kind):
        def process_element(self, value, ctx):
            return set_timer(value, ctx)

        def process_broadcast_element(self, value, ctx):
            return set_timer(value, ctx)

    is_keyed = kind is KeyedBroadcastProcessFunction
    harnesses = ProcessFunctionTestHarnesses
    with (
        harnesses.for_keyed_broadcast_process_function(Timed(), lambda value: 0)
        if is_keyed
        else harnesses.for_broadcast_process_function(Timed())
    ) as test:
        test.process_both_watermarks(3)
        test.process_element1("now")
        test.process_element2("now")
        assert test.values == [3, 3]
        with pytest.raises(InvalidProgramError, match=r"for 5\) need a keyed.*broadcast"):
            test.process_element2("timer")
        if not is_keyed:
            with pytest.raises(InvalidProgramError, match="call key_by"):
                test.process_element1("timer")


STATES_WITHOUT_KEY = {
    "read a value": lambda function: function.value.value(),
    "write a value": lambda function: function.value.update(1),
    "clear a value": lambda function: function.value.clear(),
    "read a list": lambda function: list(function.list.get()),
    "write a list": lambda function: function.list.add(1),
    "read a map": lambda function: list(function.map.items()),
    "write a map": lambda function: function.map.put(1, 1),
}


@pytest.mark.parametrize("use", list(STATES_WITHOUT_KEY))
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("ages", [False, True])
def test_a_broadcast_record_has_no_keyed_state(use, backend, ages):
    """Not even that of the previous element's key."""

    class Rules(KeyedBroadcastProcessFunction):
        def open(self, context):
            number = Types.INT()
            descriptors = [
                ValueStateDescriptor("value", number),
                ListStateDescriptor("list", number),
                MapStateDescriptor("map", number, number),
            ]
            for descriptor in descriptors if ages else ():
                descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
            self.value = context.get_state(descriptors[0])
            self.list = context.get_list_state(descriptors[1])
            self.map = context.get_map_state(descriptors[2])

        def process_element(self, value, ctx):
            self.value.update(value)
            yield self.value.value()

        def process_broadcast_element(self, value, ctx):
            STATES_WITHOUT_KEY[use](self)

    with KeyedTwoInputStreamOperatorTestHarness(
        operators.KeyedBroadcastProcess(Rules()),
        lambda value: value,
        None,
        configuration={"state.backend.type": backend},
    ) as test:
        test.process_element1(1)
        with pytest.raises(
            InvalidProgramError, match=r"Rules.process_broadcast_element\(\) of .* uses the state '"
        ):
            test.process_element2("rule")
        test.process_element1(2)
        assert test.values == [1, 2]


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left[1], right[1], ctx.get_timestamp()


@pytest.mark.parametrize(("lower", "upper"), [(-2, 2), (0, 0), (1, 3), (-3, -1), (-1, 0), (0, 2)])
def test_interval_join_equals_nested_loops(lower, upper):
    """G-6."""
    arguments = {"lower_bound_ms": lower, "upper_bound_ms": upper}
    descriptor = operators.IntervalJoin(Pair(), **arguments)
    lefts, rights = [("k", t) for t in range(8)], [("k", t) for t in range(8)]
    expected = [
        (left, right, max(left, right))
        for _, left in lefts
        for _, right in rights
        if left + lower <= right <= left + upper
    ]
    with KeyedTwoInputStreamOperatorTestHarness(descriptor, first, first) as test:
        for left, right in zip(lefts, rights, strict=True):
            test.process_element1(left, left[1])
            test.process_element2(right, right[1])
            test.process_both_watermarks(left[1] - 1)
        test.process_both_watermarks(MAX_WATERMARK)
        assert sorted(test.values) == sorted(expected)
        assert test.num_keyed_state_entries == 0
        assert test.num_event_time_timers == 0


def test_interval_join_sends_late_records_aside():
    arguments = {"lower_bound_ms": 0, "upper_bound_ms": 5, "left_late_tag": "late"}
    descriptor = operators.IntervalJoin(Pair(), **arguments)
    with KeyedTwoInputStreamOperatorTestHarness(descriptor, first, first) as test:
        test.process_both_watermarks(10)
        test.process_element1(("k", 3), 3)
        test.process_element2(("k", 3), 3)
        assert test.values == []
        assert test.output.side_output("late") == [(("k", 3), 3)]


@pytest.mark.parametrize(
    ("quiet_ms", "expected"), [(400, [9, 29, MAX_WATERMARK]), (0, [9, MAX_WATERMARK])]
)
def test_records_further_apart_than_the_interval_all_move_event_time(quiet_ms, expected):
    """The last one does, too, though the end of the input follows immediately."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        TimestampOfValue()
    )
    descriptor = operators.Watermarks(strategy)
    with OneInputStreamOperatorTestHarness(descriptor) as test:
        test.process_element(10)
        test.set_processing_time(200)
        test.set_processing_time(200 + quiet_ms)
        test.process_element(30)
        test.process_watermark(MAX_WATERMARK)
        assert test.output.watermarks == expected


def test_batch_feeds_keyed_functions_key_by_key_in_time_order():
    class Show(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(1000)
            yield value, ctx.timer_service().current_watermark()

        def on_timer(self, timestamp, ctx):
            yield "timer", ctx.get_current_key()

    descriptor = operators.KeyedProcess(Show())
    with KeyedOneInputStreamOperatorTestHarness(descriptor, first, configuration=BATCH) as test:
        for value in (("a", 3), ("b", 1), ("a", 2)):
            test.process_element(value, value[1])
        test.process_watermark(MAX_WATERMARK)
        none = -(2**63)
        assert test.values == [
            (("a", 2), none),
            (("a", 3), none),
            ("timer", "a"),
            (("b", 1), none),
            ("timer", "b"),
        ]


def test_batch_mode_fires_timers_of_processing_time_when_a_key_ends(caplog):
    """After those of event time; a timer registered by such a timer is dropped: it would never end.

    Flink's ``BatchExecutionInternalTimeService`` does the same.
    """

    class Later(KeyedProcessFunction):
        def process_element(self, value, ctx):
            for delay_ms in (10**9, 10**8):
                now = ctx.timer_service().current_processing_time()
                ctx.timer_service().register_processing_time_timer(now + delay_ms)
            ctx.timer_service().register_event_time_timer(5)
            yield value

        def on_timer(self, timestamp, ctx):
            ctx.timer_service().register_event_time_timer(timestamp + 1)
            ctx.timer_service().register_processing_time_timer(timestamp + 1)
            yield ctx.get_current_key(), ctx.time_domain().name, timestamp

    with KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(Later()), first, configuration=BATCH
    ) as test:
        for value in ("a", "b"):
            test.process_element(value)
        test.process_watermark(MAX_WATERMARK)
        assert test.values == [
            element
            for key in ("a", "b")
            for element in (
                key,
                (key, "EVENT_TIME", 5),
                (key, "PROCESSING_TIME", 10**8),
                (key, "PROCESSING_TIME", 10**9),
            )
        ]
        test.set_processing_time(10**12)
        assert len(test.values) == 8, "nothing is left"
    dropped = [message for message in caplog.messages if "is dropped" in message]
    assert len(dropped) == 1
    assert "a timer of event time" in dropped[0]


class TotalOfAll(KeyedMultipleInputProcessFunction):
    """Adds up all streams' values of a key, and emits the sum a second of event time later."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, input_number, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
        return [(input_number, ctx.get_current_key())]

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.total.value(), timestamp


def three_keyed_inputs():
    return MultipleInputStreamOperatorTestHarness(
        operators.KeyedMultipleInputProcess(TotalOfAll(), num_inputs=3),
        key_selectors=(lambda v: v[0],) * 3,
    )


def test_an_operator_of_three_streams_shares_keys_and_waits_for_the_slowest():
    with three_keyed_inputs() as old:
        for number in range(3):
            old.process_element(number, ("a", 10**number), number)
        old.process_watermark(0, 5000)
        old.process_watermark(1, 4000)
        snapshot = old.snapshot(1)
    assert old.values == [(0, "a"), (1, "a"), (2, "a")]
    assert old.output.watermarks == []
    new = three_keyed_inputs()
    new.initialize_state(snapshot)
    with new:
        new.process_watermark(0, 5000)
        new.process_watermark_status(1, idle=True)
        new.process_watermark(2, 1001)
        assert new.values == [("a", 111, 1000), ("a", 111, 1001)]
        assert new.output.watermarks == [1001]
        assert new.output.statuses == []
        for number in (0, 2):
            new.process_watermark_status(number, idle=True)
        assert new.output.statuses == [True]
