"""QUALIFY keeps the rows whose functions with OVER fulfil a condition."""

import pytest
from penstock.columns.record_batches import LEAST_ROWS
from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.plan import nodes as n
from unit.table.planning import TEXT, plan
from unit.table.running import HarnessTable, run, settled

ROWS = [(1, "a", 5), (2, "a", 6), (3, "b", 1), (4, "b", 9)]

QUERIES = {
    "SELECT id FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) = 1": [(2,), (4,)],
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS v FROM t QUALIFY v <= 1": [
        *((1, 1), (3, 1))
    ],
    "SELECT k, SUM(v) FROM t WHERE id > 1 GROUP BY k HAVING SUM(v) > 6 "
    "QUALIFY ROW_NUMBER() OVER (ORDER BY SUM(v) DESC) = 1": [("b", 10)],
    "SELECT DISTINCT k FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) < 3": [
        *(("a",), ("b",))
    ],
}


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize("sql", QUERIES)
def test_rows_are_kept_by_functions_with_over(sql, is_streaming):
    table = HarnessTable.of("t", id=types.IntType(), k=TEXT, v=types.IntType())
    found = settled(
        run(sql, [table], [("t", ROWS[:3]), ("t", ROWS[3:])], is_streaming=is_streaming)
    )
    assert sorted(found.elements()) == QUERIES[sql]


def test_a_bound_of_row_numbers_is_planned_as_top_n():
    node = plan("SELECT id FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) <= 3")
    assert isinstance(node.inputs[0], n.Rank)


@pytest.mark.parametrize("number", [1, LEAST_ROWS])
@pytest.mark.parametrize(("last", "kinds"), [(1, [0, 1, 2]), (2, [0, 0, 3, 0])])
def test_a_single_first_row_is_updated_and_several_are_replaced(number, last, kinds):
    """Row by row and by columns, with the row kinds of Flink."""
    table = HarnessTable.of("t", id=types.IntType(), k=TEXT, v=types.IntType())
    sql = f"SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= {last}"
    given = [("t", [(i, f"k{k}", 9 - i) for k in range(number)]) for i in range(last + 1)]
    found = run(sql, [table], given)
    assert [kind for kind, row in found if row[1] == "k0"] == kinds


@pytest.mark.parametrize(
    ("clause", "rest"), [("WHERE", ""), ("HAVING", "GROUP BY id"), ("GROUP BY", "")]
)
def test_over_is_refused_in_clauses_that_come_before_it(clause, rest):
    sql = "SELECT COUNT(*) FROM orders {} {} ROW_NUMBER() OVER (PARTITION BY id ORDER BY id) = 1"
    with pytest.raises(ValidationException, match=f"Windowed .* illegal in {clause} clause"):
        plan(sql.format(rest, clause))


def test_a_condition_without_over_belongs_in_where():
    with pytest.raises(ValidationException, match=r"QUALIFY .* must contain a window function"):
        plan("SELECT id FROM orders QUALIFY id = 1")
