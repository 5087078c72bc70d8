"""The results of builders: transformations, types, names; and the arguments that they reject."""

import threading

import pytest
from penstock.common import Configuration, Duration, Time, Types, WatermarkStrategy
from penstock.datastream import (
    AsyncDataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    MemorySize,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from penstock.datastream.functions import SinkFunction
from penstock.datastream.state import MapStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import ConfigurationError, InvalidProgramError, WrongArgumentError
from penstock.graph import operators
from penstock.graph.transformations import ChainingStrategy


class Echo(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class KeyedEcho(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


@pytest.fixture
def pairs(env):
    return env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))


def test_functions_are_copied_when_they_are_handed_over(env):
    box = [1]
    mapped = env.from_collection([1]).map(lambda v: v + box[0])
    box[0] = 100
    assert mapped.transformation.operator.function(1) == 2


def test_a_function_that_cannot_travel_fails_in_the_call(env):
    lock = threading.Lock()
    with pytest.raises(InvalidProgramError, match=r"map: .* cannot be pickled"):
        env.from_collection([1]).map(lambda v: (v, lock))


def test_records_are_checked_by_from_collection(env):
    with pytest.raises(ValueError, match="element 0: 9223372036854775808"):
        env.from_collection([2**63], Types.INT())
    with pytest.raises(InvalidProgramError):
        env.from_collection(5)


def test_undeclared_outputs_have_no_type_in_the_graph(pairs):
    mapped = pairs.map(lambda v: v)
    assert mapped.transformation.output_type is None
    assert str(mapped.get_type()) == "PickledByteArrayTypeInfo"


def test_rows_report_the_names_of_their_fields(env):
    rows = env.from_collection([(1,)], Types.ROW([Types.INT()]))
    assert str(rows.get_type()) == "RowTypeInfo(f0: Integer)"
    assert str(rows.map(lambda v: v, [Types.LONG()]).get_type()) == "RowTypeInfo(f0: Long)"


def test_keyed_transformations_carry_the_key(pairs):
    keyed = pairs.key_by(lambda v: v[0], Types.STRING())
    for stream in (
        keyed.map(lambda v: v),
        keyed.reduce(lambda a, b: a),
        keyed.process(KeyedEcho()),
    ):
        transformation = stream.transformation
        assert transformation.key_selector(("a", 1)) == "a"
        assert transformation.key_type == Types.STRING()
        assert transformation.input.partitioner.kind == "KEY_GROUP"


def test_sum_takes_positions_and_names(env):
    row = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()])
    keyed = env.from_collection([("a", 1)], row).key_by(lambda v: v[0])
    assert keyed.sum("n").transformation.operator == operators.AggregateField("sum", 1)
    assert keyed.sum(-1).transformation.operator == operators.AggregateField("sum", 1)
    for wrong in ("x", 2, -3, 1.5):
        with pytest.raises(InvalidProgramError):
            keyed.max(wrong)


@pytest.mark.parametrize(
    "call",
    [
        lambda k: k.name("x"),
        lambda k: k.get_name(),
        lambda k: k.uid("x"),
        lambda k: k.set_parallelism(1),
        lambda k: k.rebalance(),
        lambda k: k.broadcast(),
        lambda k: k.disable_chaining(),
        lambda k: k.cache(),
    ],
)
def test_a_keyed_stream_is_no_operator(pairs, call):
    with pytest.raises(InvalidProgramError, match="KeyedStream"):
        call(pairs.key_by(lambda v: v[0]))


@pytest.mark.parametrize(
    "call",
    [
        lambda ds: ds.map(3),
        lambda ds: ds.map(MapFunction),
        lambda ds: ds.filter(None),
        lambda ds: ds.process(lambda v, c: v),
        lambda ds: ds.process(KeyedEcho()),
        lambda ds: ds.key_by(lambda v: v).process(Echo()),
        lambda ds: ds.key_by(0),
        lambda ds: ds.map(lambda v: v, output_type="STRING"),
        lambda ds: ds.partition_custom(3, lambda v: v),
        lambda ds: ds.project(),
        lambda ds: ds.project(2),
        lambda ds: ds.connect(3),
        lambda ds: ds.sink_to(3),
        lambda ds: ds.add_sink(3),
        lambda ds: ds.assign_timestamps_and_watermarks(3),
        lambda ds: ds.rebalance().name("x"),
        lambda ds: ds.rebalance().set_parallelism(2),
        lambda ds: ds.set_parallelism(2),
        lambda ds: ds.map(lambda v: v).set_parallelism(0),
        lambda ds: ds.map(lambda v: v).set_max_parallelism(0),
        lambda ds: ds.map(lambda v: v).force_non_parallel().set_parallelism(2),
        lambda ds: ds.union(ds.map(lambda v: 1, Types.INT())),
        lambda ds: ds.get_side_output("tag"),
        lambda ds: ds.broadcast(3),
    ],
)
def test_wrong_arguments_fail_in_the_call(pairs, call):
    """As TypeError and as ValueError, so that a program may catch the error that PyFlink raises."""
    for error in (TypeError, ValueError):
        with pytest.raises(error):
            call(pairs)


def test_a_sink_function_goes_to_add_sink(pairs):
    with pytest.raises(WrongArgumentError, match="pass a SinkFunction to add_sink"):
        pairs.sink_to(SinkFunction())


@pytest.mark.parametrize(
    "call",
    [
        lambda ds: ds.map(lambda v: v, output_type="STRING"),
        lambda ds: ds.sink_to(3),
        lambda ds: ds.add_sink(3),
        lambda ds: ds.assign_timestamps_and_watermarks(3),
        lambda ds: ds.get_side_output("tag"),
        lambda ds: ds.get_execution_environment().from_source(3, None, "source"),
        lambda ds: ds.get_execution_environment().add_source(3),
        lambda _: TumblingEventTimeWindows.of(5),
        lambda _: WatermarkStrategy.for_bounded_out_of_orderness(5),
    ],
)
def test_arguments_of_another_kind_are_attribute_errors_too(pairs, call):
    """PyFlink reads an attribute that these arguments lack."""
    with pytest.raises(InvalidProgramError) as raised:
        call(pairs)
    assert isinstance(raised.value, AttributeError)


def test_a_side_output_has_one_type(pairs):
    main = pairs.process(Echo())
    main.get_side_output(OutputTag("t", Types.INT()))
    with pytest.raises(InvalidProgramError, match="requested before as Integer"):
        main.get_side_output(OutputTag("t", Types.STRING()))


def test_streams_and_sinks_name_their_co_location_group(env):
    left = env.from_collection([1], Types.INT()).rebalance().map(lambda n: n, Types.INT())
    left.name("left").set_co_location_group_key("pair")
    left.rebalance().print().name("right").set_co_location_group_key("pair")
    groups = {node.name: node.co_location_group for node in env.get_stream_graph().nodes.values()}
    assert {name for name, group in groups.items() if group == "pair"} == {"left", "Sink: right"}
    with pytest.raises(InvalidProgramError, match="set_co_location_group_key"):
        left.key_by(lambda n: n).set_co_location_group_key("other")


def test_settings_reach_the_transformation(pairs):
    stream = pairs.map(lambda v: v)
    stream.name("n").uid("u").set_uid_hash("0" * 32).set_description("d").set_parallelism(3)
    stream.set_max_parallelism(9).set_buffer_timeout(5).disable_chaining().slot_sharing_group("g")
    t = stream.transformation
    assert (t.name, t.uid, t.uid_hash, t.description) == ("n", "u", "0" * 32, "d")
    assert (t.parallelism, t.max_parallelism, t.buffer_timeout_ms) == (3, 9, 5)
    assert (t.chaining_strategy, t.slot_sharing_group) == (ChainingStrategy.NEVER, "g")


def test_operators_take_the_parallelism_of_their_time(env, pairs):
    before = pairs.map(lambda v: v)
    env.set_parallelism(5)
    assert before.transformation.parallelism == 2
    assert before.map(lambda v: v).transformation.parallelism == 5


def test_slots_have_no_resources_of_their_own(env, pairs):
    """A group reports its resources, but a job that requires some is rejected."""
    builder = SlotSharingGroup.builder("g").set_cpu_cores(1.5).set_task_heap_memory_mb(2)
    group = builder.set_external_resource("gpu", 1).build()
    says = "'g' asks for 1.5 cores, 2 mb of heap memory, 1 gpu"
    stream = pairs.map(lambda v: v)
    for refused in (
        lambda: env.register_slot_sharing_group(group),
        lambda: stream.slot_sharing_group(group),
        lambda: stream.print().slot_sharing_group(group),
        lambda: stream.slot_sharing_group(
            SlotSharingGroup("g", managed_memory=MemorySize(bytes_size=1))
        ),
    ):
        with pytest.raises(InvalidProgramError, match="slot sharing group 'g' asks for") as raised:
            refused()
    assert "1 bytes of managed memory" in str(raised.value)
    with pytest.raises(InvalidProgramError, match=says):
        env.register_slot_sharing_group(group)


def test_a_slot_sharing_group_without_resources_is_its_name(env, pairs):
    group = SlotSharingGroup.builder("g").build()
    env.register_slot_sharing_group(group)
    stream = pairs.map(lambda v: v).slot_sharing_group(group)
    assert stream.transformation.slot_sharing_group == "g"


def test_an_execution_takes_what_was_built(env, pairs):
    pairs.map(lambda v: v)
    env._job.job_graph("first", 2, 100)
    with pytest.raises(InvalidProgramError, match="No operators"):
        env._job.job_graph("second", 2, 100)


def test_collecting_leaves_out_what_feeds_no_sink(env, pairs):
    pairs.map(lambda v: v).name("dangling")
    pairs.filter(lambda v: True).name("wanted").print()
    job, _ = env._job.job_graph("job", 2, 100, sinks_only=True)
    names = " ".join(vertex.name for vertex in job.vertices.values())
    assert "wanted" in names
    assert "dangling" not in names


@pytest.mark.parametrize(
    ("mode", "unbounded", "batch"),
    [("STREAMING", False, False), ("AUTOMATIC", False, True), ("AUTOMATIC", True, False)],
)
def test_the_mode_follows_the_sources(env, mode, unbounded, batch):
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    source = env.socket_text_stream("localhost", 1) if unbounded else env.from_collection([1])
    source.print()
    _, configuration = env._job.job_graph("job", 1, 100)
    wanted = "BATCH" if batch else "STREAMING"
    assert configuration.get_string("execution.runtime-mode", None) == wanted


def test_batch_needs_an_end(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.socket_text_stream("localhost", 1).print()
    with pytest.raises(InvalidProgramError, match="Socket Stream"):
        env._job.job_graph("job", 1, 100)


def test_a_socket_is_dialled_a_number_of_times_or_for_ever(env):
    with pytest.raises(InvalidProgramError, match="max_retry"):
        env.socket_text_stream("localhost", 1, max_retry=-2)


def test_buffer_timeout_in_its_three_forms(env):
    assert env.get_buffer_timeout() == 100
    assert env.set_buffer_timeout(-1).get_buffer_timeout() == -1
    assert env.set_buffer_timeout(0).get_buffer_timeout() == 0
    env.configure(Configuration.from_dict({"execution.buffer-timeout.interval": "7 ms"}))
    assert env.get_buffer_timeout() == 7
    with pytest.raises(ConfigurationError):
        env.set_buffer_timeout(-2)


def test_the_process_configuration_is_overruled(monkeypatch):
    monkeypatch.setenv("PENSTOCK_CONFIGURATION", '{"parallelism.default": 3, "a": "b"}')
    make = StreamExecutionEnvironment.get_execution_environment
    assert make().get_parallelism() == 3
    own = Configuration.from_dict({"parallelism.default": "5"})
    assert make(own).get_parallelism() == 5
    assert own.to_dict() == {"parallelism.default": "5"}
    monkeypatch.setenv("PENSTOCK_CONFIGURATION", "[]")
    with pytest.raises(ConfigurationError, match="JSON object"):
        make()


def test_broadcast_carries_its_descriptors(pairs):
    descriptor = MapStateDescriptor("m", Types.STRING(), Types.INT())
    connected = pairs.connect(pairs.broadcast(descriptor))
    assert connected.broadcast_state_descriptors == [descriptor]
    assert connected.broadcast_stream.input_stream.transformation.partitioner.kind == "BROADCAST"


def test_an_interval_join_shifts_exclusive_bounds(pairs):
    from penstock.common import Time
    from penstock.datastream.functions import ProcessJoinFunction

    class Pair(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            yield left, right

    keyed = pairs.key_by(lambda v: v[0])
    interval = keyed.interval_join(keyed).between(Time.milliseconds(-5), Time.milliseconds(5))
    joined = interval.lower_bound_exclusive().upper_bound_exclusive().process(Pair())
    join = joined.transformation.operator
    assert (join.lower_bound_ms, join.upper_bound_ms) == (-4, 4)
    nothing = keyed.interval_join(keyed).between(Time.milliseconds(1), Time.milliseconds(1))
    with pytest.raises(InvalidProgramError, match="above"):
        nothing.lower_bound_exclusive().process(Pair())


def test_an_iteration_is_closed_by_its_own_stream(env):
    numbers = env.from_collection([1], Types.INT()).map(lambda v: v, Types.INT())
    iteration = numbers.iterate(100)
    back = iteration.map(lambda v: v, Types.INT())
    assert iteration.close_with(back) is back
    assert iteration.transformation.feedback_edges == [back.transformation]
    with pytest.raises(InvalidProgramError, match="derived from the iteration"):
        iteration.close_with(numbers)
    with pytest.raises(InvalidProgramError, match="with_feedback_type"):
        iteration.close_with(iteration.map(lambda v: str(v), Types.STRING()))


def test_a_source_takes_the_type_and_the_strategy(env):
    from penstock.datastream.connectors.number_seq import NumberSequenceSource

    stream = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "n")
    numbers = stream.transformation.operator
    assert str(stream.get_type()) == "Long"
    assert (numbers.start, numbers.end) == (1, 3)
    assert not numbers.watermark_strategy.emits_periodically


def test_arrays_are_no_keys(env):
    numbers = env.from_collection([1], Types.INT())
    for key_type in (
        Types.PRIMITIVE_ARRAY(Types.INT()),
        Types.BASIC_ARRAY(Types.INT()),
        Types.OBJECT_ARRAY(Types.STRING()),
        Types.TUPLE([Types.ROW([Types.PRIMITIVE_ARRAY(Types.BYTE())])]),
    ):
        with pytest.raises(InvalidProgramError, match="type of a key"):
            numbers.key_by(lambda value: value, key_type)
    numbers.key_by(lambda value: value, Types.LIST(Types.INT()))


def test_a_row_without_fields_is_no_key(env):
    with pytest.raises(InvalidProgramError, match="without fields"):
        env.from_collection([1]).key_by(lambda value: value, Types.ROW([]))


class Both(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        yield value

    def process_element2(self, value, ctx):
        yield value


class Rules(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        yield value


def test_operators_of_two_keyed_inputs_are_named_as_in_pyflink(env):
    """PyFlink 2.3 uses the names `Keyed Co-Process` and `Keyed-Co-Process-Broadcast`."""
    keyed = env.from_collection([1]).key_by(lambda value: value)
    assert keyed.connect(keyed).process(Both()).get_name() == "Keyed Co-Process"
    state = MapStateDescriptor("rules", Types.INT(), Types.INT())
    broadcast = env.from_collection([1]).broadcast(state)
    assert keyed.connect(broadcast).process(Rules()).get_name() == "Keyed-Co-Process-Broadcast"


@pytest.mark.parametrize(
    "travel", ["shuffle", "rebalance", "rescale", "forward", "broadcast", "union"]
)
def test_a_partitioned_stream_has_no_name(env, travel):
    numbers = env.from_collection([1])
    stream = numbers.union(numbers) if travel == "union" else getattr(numbers, travel)()
    with pytest.raises(InvalidProgramError, match="get_name"):
        stream.get_name()


@pytest.mark.parametrize(
    "call",
    [
        lambda env, numbers: numbers.slot_sharing_group(object()),
        lambda env, numbers: AsyncDataStream.unordered_wait(numbers, object(), Time.seconds(1)),
        lambda env, numbers: env.get_config().set_global_job_parameters(5),
        lambda env, numbers: env.set_runtime_mode("BATCH"),
        lambda env, numbers: env.get_checkpoint_config().set_checkpointing_mode(1),
        lambda env, numbers: Configuration().set_bytearray("key", 1),
        lambda env, numbers: numbers.map(lambda v: (v,), Types.TUPLE([Types.INT()])).project("0"),
    ],
)
def test_arguments_of_the_wrong_class_miss_attributes(env, call):
    with pytest.raises(WrongArgumentError):
        call(env, env.from_collection([1], Types.INT()))


def test_a_keyed_stream_is_of_the_type_of_its_elements(env):
    numbers = env.from_collection([1], Types.INT())
    declared = numbers.key_by(lambda value: value, Types.STRING())
    assert str(declared.get_type()) == "Integer"
    assert str(numbers.key_by(lambda value: value).get_type()) == "Integer"
    assert str(declared.sum().get_type()) == "Integer"
    assert str(declared.count_window(2).get_input_type()) == "Integer"


@pytest.mark.parametrize(
    "setting",
    [
        lambda cached: cached.get_name(),
        lambda cached: cached.name("n"),
        lambda cached: cached.uid("u"),
        lambda cached: cached.set_uid_hash("0" * 32),
        lambda cached: cached.set_parallelism(1),
        lambda cached: cached.set_max_parallelism(1),
        lambda cached: cached.force_non_parallel(),
        lambda cached: cached.set_buffer_timeout(1),
        lambda cached: cached.start_new_chain(),
        lambda cached: cached.disable_chaining(),
        lambda cached: cached.slot_sharing_group("g"),
        lambda cached: cached.cache(),
        lambda cached: cached.get_side_output(OutputTag("tag")),
    ],
)
def test_a_cached_stream_has_no_settings(env, setting):
    cached = env.from_collection([1], Types.INT()).map(lambda value: value).cache()
    with pytest.raises(InvalidProgramError, match="CachedDataStream"):
        setting(cached)


@pytest.mark.parametrize("lateness", [2_000, Time.seconds(2), Duration.of_seconds(2)])
def test_a_lateness_is_in_milliseconds_or_a_span_of_time(env, lateness):
    keyed = env.from_collection([1], Types.INT()).key_by(abs)
    windowed = keyed.window(TumblingEventTimeWindows.of(Duration.of_seconds(1)))
    assert windowed.allowed_lateness(lateness)._lateness_ms == 2_000


def test_an_environment_is_made_of_a_configuration():
    with pytest.raises(WrongArgumentError, match=r"must be a Configuration, got \{\}"):
        StreamExecutionEnvironment.get_execution_environment({})
