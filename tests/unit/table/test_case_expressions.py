"""CASE has the values of the first true condition, however it is evaluated."""

import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, run

ROWS = [
    (n, random.Random(n).choice([None, *range(5)]), random.Random(-n).choice([None, *"abC"]))
    for n in range(64)
]


def table():
    return HarnessTable.of("t", i=types.IntType(), n=types.BigIntType(), s=TEXT)


def first(row, *pairs):
    """Return the result of the first pair whose condition is true, else the last result."""
    *cases, otherwise = pairs
    return next((result for condition, result in cases if condition), otherwise)


def equals(one, other):
    return one is not None and one == other


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "CASE WHEN n = 1 THEN 'one' WHEN LOWER(s) = 'c' OR n > 3 THEN s ELSE 'other' END",
            lambda i, n, s: first(
                i, (equals(n, 1), "one"), (s == "C" or (n is not None and n > 3), s), "other"
            ),
        ),
        (
            "CASE s WHEN 'a' THEN 1 WHEN 'b' THEN n END",
            lambda i, n, s: first(i, (s == "a", 1), (s == "b", n), None),
        ),
        (
            "CASE WHEN n IS NULL THEN -1 WHEN n = 0 THEN 0 WHEN 8 / n > 3 THEN 8 / n ELSE n END",
            lambda i, n, s: -1 if n is None else 0 if n == 0 else 8 // n if 8 // n > 3 else n,
        ),
        (
            "CASE WHEN i > 100 THEN 'never' ELSE UPPER(s) END",
            lambda i, n, s: None if s is None else s.upper(),
        ),
        (
            "CASE WHEN CAST(n AS DOUBLE) * 0.5E0 > 1.0E0 AND CAST(n AS DOUBLE) < 4.0E0 THEN i END",
            lambda i, n, s: i if n is not None and n * 0.5 > 1 and n < 4 else None,
        ),
    ],
)
def test_the_first_true_condition_decides(sql, expected):
    found = run(f"SELECT i, {sql} FROM t", [table()], [("t", ROWS)])
    assert [row for _, row in found] == [(row[0], expected(*row)) for row in ROWS]
