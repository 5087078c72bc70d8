"""Plan JSON in the shape of Flink's viewer, and the plan for people."""

import json

from penstock.graph import transformations as t
from penstock.graph.explain import explain
from penstock.graph.plan_json import plan_json
from support.graphs import Program, word_count


def nodes_of(program):
    plan = json.loads(plan_json(program.stream_graph()))
    assert list(plan) == ["nodes"]
    return plan["nodes"]


def test_word_count_plan():
    nodes = nodes_of(word_count())
    assert [n["pact"] for n in nodes] == ["Data Source", "Operator", "Operator", "Data Sink"]
    assert [n["type"] for n in nodes] == ["Source: Text", "Flat Map", "Count", "Sink: Print"]
    assert "predecessors" not in nodes[0]
    ships = [p["ship_strategy"] for n in nodes[1:] for p in n["predecessors"]]
    assert ships == ["REBALANCE", "HASH", "FORWARD"]
    ids = {n["id"] for n in nodes}
    assert all(p["id"] in ids for n in nodes[1:] for p in n["predecessors"])


def test_sides_and_sinks_at_the_end():
    program = Program(parallelism=1)
    a, b = program.source("A"), program.source("B")
    program.sink(a, "Early")
    program.co_map(a, b, "Both")
    nodes = nodes_of(program)
    assert nodes[-1]["type"] == "Sink: Early"
    both = next(n for n in nodes if n["type"] == "Both")
    assert [p["side"] for p in both["predecessors"]] == ["first", "second"]


def test_iterations_have_no_negative_ids():
    program = Program(parallelism=1)
    loop = t.FeedbackTransformation(program.source("S", 1))
    loop.add_feedback_edge(program.map(loop, "Body", 1))
    nodes = nodes_of(program)
    assert len({n["id"] for n in nodes}) == len(nodes)
    assert all(n["id"] > 0 for n in nodes)


def test_explain_says_why_operators_are_apart():
    program = word_count()
    text = explain(program.stream_graph(), program.job_graph())
    assert "not chained: the partitioner is KEY_GROUP" in text
    assert "FORWARD, chained" in text
    assert "3. Count -> Sink: Print" in text
    assert "2 slots" in text
