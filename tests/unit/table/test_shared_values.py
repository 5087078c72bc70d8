"""A part that occurs several times in expressions is computed once for the same rows."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import pyarrow as pa
from penstock.table import types
from penstock.table.functions.casts import cast_value
from penstock.table.functions.evaluation import Evaluator, Session
from penstock.table.functions.registry import call
from penstock.table.functions.rows import Rows
from penstock.table.plan.expressions import Case, Cast, Column, Literal
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, RunningQuery

NUMBER = Column(types.BigIntType(), 0, "n")
WORD = Column(TEXT, 1, "s")
BATCH = pa.RecordBatch.from_arrays(
    [pa.array([1, None, -3, 4]), pa.array(["a/b", "B/c/d", None, ""])], ["n", "s"]
)


def literal(value, kind=TEXT):
    return Literal(kind.not_null(), value)


def lower():
    return call("LOWER", WORD)


def test_equal_calls_share_a_value():
    expressions = [call("CONCAT", lower(), lower()), lower()]
    evaluator = Evaluator(expressions, Session())
    joined, lowered = evaluator.evaluate(BATCH)
    assert joined.to_pylist() == ["a/ba/b", "b/c/db/c/d", None, ""]
    assert lowered.to_pylist() == ["a/b", "b/c/d", None, ""]
    assert evaluator.reused == 2
    evaluator.evaluate(BATCH)
    assert evaluator.reused == 4


def test_a_value_of_a_condition_is_filtered():
    condition = call("=", lower(), literal("b/c/d"))
    evaluator = Evaluator([lower(), NUMBER], Session(), None, condition)
    rows = Rows(BATCH)
    kept = rows.filtered(evaluator.condition(condition, rows))
    assert kept.num_rows == 1
    assert [found.to_pylist() for found in evaluator.evaluate(kept)] == [["b/c/d"], [None]]
    assert evaluator.reused == 1
    assert kept.batch().to_pylist() == [{"n": None, "s": "B/c/d"}]
    assert rows.filtered(pa.array([True] * 4)) is rows


def test_random_numbers_are_not_shared():
    expressions = [call("RAND"), call("RAND")]
    evaluator = Evaluator(expressions, Session())
    one, other = evaluator.evaluate(BATCH)
    assert one != other
    assert evaluator.reused == 0


def test_zeros_of_both_signs_differ():
    double = types.DoubleType()
    value = Cast(double, NUMBER)
    expressions = [call("*", value, literal(zero, double)) for zero in (0.0, -0.0)]
    evaluator = Evaluator(expressions, Session())
    texts = [[str(each) for each in found.to_pylist()] for found in evaluator.evaluate(BATCH)]
    assert texts == [["0.0", "None", "-0.0", "0.0"], ["-0.0", "None", "0.0", "-0.0"]]


def test_a_known_result_of_case_is_not_computed_for_its_rows():
    part = call("SPLIT_INDEX", WORD, literal("/"), literal(1, types.IntType()))
    is_known = call("IS NOT NULL", part)
    choice = Case(TEXT, (call("=", NUMBER, literal(1, types.BigIntType())),), (WORD, part))
    evaluator = Evaluator([choice], Session(), None, is_known)
    rows = Rows(BATCH)
    kept = rows.filtered(evaluator.condition(is_known, rows))
    assert evaluator.evaluate(kept)[0].to_pylist() == ["a/b", "c"]
    assert evaluator.reused == 1


def test_parts_of_one_text_share_its_split():
    parts = [call("SPLIT_INDEX", WORD, literal("/"), literal(i, types.IntType())) for i in range(3)]
    evaluator = Evaluator(parts, Session())
    assert [found.to_pylist() for found in evaluator.evaluate(BATCH)] == [
        ["a", "B", None, None],
        ["b", "c", None, None],
        [None, "d", None, None],
    ]
    assert evaluator.reused == 2


@pytest.mark.parametrize("target", [types.IntType(), types.SmallIntType(), types.TinyIntType()])
def test_integers_wrap_as_values_do(target):
    numbers = [0, -1, 127, 128, 32_768, -(2**31) - 1, 2**63 - 1, -(2**63), None]
    batch = pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], ["n"])
    cast = Cast(target, NUMBER)
    found = Evaluator([cast], Session()).column(cast, batch).to_pylist()
    assert found == [cast_value(number, types.BigIntType(), target) for number in numbers]


@pytest.mark.parametrize(
    ("function", "more", "by_row"),
    [
        ("REPLACE", ["b", "xy"], lambda v: v.replace("b", "xy")),
        ("REPLACE", ["", "-"], lambda v: v.replace("", "-")),
        ("REVERSE", [], lambda v: v[::-1]),
        ("INITCAP", [], lambda text: text.title() if text.isascii() else "éB"),
    ],
)
def test_few_distinct_texts_are_computed_once_each(function, more, by_row):
    texts = ["abba", None, "b", "", "éb"] * 400
    batch = pa.RecordBatch.from_arrays([pa.nulls(2_000), pa.array(texts)], ["n", "s"])
    made = call(function, WORD, *map(literal, more))
    found = Evaluator([made], Session()).column(made, batch).to_pylist()
    assert found == [None if each is None else by_row(each) for each in texts]


def test_the_operator_counts_reused_values():
    table = HarnessTable.of("t", s=TEXT)
    query = RunningQuery("SELECT UPPER(s), UPPER(s) || '!' FROM t WHERE UPPER(s) <> 'B'", [table])
    query.give("t", [("a",), ("b",)])
    query.end()
    assert query.changes() == [(0, ("A", "A!"))]
    assert query.harness.metrics("Calc")["numValuesReused"] == 2
    query.close()
