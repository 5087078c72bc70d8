"""Operator ids (internals M39, M73): invariants E-1 to E-3 and the golden vectors."""

import subprocess
import sys

import pytest
from penstock.errors import InvalidProgramError
from penstock.graph.chaining import is_chainable
from penstock.graph.stream_graph_hasher import (
    StreamGraphHasher,
    murmur3_128,
    uid_to_operator_id,
)
from penstock.graph.transformations import ChainingStrategy
from support.graphs import Program, word_count


def ids_of(program, **settings):
    graph = program.stream_graph(**settings)
    ids = StreamGraphHasher(graph).operator_ids()
    return {graph.nodes[n].name: i.hex() for n, i in ids.items()}


def test_murmur3_known_values():
    assert murmur3_128(b"") == bytes(16)
    assert murmur3_128(b"hello").hex() == "029bbd41b3a7d8cb191dae486a901e5b"


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        ("source", "e5a72f353fc1e6bbf3bd96a41384998c"),
        ("my-uid", "8409efe6adc6d20787611f16017c808f"),
    ],
)
def test_uid_golden(uid, expected):
    assert uid_to_operator_id(uid).hex() == expected


def test_auto_ids_golden_unchained():
    program = Program(parallelism=1)
    program.map(program.map(program.source(), "First"), "Second")
    ids = ids_of(program, chaining_enabled=False)
    assert ids["Source: Source"] == "bc764cd8ddf7a0cff126f51c16239658"
    assert ids["First"] == "0a448493b4782967b150582570326227"


def test_auto_ids_golden_chained():
    program = Program(parallelism=1)
    program.map(program.source(), "First")
    ids = ids_of(program)
    assert ids["Source: Source"] == "cbc357ccb763df2852fee8c4fc7d55f2"
    assert ids["First"] == "7df19f87deec5680128845fd9a6ca18d"


def test_auto_ids_golden_second_with_chained_successor():
    program = Program(parallelism=1)
    first = program.map(program.source(), "First")
    first.chaining_strategy = ChainingStrategy.HEAD
    program.map(first, "Second")
    ids = ids_of(program)
    assert ids["Source: Source"] == "bc764cd8ddf7a0cff126f51c16239658"
    assert ids["First"] == "20ba6b65f97481d5570070de90e4e791"


@pytest.mark.process
def test_e1_deterministic_across_processes():
    """E-1: another interpreter, with another hash seed, computes the same ids."""
    code = (
        "from support.graphs import word_count\n"
        "from penstock.graph.stream_graph_hasher import StreamGraphHasher\n"
        "g = word_count().stream_graph()\n"
        "print(sorted(i.hex() for i in StreamGraphHasher(g).operator_ids().values()))"
    )
    path = [p for p in sys.path if p]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}\n{code}"],
            capture_output=True,
            check=True,
            text=True,
            timeout=240,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    graph = word_count().stream_graph()
    assert outputs == {
        str(sorted(i.hex() for i in StreamGraphHasher(graph).operator_ids().values())) + "\n"
    }


def test_e2_changes_downstream_leave_upstream_ids_alone():
    """E-2, for additions that do not change the chaining upstream."""
    first = word_count()
    second = word_count()
    last = second.transformations[-1].input
    second.sink(second.reduce(last, "More"), "Another")
    before, after = ids_of(first), ids_of(second)
    assert all(after[name] == id_ for name, id_ in before.items() if name != "Sink: Print")


def test_e3_identical_sources_and_nodes_get_distinct_ids():
    program = Program(parallelism=1)
    sources = [program.source() for _ in range(3)]
    for source in sources:
        program.map(source)
        program.map(source)
    graph = program.stream_graph()
    ids = StreamGraphHasher(graph).operator_ids()
    assert len(set(ids.values())) == len(graph.nodes) == 9


def test_names_and_parallelism_do_not_count():
    def program(name, parallelism):
        p = Program(parallelism=parallelism)
        p.sink(p.map(p.source(), name))
        return sorted(ids_of(p).values())

    assert program("A", 1) == program("B", 7)


def test_chaining_counts():
    program = word_count(parallelism=1)
    chained = ids_of(program)
    unchained = ids_of(program, chaining_enabled=False)
    assert chained["Source: Text"] != unchained["Source: Text"]


def test_manual_ids_survive_changes():
    first, second = word_count(), word_count(parallelism=5)
    for program in (first, second):
        program.transformations[1].uid = "words"
    assert ids_of(first)["Flat Map"] == ids_of(second, chaining_enabled=False)["Flat Map"]


def test_same_uid_twice_collides():
    program = word_count()
    program.transformations[1].uid = "same"
    program.transformations[2].uid = "same"
    with pytest.raises(InvalidProgramError, match="Hash collision on user-specified ID"):
        StreamGraphHasher(program.stream_graph()).operator_ids()


def test_an_empty_uid_is_refused():
    """Rejected when the job starts, as in Flink: it would be an unintended name."""
    program = word_count()
    program.transformations[1].uid = ""
    with pytest.raises(InvalidProgramError, match="'Flat Map' has an empty uid"):
        StreamGraphHasher(program.stream_graph()).operator_ids()


def test_same_uid_hash_twice_collides():
    program = word_count()
    for transformation in program.transformations[1:3]:
        transformation.set_uid_hash("0" * 31 + "a")
    with pytest.raises(InvalidProgramError, match="Hash collision on user-specified ID"):
        StreamGraphHasher(program.stream_graph()).operator_ids()


def test_uid_hash_does_not_replace_the_id():
    program, same = word_count(), word_count()
    program.transformations[1].set_uid_hash("ab" * 16)
    assert ids_of(program) == ids_of(same)


def test_malformed_uid_hash_is_refused():
    with pytest.raises(InvalidProgramError, match="32 lower-case hex"):
        word_count().transformations[0].set_uid_hash("XYZ")


def test_without_auto_ids_every_operator_needs_a_uid():
    program = word_count()
    for transformation in program.transformations[:-1]:
        transformation.uid = transformation.name
    graph = program.stream_graph()
    with pytest.raises(InvalidProgramError, match="'Sink: Print' has no uid"):
        StreamGraphHasher(graph, auto_generate=False).operator_ids()
    program.transformations[-1].set_uid_hash("ab" * 16)
    assert StreamGraphHasher(program.stream_graph(), auto_generate=False).operator_ids()


def test_a_node_is_visited_after_all_of_its_inputs():
    """The join of a short and a long path is hashed after both paths."""
    program = Program(parallelism=1)
    short, long = program.source("Short"), program.source("Long")
    for _ in range(4):
        long = program.map(long)
    program.co_map(short, long, "Join")
    graph = program.stream_graph()
    assert len(StreamGraphHasher(graph).operator_ids()) == len(graph.nodes)
    assert not any(is_chainable(e, graph) for e in graph.nodes[short.id].out_edges)
