"""Joins by calls of Table, and the types and names of its columns."""

import pytest

pytest.importorskip("pyarrow")

from penstock.common import Row
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.exceptions import ValidationException
from penstock.table.expressions import col, from_unixtime, if_then_else, lit, row, to_timestamp
from penstock.table.udf import AggregateFunction, udaf

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


def test_a_join_has_an_equality():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    one, other = (tables.from_elements([(1,)], [name]) for name in "ab")
    with pytest.raises(ValidationException, match="At least one equi-join predicate"):
        one.join(other, col("a") > col("b"))


@pytest.mark.parametrize("names", [("x", "y"), ("x, y",)])
def test_alias_takes_names_one_by_one_or_in_a_text(names):
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made = tables.from_elements([(1, 2, 3)], ["a", "b", "c"]).alias(*names)
    assert made.get_schema().get_field_names() == ["x", "y", "c"]


def test_results_of_conditions_and_fields_have_types_and_names_of_flink():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    one = tables.from_elements([(1,)], ["a"])
    made = one.select(if_then_else(col("a") > 1, "big", "small").alias("s"))
    assert str(made.get_schema()).splitlines()[1] == " |-- s: VARCHAR(5) NOT NULL"
    fields = one.select(row(col("a")).alias("r")).select(col("r").get(0), col("r").get("f0"))
    assert fields.get_schema().get_field_names() == ["r$_0", "r$f0"]


def test_texts_of_calls_are_strings():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    one = tables.from_elements([(1,)], ["a"])
    made = one.select(
        lit("ab").upper_case, lit("ab").substring(1), from_unixtime(lit(0)),
        lit("http://h").parse_url("HOST"), to_timestamp("2024-01-02", "yyyy-MM-dd"),
    )  # fmt: skip
    assert [str(kind) for kind in made.get_schema().get_field_data_types()] == [
        *["STRING NOT NULL"] * 4,
        "TIMESTAMP(3) NOT NULL",
    ]


class _Totals(AggregateFunction):
    def create_accumulator(self):
        return [0]

    def accumulate(self, accumulator, row):
        accumulator[0] += row[0]

    def get_value(self, accumulator):
        return Row(accumulator[0], 1)

    def get_result_type(self):
        return INT

    def get_accumulator_type(self):
        return DataTypes.ARRAY(DataTypes.BIGINT())


def test_fields_of_a_row_aggregate_without_names_have_those_of_flink():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    one = tables.from_elements([(1, "x")], ["a", "k"])
    made = one.group_by(col("k")).aggregate(udaf(_Totals())).select(col("*"))
    assert made.get_schema().get_field_names() == ["k", "TMP_0$p", "TMP_0$q"]


def test_null_is_the_greatest_value_of_order_by():
    """In SQL, it is the least."""
    env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    rows = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())])
    table = env.from_elements([(2,), (None,), (1,)], rows)
    for order, expected in ((col("a"), [1, 2, None]), (col("a").desc, [None, 2, 1])):
        with table.order_by(order).execute().collect() as found:
            assert [row[0] for row in found] == expected
