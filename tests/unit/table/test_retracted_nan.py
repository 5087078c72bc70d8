"""Rows with NaN are retracted as others are: NaN equals NaN, as in Java."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.table.functions.row_equality import equal_to
from penstock.table.plan.nodes import DELETE, INSERT
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, run, settled


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        (
            "SELECT k, f FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY f DESC) AS n "
            "FROM t) WHERE n = 1",
            ("a", 1.0),
        ),
        ("SELECT k, f FROM t ORDER BY f LIMIT 5", ("a", 1.0)),
        ("SELECT k, FIRST_VALUE(f), LAST_VALUE(f) FROM t GROUP BY k", ("a", 1.0, 1.0)),
        ("SELECT k, MAX(f), COUNT(DISTINCT f) FROM t GROUP BY k", ("a", 1.0, 1)),
    ],
)
def test_a_retracted_row_with_nan_is_gone(sql, left):
    table = HarnessTable.of("t", kinds=(0, 1, 2, 3), k=TEXT, f=types.DoubleType())
    changes = [(INSERT, "a", float("nan")), (INSERT, "a", 1.0), (DELETE, "a", float("nan"))]
    found = run(sql, [table], [("t", changes)])
    # As texts, since changes are settled by equality.
    kept = settled([(kind, tuple(map(str, row))) for kind, row in found])
    assert dict(kept) == {tuple(map(str, left)): 1}


def test_rows_are_equal_by_their_values():
    row = ("a", float("nan"), None)
    assert equal_to(row)(("a", float("nan"), None))
    assert not equal_to(row)(("a", 1.0, None))
    assert equal_to(("a", 1))(("a", 1))
    assert not equal_to(("a", 1))(("b", 1))
