"""PERCENTILE returns the results that Flink 2.3 returns."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.table.exceptions import ValidationException
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, run, settled

#: The rows of the recording.
ROWS = [(1, "a", 10), (2, "b", None), (3, "a", 30), (4, None, 40), (5, "c", 20)]
UPDATED = [(0, *row) for row in ROWS] + [(0, 6, "a", 90), (3, 6, "a", 90)]


def changes(sql, rows=ROWS, **settings):
    kinds = (0,) if len(rows[0]) == 3 else (0, 1, 2, 3)
    table = HarnessTable.of("t", kinds, id=types.IntType(), k=TEXT, v=types.IntType())
    made = run(sql, [table], [("t", [row]) for row in rows], **settings)
    return settled([(kind, map(str, row)) for kind, row in made])


@pytest.mark.parametrize("rows", [ROWS, UPDATED])
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("PERCENTILE(v, 0.5)", "25.0"),
        ("PERCENTILE(v, ARRAY[0.25, 0.75])", "[17.5, 32.5]"),
        ("PERCENTILE(v, 0.5, id)", "30.0"),
    ],
)
def test_all_rows(call, expected, rows):
    assert list(changes(f"SELECT {call} FROM t", rows)) == [(expected,)]


def test_collected_rows_of_null_alone_are_an_empty_multiset():
    made = changes("SELECT k, COLLECT(v) FROM t GROUP BY k")
    assert set(made) == {
        *(("None", "[(40, 1)]"), ("a", "[(10, 1), (30, 1)]"), ("b", "[]"), ("c", "[(20, 1)]"))
    }


def test_groups():
    made = changes("SELECT k, PERCENTILE(v, 0.5) FROM t GROUP BY k", is_streaming=False)
    assert set(made) == {("None", "40.0"), ("a", "20.0"), ("b", "None"), ("c", "20.0")}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("PERCENTILE(v, 1.5)", r"share between 0 and 1, got 1\.5"),
        ("PERCENTILE(v, ARRAY[0.5, -1])", "share between 0 and 1"),
        ("PERCENTILE(k, 0.5)", "Cannot apply 'PERCENTILE'"),
        ("PERCENTILE(v, 'x')", "a number or an array of numbers"),
        ("PERCENTILE(v, 0.5, 0.5)", "an integer as the frequency"),
        ("LISTAGG(k) WITHIN GROUP (ORDER BY v)", "'LISTAGG' must not contain a WITHIN GROUP"),
    ],
)
def test_invalid_calls_are_rejected(call, message):
    with pytest.raises(ValidationException, match=message):
        changes(f"SELECT {call} FROM t")


def test_other_aggregates_of_flink():
    made = changes("SELECT APPROX_COUNT_DISTINCT(k), SINGLE_VALUE(v) FROM t WHERE id = 1")
    assert list(made) == [("1", "10")]
