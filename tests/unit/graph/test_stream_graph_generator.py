"""Transformations to StreamGraph (internals M36, M37)."""

import pytest
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.graph import partitioners as p
from penstock.graph import transformations as t
from penstock.graph.stream_graph import IllegalGraphStateError
from support.graphs import Program, identity, word_count


def edge_into(graph, transformation, position=0):
    return graph.nodes[transformation.id].in_edges[position]


def test_default_partitioner_is_forward_or_rebalance():
    program = Program(parallelism=2)
    source = program.source("One", 1)
    same = program.map(source, "Same", 1)
    wider = program.map(same, "Wider", 2)
    graph = program.stream_graph()
    assert edge_into(graph, same).partitioner == p.FORWARD
    assert edge_into(graph, wider).partitioner == p.REBALANCE


def test_the_most_downstream_partitioner_wins():
    program = Program(parallelism=2)
    twice = program.partition(program.partition(program.source(), p.SHUFFLE), p.BROADCAST)
    target = program.map(twice)
    assert edge_into(program.stream_graph(), target).partitioner == p.BROADCAST


def test_the_most_downstream_selection_and_tag_win():
    program = Program(parallelism=1)
    split = t.SplitTransformation(program.source(), identity)
    selected = t.SelectTransformation(t.SelectTransformation(split, ["a"]), ["b", "c"])
    first = program.map(selected)
    side = t.SideOutputTransformation(t.SideOutputTransformation(first, "x", None), "y", None)
    second = program.map(side)
    graph = program.stream_graph()
    assert edge_into(graph, first).selected_names == ("b", "c")
    assert graph.nodes[edge_into(graph, first).source_id].output_selectors == [identity]
    assert edge_into(graph, second).tag == "y"


def test_partitioner_is_kept_across_side_output_and_union():
    program = Program(parallelism=2)
    a, b = program.source("A"), program.source("B")
    side = t.SideOutputTransformation(a, "late", None)
    united = t.UnionTransformation([side, b])
    target = program.map(program.partition(united, p.SHUFFLE))
    edges = program.stream_graph().nodes[target.id].in_edges
    assert [(e.tag, e.partitioner) for e in edges] == [("late", p.SHUFFLE), (None, p.SHUFFLE)]


def test_union_adds_no_node_and_keeps_order():
    program = Program(parallelism=1)
    sources = [program.source(f"S{i}") for i in range(3)]
    target = program.map(t.UnionTransformation(sources))
    graph = program.stream_graph()
    assert len(graph.nodes) == 4
    assert [e.source_id for e in graph.nodes[target.id].in_edges] == [s.id for s in sources]


def test_union_with_itself_gives_two_edges():
    program = Program(parallelism=1)
    source = program.source()
    target = program.map(t.UnionTransformation([source, source]))
    edges = program.stream_graph().nodes[target.id].in_edges
    assert [e.unique_number for e in edges] == [0, 1]


def test_forward_between_different_parallelisms_names_both():
    program = Program()
    source = program.map(program.source("S", 2), "Narrow", 2)
    program.map(program.partition(source, p.FORWARD), "Wide", 5)
    with pytest.raises(InvalidProgramError) as error:
        program.stream_graph()
    text = str(error.value)
    for part in ("Narrow", "parallelism: 2", "Wide", "parallelism: 5"):
        assert part in text
    for way in ("broadcast", "rebalance", "shuffle", "global"):
        assert way in text


def test_side_output_of_one_tag_has_one_type():
    program = Program(parallelism=1)
    source = program.source()
    program.map(t.SideOutputTransformation(source, "late", "INT"))
    program.map(t.SideOutputTransformation(source, "late", "INT"))
    program.stream_graph()
    program.map(t.SideOutputTransformation(source, "late", "STRING"))
    with pytest.raises(InvalidProgramError, match="'late'"):
        program.stream_graph()


def test_a_shared_input_is_translated_once():
    program = Program(parallelism=1)
    source = program.source()
    program.sink(program.map(source))
    program.sink(program.map(source))
    graph = program.stream_graph()
    assert len(graph.nodes) == 5
    assert len(graph.nodes[source.id].out_edges) == 2


def test_parallelism_and_max_parallelism_follow_the_job():
    program = Program(parallelism=3, max_parallelism=64)
    source = program.source("S", 1)
    mapped = program.map(source)
    mapped.set_max_parallelism(32)
    sink = program.sink(mapped)
    graph = program.stream_graph()
    assert [graph.nodes[x.id].parallelism for x in (source, mapped, sink)] == [1, 3, 3]
    assert [graph.nodes[x.id].max_parallelism for x in (source, mapped, sink)] == [64, 32, 64]


def test_parallelism_above_max_parallelism_is_refused():
    program = Program(parallelism=8, max_parallelism=4)
    program.source("Wide")
    with pytest.raises(InvalidProgramError, match="higher than its max parallelism"):
        program.stream_graph()


def test_parallelism_above_any_max_parallelism_is_refused():
    """Also without a configured one: thousands of workers would be started for it."""
    program = Program(parallelism=40000)
    program.source("Wide")
    with pytest.raises(InvalidProgramError, match=r"40000 of .*: Wide' is higher than the maximum"):
        program.stream_graph()


@pytest.mark.parametrize("value", [0, -5, 32769])
def test_max_parallelism_bounds(value):
    with pytest.raises(InvalidProgramError):
        Program().source().set_max_parallelism(value)


@pytest.mark.parametrize("value", [0, -2])
def test_parallelism_bounds(value):
    with pytest.raises(InvalidProgramError):
        Program().source().set_parallelism(value)


def test_buffer_timeout_own_or_the_jobs():
    program = Program(parallelism=1, buffer_timeout_ms=42)
    source = program.source()
    mapped = program.map(source)
    mapped.set_buffer_timeout(0)
    other = program.map(mapped)
    other.set_buffer_timeout(-1)
    graph = program.stream_graph()
    assert [graph.nodes[x.id].buffer_timeout_ms for x in (source, mapped, other)] == [42, 0, -1]
    with pytest.raises(InvalidProgramError):
        other.set_buffer_timeout(-2)


def test_slot_sharing_groups_are_inherited_when_inputs_agree():
    program = Program(parallelism=1)
    a, b, c = (program.source(n) for n in "ABC")
    a.slot_sharing_group = b.slot_sharing_group = "left"
    agreed = program.map(t.UnionTransformation([a, b]))
    mixed = program.co_map(agreed, c)
    own = program.map(mixed)
    own.slot_sharing_group = "own"
    graph = program.stream_graph()
    groups = [graph.nodes[x.id].slot_sharing_group for x in (a, c, agreed, mixed, own)]
    assert groups == ["left", "default", "left", "default", "own"]


def test_two_inputs_are_numbered_from_zero():
    program = Program(parallelism=1)
    first, second = program.source("F"), program.source("S")
    both = program.co_map(first, second)
    edges = program.stream_graph().nodes[both.id].in_edges
    assert [(e.source_id, e.input_number) for e in edges] == [(first.id, 0), (second.id, 1)]


def test_multiple_inputs_with_keys():
    program = Program(parallelism=2)
    descriptor = operators.KeyedMultipleInputProcess(identity, num_inputs=3)
    many = t.KeyedMultipleInputTransformation("Many", descriptor, None)
    for _ in range(3):
        many.add_input(program.partition(program.source(), p.key_group(identity)), identity)
    program.transformations.append(many)
    node = program.stream_graph().nodes[many.id]
    assert [e.input_number for e in node.in_edges] == [0, 1, 2]
    assert node.key_selectors == (identity,) * 3


def test_keyed_state_needs_key_selector_on_the_node():
    program = word_count()
    node = program.stream_graph().nodes[program.transformations[2].id]
    assert node.key_selectors == (identity,)
    assert node.in_edges[0].partitioner.kind == "KEY_GROUP"


@pytest.mark.parametrize(
    ("partitioner", "pointwise", "unaligned"),
    [
        (p.FORWARD, True, False),
        (p.RESCALE, True, False),
        (p.BROADCAST, False, False),
        (p.REBALANCE, False, True),
        (p.SHUFFLE, False, True),
        (p.GLOBAL, False, True),
        (p.key_group(identity), False, True),
        (p.custom(identity), False, True),
    ],
)
def test_pointwise_and_unaligned(partitioner, pointwise, unaligned):
    program = Program(parallelism=2)
    target = program.map(program.partition(program.source(), partitioner))
    edge = edge_into(program.stream_graph(), target)
    assert edge.partitioner.is_pointwise is pointwise
    assert edge.supports_unaligned_checkpoints is unaligned


def test_inputs_of_an_operator_agree_on_unaligned_checkpoints():
    """An input that barriers cannot overtake aligns the operator's others too, as in Flink."""
    program = Program(parallelism=2)
    shuffled = program.partition(program.source(), p.SHUFFLE)
    spread = program.partition(program.source(), p.BROADCAST)
    both = program.co_map(shuffled, spread)
    one = program.map(shuffled)
    graph = program.stream_graph()
    assert [e.supports_unaligned_checkpoints for e in graph.nodes[both.id].in_edges] == [False] * 2
    assert edge_into(graph, one).supports_unaligned_checkpoints


def test_unaligned_checkpoints_and_a_custom_partitioner():
    """Rejected as in Flink, unless forced: then nothing is checked."""
    program = Program(parallelism=2)
    program.map(program.partition(program.source(), p.custom(identity)))
    program.stream_graph()
    with pytest.raises(InvalidProgramError, match=r"partition_custom .*unaligned\.forced"):
        program.stream_graph(checks_unaligned=True)


def test_barriers_of_an_adaptive_job_do_not_overtake_custom_partitioning():
    """Its last checkpoint may be restored at another parallelism."""
    program = Program(parallelism=2)
    behind = program.map(program.partition(program.source(), p.custom(identity)))
    beside = program.map(program.partition(program.source(), p.SHUFFLE))
    graph = program.stream_graph(is_adaptive=True)
    assert not edge_into(graph, behind).supports_unaligned_checkpoints
    assert edge_into(graph, beside).supports_unaligned_checkpoints
    assert edge_into(program.stream_graph(), behind).supports_unaligned_checkpoints


def test_partitioner_specs_are_checked():
    with pytest.raises(ValueError):
        p.PartitionerSpec("NOWHERE")
    with pytest.raises(ValueError):
        p.PartitionerSpec("KEY_GROUP")
    with pytest.raises(ValueError):
        p.PartitionerSpec("CUSTOM")


def test_empty_program_is_refused():
    with pytest.raises(InvalidProgramError, match="No operators defined"):
        Program().stream_graph()


def test_unknown_transformation_is_refused():
    program = Program()
    program.transformations.append(t.Transformation("Odd", None, 1))
    with pytest.raises(IllegalGraphStateError, match="Odd"):
        program.stream_graph()


def test_duplicate_node_id_is_refused():
    graph = word_count().stream_graph()
    with pytest.raises(IllegalGraphStateError):
        graph.add_node(next(iter(graph.nodes.values())))


def test_a_pipeline_deeper_than_the_recursion_limit():
    program = Program(parallelism=1)
    stream = program.source()
    for i in range(3000):
        stream = program.map(stream, f"m{i}")
    only_last = Program(parallelism=1)
    only_last.transformations = [stream]
    assert len(only_last.stream_graph().nodes) == 3001


class TestIterations:
    """E1: feedback edges, with head and tail sharing slots."""

    def test_head_and_tail(self):
        program = Program(parallelism=2)
        loop = t.FeedbackTransformation(program.source("S", 2), 500)
        body = program.map(loop, "Body", 2)
        loop.add_feedback_edge(body)
        program.sink(body)
        graph = program.stream_graph()
        head, tail = (
            next(n for n in graph.nodes.values() if isinstance(n.descriptor, kind))
            for kind in (operators.IterationHead, operators.IterationTail)
        )
        assert head.descriptor.iteration == tail.descriptor.iteration
        assert head.descriptor.group == tail.descriptor.group
        assert head.descriptor.wait_time_ms == 500
        assert head.co_location_group == tail.co_location_group is not None
        assert head.slot_sharing_group == tail.slot_sharing_group
        assert {e.source_id for e in graph.nodes[body.id].in_edges} == {
            program.transformations[0].id,
            head.id,
        }
        assert [e.source_id for e in tail.in_edges] == [body.id]
        job = program.job_graph()
        assert [v.parallelism for v in job.vertices.values()] == [2] * len(job.vertices)

    def test_co_iteration(self):
        program = Program(parallelism=1)
        feedback = t.CoFeedbackTransformation(1, None, 10)
        both = program.co_map(program.source("S", 1), feedback, "Both", 1)
        feedback.add_feedback_edge(program.map(both, "Back", 1))
        graph = program.stream_graph()
        assert [e.input_number for e in graph.nodes[both.id].in_edges] == [0, 1]

    def test_two_iterations_have_two_names(self):
        program = Program(parallelism=1)
        for _ in range(2):
            loop = t.FeedbackTransformation(program.source("S", 1))
            loop.add_feedback_edge(program.map(loop, "Body", 1))
        graph = program.stream_graph()
        groups = {n.co_location_group for n in graph.nodes.values() if n.co_location_group}
        assert len(groups) == 2

    def test_feedback_needs_the_heads_parallelism_and_an_edge(self):
        program = Program(parallelism=1)
        loop = t.FeedbackTransformation(program.source("S", 1))
        with pytest.raises(InvalidProgramError, match="parallelism"):
            loop.add_feedback_edge(program.map(loop, "Body", 3))
        with pytest.raises(InvalidProgramError, match="no feedback edge"):
            program.stream_graph()
