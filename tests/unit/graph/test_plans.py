"""Plan JSON in the form of Flink's viewer, and the plan for people."""

import json
from xml.etree import ElementTree

from penstock.graph import transformations as t
from penstock.graph.explain import explain
from penstock.graph.plan_json import plan_json
from penstock.graph.plan_svg import plan_svg
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


def test_explain_names_pickle_where_values_may_be_pickled():
    program = Program()
    program.map(program.source())
    text = explain(program.stream_graph(), program.job_graph())
    assert "type not declared: values are encoded with their Python types, and pickled" in text


class TestSvg:
    """The picture is well-formed XML with a box per vertex and an arrow per edge."""

    NS = "{http://www.w3.org/2000/svg}"

    def parts(self, program):
        root = ElementTree.fromstring(plan_svg(program.job_graph()))
        boxes = root.findall(f"{self.NS}g/{self.NS}rect")
        return root, boxes, root.findall(f"{self.NS}path[@class='edge']")

    def test_word_count(self):
        root, boxes, arrows = self.parts(word_count())
        assert (len(boxes), len(arrows)) == (3, 2)
        texts = [t.text for t in root.iter(f"{self.NS}text")]
        assert {"Source: Text", "Count", "Sink: Print", "HASH", "REBALANCE"} <= set(texts)

    def test_boxes_do_not_overlap_and_lie_inside(self):
        program = Program(parallelism=2)
        sources = [program.source(f"S{i}", 1) for i in range(3)]
        joined = program.map(t.UnionTransformation(sources), "U")
        program.reduce(joined)
        program.co_map(joined, sources[0])
        root, boxes, arrows = self.parts(program)
        assert len(arrows) == 6
        rectangles = [tuple(float(b.get(k)) for k in ("x", "y", "width", "height")) for b in boxes]
        for n, (x, y, w, h) in enumerate(rectangles):
            assert x >= 0
            assert y >= 0
            assert x + w <= float(root.get("width"))
            assert y + h <= float(root.get("height"))
            for x2, y2, w2, h2 in rectangles[n + 1 :]:
                assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y

    def test_names_are_escaped_and_shortened(self):
        program = Program(parallelism=1)
        program.source("<script>&" + "x" * 100)
        root, _, _ = self.parts(program)
        text = next(root.iter(f"{self.NS}text")).text
        assert text.startswith("Source: <script>&xx")
        assert len(text) == 40
