"""Chaining and JobGraph generation (internals M38, M40)."""

import threading
from functools import partial

import pytest
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.graph import partitioners as p
from penstock.graph import transformations as t
from penstock.graph.chaining import is_chainable, why_not_chainable
from penstock.graph.job_graph import BLOCKING, PIPELINED_BOUNDED, JobEdge
from penstock.graph.transformations import ChainingStrategy
from penstock.graph.wiring import DistributionPattern
from support.graphs import Program, identity, vertex_named, vertex_names, word_count


def test_word_count():
    job = word_count().job_graph()
    assert vertex_names(job) == ["Source: Text", "Flat Map", "Count -> Sink: Print"]
    assert [v.parallelism for v in job.vertices.values()] == [1, 2, 2]
    assert job.slots_required == 2
    _, words, count = job.vertices.values()
    assert [e.ship_strategy for e in words.inputs + count.inputs] == ["REBALANCE", "HASH"]
    chain = count.load_chain()
    assert [o.name for o in chain.operators] == ["Count", "Sink: Print"]
    assert chain.operators[0].chained_outputs[0].target == 1
    assert chain.gates[0].dataset_id == words.produced[0].id
    output = words.load_chain().operators[0].network_outputs[0]
    assert (output.partition, output.partitioner.kind) == (0, "KEY_GROUP")
    assert output.partitioner.max_parallelism == count.max_parallelism == 128


def two_maps(**settings):
    program = Program(parallelism=2, **settings)
    first = program.map(program.source(), "A")
    return program, first, program.map(first, "B")


def between(graph, up, down):
    return next(e for e in graph.nodes[down.id].in_edges if e.source_id == up.id)


def is_chained(program, up, down, **settings):
    graph = program.stream_graph(**settings)
    edge = between(graph, up, down)
    assert is_chainable(edge, graph) is (why_not_chainable(edge, graph) is None)
    return is_chainable(edge, graph)


class TestConditions:
    """E3: each condition alone prevents the chaining of two operators."""

    def test_nothing_stands_in_the_way(self):
        assert is_chained(*two_maps())

    def test_chaining_disabled(self):
        assert not is_chained(*two_maps(), chaining_enabled=False)

    def test_in_degree(self):
        program, a, _ = two_maps()
        c = program.map(t.UnionTransformation([a, program.source("Other")]), "C")
        assert not is_chained(program, a, c)

    def test_slot_sharing_group(self):
        program, a, b = two_maps()
        b.slot_sharing_group = "other"
        assert not is_chained(program, a, b)

    @pytest.mark.parametrize("partitioner", [p.REBALANCE, p.RESCALE, p.key_group(identity)])
    def test_partitioner(self, partitioner):
        program, a, _ = two_maps()
        assert not is_chained(program, a, program.map(program.partition(a, partitioner)))

    def test_parallelism(self):
        program, a, _ = two_maps()
        assert not is_chained(program, a, program.map(a, "Wide", 3))

    def test_blocking_exchange(self):
        program, a, _ = two_maps()
        c = program.map(program.partition(a, p.FORWARD, p.ExchangeMode.BATCH))
        assert not is_chained(program, a, c)

    @pytest.mark.parametrize(
        ("up", "down", "chained"),
        [
            (ChainingStrategy.ALWAYS, ChainingStrategy.ALWAYS, True),
            (ChainingStrategy.HEAD, ChainingStrategy.ALWAYS, True),
            (ChainingStrategy.HEAD_WITH_SOURCES, ChainingStrategy.ALWAYS, True),
            (ChainingStrategy.NEVER, ChainingStrategy.ALWAYS, False),
            (ChainingStrategy.ALWAYS, ChainingStrategy.NEVER, False),
            (ChainingStrategy.ALWAYS, ChainingStrategy.HEAD, False),
            (ChainingStrategy.ALWAYS, ChainingStrategy.HEAD_WITH_SOURCES, False),
        ],
    )
    def test_strategies(self, up, down, chained):
        program, a, b = two_maps()
        a.chaining_strategy, b.chaining_strategy = up, down
        assert is_chained(program, a, b) is chained

    def test_head_with_sources_follows_a_source(self):
        program = Program(parallelism=1)
        source = program.source()
        mapped = program.map(source)
        mapped.chaining_strategy = ChainingStrategy.HEAD_WITH_SOURCES
        assert is_chained(program, source, mapped)

    def test_max_parallelism_counts_only_when_asked(self):
        program, a, b = two_maps()
        b.set_max_parallelism(64)
        assert is_chained(program, a, b)
        assert not is_chained(program, a, b, chain_operators_with_different_max_parallelism=False)

    @pytest.mark.parametrize("legacy", [True, False])
    def test_yielding_operator_and_legacy_source(self, legacy):
        program = Program(parallelism=1)
        mapped = program.map(program.source(legacy=legacy))
        kind = partial(operators.AsyncWait, timeout_ms=0, capacity=1, ordered=True)
        waiting = program.map(mapped, "Async", kind=kind)
        assert is_chained(program, mapped, waiting) is not legacy


def test_branching_chain_is_named_and_ordered():
    program = Program(parallelism=1)
    a = program.map(program.source(), "A")
    program.map(a, "B")
    program.map(program.map(a, "C"), "D")
    job = program.job_graph()
    assert vertex_names(job) == ["Source: Source -> A -> (B, C -> D)"]
    chain = next(iter(job.vertices.values())).load_chain()
    assert [o.name for o in chain.operators] == ["Source: Source", "A", "B", "C", "D"]
    assert [o.target for o in chain.operators[1].chained_outputs] == [2, 3]
    assert [o.target for o in chain.operators[3].chained_outputs] == [4]


def test_vertex_id_is_the_heads_operator_id():
    job = word_count(parallelism=1).job_graph()
    for vertex in job.vertices.values():
        chain = vertex.load_chain()
        assert vertex.id == chain.operators[0].id == vertex.operators[0].id
        assert [o.id for o in chain.operators] == [o.id for o in vertex.operators]


def test_outputs_that_leave_a_chain_are_numbered_in_order():
    program = Program(parallelism=2)
    a = program.map(program.source(), "A")
    b = program.map(a, "B")
    program.reduce(a, "FromA")
    program.reduce(b, "FromB")
    side = t.SideOutputTransformation(b, "late", "INT")
    program.map(program.partition(side, p.REBALANCE), "Late")
    job = program.job_graph()
    vertex = vertex_named(job, "Source: Source -> A -> B")
    outputs = {
        (o.name, n.tag): n.partition
        for o in vertex.load_chain().operators
        for n in o.network_outputs
    }
    assert outputs == {("A", None): 0, ("B", None): 1, ("B", "late"): 2}
    assert vertex_named(job, "Late").inputs[0].dataset_id == vertex.produced[2].id
    assert vertex_named(job, "Late").load_chain().gates[0].type == "INT"
    assert vertex_named(job, "FromB").inputs[0].dataset_id == vertex.produced[1].id


def test_union_order_is_that_of_the_program():
    program = Program(parallelism=1)
    sources = [program.source(n, 2) for n in "CAB"]
    program.map(t.UnionTransformation(sources), "All")
    job = program.job_graph()
    names = {d.id: v.name for v in job.vertices.values() for d in v.produced}
    vertex = vertex_named(job, "All")
    assert [names[e.dataset_id] for e in vertex.inputs] == [
        "Source: C",
        "Source: A",
        "Source: B",
    ]
    assert [g.input_number for g in vertex.load_chain().gates] == [0, 0, 0]


def test_distribution_follows_the_partitioner():
    program = Program(parallelism=2)
    source = program.source()
    program.map(program.partition(source, p.RESCALE), "Rescaled", 4)
    program.map(program.partition(source, p.BROADCAST), "Broadcast")
    job = program.job_graph()
    assert vertex_named(job, "Rescaled").inputs[0].distribution is DistributionPattern.POINTWISE
    assert vertex_named(job, "Broadcast").inputs[0].distribution is DistributionPattern.ALL_TO_ALL


def test_streaming_is_pipelined_and_batch_may_block():
    def types(**settings):
        job = word_count(**settings).job_graph()
        return {d.type for v in job.vertices.values() for d in v.produced}

    assert types() == {PIPELINED_BOUNDED}
    assert types(batch=True) == {PIPELINED_BOUNDED}
    assert types(batch=True, blocking_shuffles=True) == {BLOCKING}


def test_a_stage_does_not_wait_for_its_own_data():
    """M38: edges at which two ways from one operator join are blocking."""
    program = Program(parallelism=2, batch=True, blocking_shuffles=True)
    first = program.map(program.source(), "A")
    far = program.map(program.partition(first, p.REBALANCE), "Far")
    union = program.map(t.UnionTransformation([first, far]), "Union")
    graph = program.stream_graph()
    assert between(graph, first, union).exchange_mode is p.ExchangeMode.BATCH
    assert between(graph, far, union).exchange_mode is p.ExchangeMode.BATCH


def test_separate_inputs_of_a_union_run_in_its_stage():
    program = Program(parallelism=2, batch=True, blocking_shuffles=True)
    first, second = (program.map(program.source(name), name) for name in "AB")
    union = program.map(t.UnionTransformation([first, second]), "Union")
    assert between(program.stream_graph(), first, union).exchange_mode is p.ExchangeMode.PIPELINED


def test_co_location_and_slot_groups():
    program = Program(parallelism=3)
    a = program.source("A", 1)
    b = program.map(program.partition(a, p.REBALANCE), "B")
    a.slot_sharing_group = "left"
    b.slot_sharing_group = "right"
    b.co_location_key = "together"
    job = program.job_graph()
    assert job.slots_by_group() == {"left": 1, "right": 3}
    assert job.slots_required == 4
    assert vertex_named(job, "B").co_location_group == "together"


def test_conflicting_co_location_in_a_chain_is_refused():
    program, a, b = two_maps()
    a.co_location_key, b.co_location_key = "x", "y"
    with pytest.raises(InvalidProgramError, match="co-location"):
        program.job_graph()


def test_resources_of_a_chain_add_up():
    program, a, b = two_maps()
    a.resources, b.resources = {"cpu": 0.5}, {"cpu": 1.0, "gpu": 1}
    (vertex,) = program.job_graph().vertices.values()
    assert vertex.resources == {"cpu": 1.5, "gpu": 1}


def test_max_parallelism_of_a_vertex_is_the_heads():
    program, _, b = two_maps()
    program.transformations[0].set_max_parallelism(32)
    b.set_max_parallelism(64)
    (vertex,) = program.job_graph().vertices.values()
    assert (vertex.max_parallelism, vertex.max_parallelism_configured) == (32, True)


def test_two_input_gates_and_selectors():
    program = Program(parallelism=2)
    left = program.partition(program.source("L"), p.key_group(identity))
    right = program.partition(program.source("R"), p.key_group(len))
    both = t.TwoInputTransformation(
        left,
        right,
        "Both",
        operators.KeyedCoProcess(identity),
        None,
        key_selector1=identity,
        key_selector2=len,
    )
    program.transformations.append(both)
    chain = vertex_named(program.job_graph(), "Both").load_chain()
    assert [g.input_number for g in chain.gates] == [0, 1]
    assert chain.operators[0].key_selectors == (identity, len)


def test_an_unpicklable_function_names_its_operator():
    program = Program(parallelism=1)
    lock = threading.Lock()
    program.map(program.source(), "Fine")
    bad = program.map(program.source(), "Bad")
    bad.operator = operators.Map(lambda v: (lock, v))
    with pytest.raises(InvalidProgramError, match=r"'Bad'.*open"):
        program.job_graph()


def test_a_chain_deeper_than_the_recursion_limit():
    program = Program(parallelism=1)
    stream = program.source()
    for i in range(1500):
        stream = program.map(stream, f"m{i}")
    (vertex,) = program.job_graph().vertices.values()
    assert len(vertex.operators) == 1501
    assert vertex.name.endswith("m1498 -> m1499")


def test_vertices_are_sorted_and_a_cycle_is_refused():
    job = word_count().job_graph()
    reordered = dict(reversed(job.vertices.items()))
    job.vertices = reordered
    job.sort_topologically()
    assert vertex_names(job) == ["Source: Text", "Flat Map", "Count -> Sink: Print"]
    text, words, _ = job.vertices.values()
    text.inputs.append(
        JobEdge(words.produced[0].id, text.id, DistributionPattern.ALL_TO_ALL, "HASH")
    )
    with pytest.raises(InvalidProgramError, match="cycle"):
        job.sort_topologically()


def test_an_edge_without_producer_is_refused():
    job = word_count().job_graph()
    del job.vertices[next(iter(job.vertices))]
    with pytest.raises(InvalidProgramError, match="no vertex of the job produces"):
        job.sort_topologically()
