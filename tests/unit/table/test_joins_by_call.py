"""Joins by calls of Table, over columns of different types."""

import pytest

pytest.importorskip("pyarrow")

from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.expressions import col

INT = DataTypes.ROW([DataTypes.FIELD("p", DataTypes.INT()), DataTypes.FIELD("q", DataTypes.INT())])


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        (lambda a, b: a.join(b, col("i") == col("p")), {(1, 1, 10)}),
        (lambda a, b: a.join(b).where(col("i") == col("p")), {(1, 1, 10)}),
        (lambda a, b: a.join(b).where(col("i") == col("p")).where(col("q") > 10), set()),
        (lambda a, b: a.left_outer_join(b, col("i") == col("p")), {(1, 1, 10), (7, None, None)}),
        (lambda a, b: a.full_outer_join(b, col("i") == col("p")),
         {(1, 1, 10), (7, None, None), (None, 2, 20)}),
    ],
)  # fmt: skip
def test_keys_may_have_different_types(join, expected):
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", "1")
    one = tables.from_elements([(1,), (7,)], ["i"])
    made = join(one, tables.from_elements([(1, 10), (2, 20)], INT))
    left = set()
    with made.execute().collect() as rows:
        for row in rows:
            change = left.add if str(row.get_row_kind()) in ("+I", "+U") else left.remove
            change(tuple(row))
    assert left == expected
