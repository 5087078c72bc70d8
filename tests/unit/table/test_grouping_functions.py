"""GROUPING, GROUPING_ID and GROUP_ID tell the rows of grouping sets apart."""

import pytest
from penstock.table import types
from penstock.table.exceptions import ValidationException
from unit.table.planning import TEXT, plan
from unit.table.running import HarnessTable, run, settled


@pytest.mark.parametrize("is_streaming", [True, False])
def test_each_set_has_its_numbers(is_streaming):
    table = HarnessTable.of("t", k=TEXT, v=types.IntType())
    found = run(
        "SELECT k, GROUPING(k), GROUPING_ID(k, v), GROUP_ID(), COUNT(*) FROM t "
        "GROUP BY GROUPING SETS ((k), (k), (k, v), ()) HAVING GROUP_ID() < 2",
        [table],
        [("t", [("a", 5), ("a", 6)])],
        is_streaming=is_streaming,
    )
    assert dict(settled(found)) == {
        ("a", 0, 1, 0, 2): 1,
        ("a", 0, 1, 1, 2): 1,
        ("a", 0, 0, 0, 1): 2,
        (None, 1, 3, 0, 2): 1,
    }


def test_they_need_groups():
    with pytest.raises(ValidationException, match="GROUP_ID needs GROUP BY"):
        plan("SELECT GROUP_ID() FROM orders")
    with pytest.raises(ValidationException, match="GROUP_ID takes no arguments"):
        plan("SELECT GROUP_ID(k) FROM orders GROUP BY k")
