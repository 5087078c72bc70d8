"""Elements of a key stay in one subtask, even behind operators that PyFlink lacks."""

import pytest
from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import AsyncDataStream, AsyncFunction, OutputTag
from penstock.datastream.functions import ProcessFunction, SinkFunction
from support.environments import in_process

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


class Sink(SinkFunction):
    def invoke(self, value, context):
        pass


class Same(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Ask(AsyncFunction):
    async def async_invoke(self, value):
        return [value]


def first(pair):
    return pair[0]


def iterated(keyed, other):
    loop = keyed.iterate()
    loop.close_with(loop.map(lambda v: v, PAIR))


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda keyed, other: keyed.add_sink(Sink()), id="add_sink"),
        pytest.param(lambda keyed, other: keyed.print_to_err(), id="print_to_err"),
        pytest.param(lambda keyed, other: keyed.union().map(str), id="union of one"),
        pytest.param(lambda keyed, other: keyed.union(other).forward().map(str), id="forward"),
        pytest.param(lambda keyed, other: keyed.split(str).select("a").map(str), id="split"),
        pytest.param(
            lambda keyed, other: AsyncDataStream.unordered_wait(keyed, Ask(), Time.seconds(1)),
            id="async",
        ),
        pytest.param(iterated, id="iterate"),
    ],
)
def test_records_of_a_key_stay_together(use):
    env = in_process(parallelism=2)
    keyed, other = (
        env.from_collection([("a", 1)], PAIR).map(lambda v: v, PAIR).name("before").key_by(first)
        for _ in range(2)
    )
    use(keyed, other)
    graph = env.get_stream_graph()
    left = [edge for edge in graph.edges() if graph.nodes[edge.source_id].name == "before"]
    assert {edge.partitioner.ship_strategy for edge in left} == {"HASH"}


class OfSecond(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


@pytest.mark.parametrize(
    ("way", "parallelism"),
    [
        ("plain", 1),
        ("forward", 1),
        ("rebalance", 1),
        ("union", 1),
        ("side output", 1),
        ("keyed", 2),
    ],
)
def test_watermarks_have_the_parallelism_of_their_input(way, parallelism):
    """As in Flink; with an assigner or behind key_by that of the environment, as in PyFlink."""
    env = in_process(parallelism=2)
    source = env.from_collection([("a", 1)], PAIR)
    stream = {
        "plain": lambda: source,
        "forward": source.forward,
        "rebalance": source.rebalance,
        "union": lambda: source.union(source),
        "side output": lambda: (
            source.process(Same(), PAIR).set_parallelism(1).get_side_output(OutputTag("late", PAIR))
        ),
        "keyed": lambda: source.key_by(lambda pair: pair[0], Types.STRING()),
    }[way]()
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    found = stream.assign_timestamps_and_watermarks(strategy).transformation
    assert found.parallelism == parallelism
    assigned = strategy.with_timestamp_assigner(OfSecond())
    assert stream.assign_timestamps_and_watermarks(assigned).transformation.parallelism == 2


def test_watermarks_behind_a_parallel_operator_follow_the_environment():
    env = in_process(parallelism=2)
    mapped = env.from_collection([("a", 1)], PAIR).map(lambda v: v, PAIR)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    for parallelism, is_own in ((2, False), (3, True)):
        found = mapped.rebalance().assign_timestamps_and_watermarks(strategy).transformation
        assert (found.parallelism, found.has_own_parallelism) == (parallelism, is_own)
        mapped.set_parallelism(3)


def test_forward_undoes_a_rebalance():
    env = in_process(parallelism=2)
    env.from_collection([1]).map(str).rebalance().forward().print()
    assert [edge.partitioner.kind for edge in env.get_stream_graph().edges()][-1] == "FORWARD"


def test_a_projected_keyed_stream_has_no_key():
    env = in_process()
    keyed = env.from_collection([("a", 1)], PAIR).key_by(first)
    projected = keyed.project(1)
    assert projected.get_type() == Types.TUPLE([Types.INT()])
    assert projected.transformation.key_selector is None
    assert keyed.union(keyed).get_type() == PAIR
    assert keyed.union().get_type() == PAIR


def test_the_type_of_a_keyed_stream_is_that_of_its_elements():
    keyed = in_process().from_collection([("a", 1)], PAIR).key_by(first, Types.STRING())
    assert keyed.get_type() == PAIR
    with keyed.execute_and_collect() as results:
        assert list(results) == [("a", 1)]
