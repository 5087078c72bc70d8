"""Patterns that Arrow matches extract the texts that Python's regular expressions extract."""

import re

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.table.functions.evaluation import Evaluator, Session
from penstock.table.functions.plain_patterns import re2_pattern
from penstock.table.functions.registry import table
from penstock.table.plan.expressions import Column, Literal
from penstock.table.types import DataTypes

PARTS = [
    "a",
    "b",
    "=",
    "é",
    ".",
    "\\.",
    "[ab]",
    "[^b]",
    "[a-c=]",
    "(",
    ")",
    "|",
    "^",
    "*",
    "+?",
    "?",
]
TEXTS = [None, "", "a", "ab=b", "aab", "b=a", "é.a\nb", "abc=abcabc", "\n", "==", "x" * 40]


def extracted(texts, pattern, group):
    """Return what REGEXP_EXTRACT returns for each text, and for single texts without Arrow."""
    arguments = (
        Column(DataTypes.STRING(), 0, "t"),
        Literal(DataTypes.STRING(), pattern),
        Literal(DataTypes.INT(), group),
    )
    function = table()["REGEXP_EXTRACT"]
    call = function.call(arguments, ())
    constants = [pa.scalar(pattern), pa.scalar(group, pa.int32())]
    found = function.kernel([pa.array(texts, pa.string()), *constants], len(texts), call)
    single = [
        function.kernel([pa.scalar(text, pa.string()), *constants], 1, call)[0] for text in texts
    ]
    return found.to_pylist(), [value.as_py() for value in single]


@settings(max_examples=300, deadline=None, database=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join), st.integers(0, 2))
def test_arrow_extracts_as_python_does(pattern, group):
    try:
        re.compile(pattern)
    except re.error:
        return
    found, single = extracted(TEXTS, pattern, group)
    assert found == single


@pytest.mark.parametrize(
    ("pattern", "group", "expected"),
    [
        ("(&|^)channel_id=([^&]*)", 2, "(?:&|^)channel_id=(?P<found>[^&]*)"),
        ("a+b", 0, "(?P<found>a+b)"),
        ("(a|b)=(c)", 1, "(?P<found>a|b)=(?:c)"),
        ("((a)|b)", 2, None),
        ("a|(b)", 1, None),
        ("(a)*", 1, None),
        ("(a)", 2, None),
        ("a$", 0, None),
        ("\\d", 0, None),
        ("a++", 0, None),
        ("(?i)a", 0, None),
        ("a{2}", 0, None),
        ("[[a]", 0, None),
        ("a)", 0, None),
        ("[z-a]", 0, None),
        ("\\—", 0, None),
        ("[a\\—]", 0, None),
        ("\\-[\\]]", 0, "(?P<found>\\-[\\]])"),
    ],
)
def test_only_patterns_with_one_meaning_are_arrows(pattern, group, expected):
    assert re2_pattern(pattern, group) == expected


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("texts", [["a/b/c", None, "//"], ["a/b", "", "a"], [None], ["", ""]])
def test_arrow_splits_as_python_does(texts, position):
    call = table()["SPLIT_INDEX"].call(
        (
            Column(DataTypes.STRING(), 0, "t"),
            Literal(DataTypes.STRING(), "/"),
            Literal(DataTypes.INT(), position),
        )
    )
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], ["t"])
    found = Evaluator([call], Session()).column(call, batch)
    parts = [text.split("/") if text else [] for text in texts]
    assert found.to_pylist() == [each[position] if position < len(each) else None for each in parts]
