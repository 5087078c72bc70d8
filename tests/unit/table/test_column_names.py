"""Names and types of columns that expressions of the Table API make; they are Flink 2.3's."""

import pytest
from penstock.common import Row
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.exceptions import ValidationException
from penstock.table.expressions import col, lit
from penstock.table.udf import udf
from penstock.table.window import Tumble


@pytest.fixture(scope="module")
def table():
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        "CREATE TABLE t (id INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
        "WITH ('connector' = 'datagen')"
    )
    return made.from_path("t")


def _names(table):
    return table.get_schema().get_field_names()


def test_aggregates_are_numbered(table):
    grouped = table.group_by(table.k)
    found = grouped.select(
        table.k,
        table.id.sum,
        table.id.avg.alias("mean"),
        table.id.max,
        table.id.max - table.id.min,
        table.id.count.distinct,
    )
    assert _names(found) == ["k", "EXPR$0", "mean", "EXPR$2", "_c4", "EXPR$4"]
    assert _names(table.select(table.id.sum)) == ["EXPR$0"]


def test_properties_of_windows_are_numbered_with_the_aggregates(table):
    window = Tumble.over(lit(10).seconds).on(table.ts).alias("w")
    found = table.window(window).group_by(col("w"), table.k)
    w = col("w")
    assert _names(found.select(table.k, w.start, w.end, table.id.sum)) == [
        *("k", "EXPR$0", "EXPR$1", "EXPR$2")
    ]
    assert _names(found.select(w.start.alias("from"), table.id.sum)) == ["from", "EXPR$1"]


def test_a_cast_column_is_named_by_its_type(table):
    found = table.select(
        table.id.cast(DataTypes.STRING()),
        table.ts.cast(DataTypes.TIME()),
        table.k.try_cast(DataTypes.INT()),
        (table.id + 1).cast(DataTypes.STRING()),
    )
    assert _names(found) == ["id-STRING", "ts-TIME(0)", "_c2", "_c3"]


def test_a_value_is_added_to_a_text_but_no_text_to_a_number(table):
    found = table.select(table.k + table.id, table.k + "x")
    assert [str(kind) for kind in found.get_schema().get_field_data_types()] == ["STRING"] * 2
    with pytest.raises(ValidationException, match=r"Cannot apply '\+'"):
        table.select(table.id + table.k)


def test_fields_are_named_only_within_columns(table):
    made = udf(lambda x: Row(x, x), result_type="ROW<a INT, b INT>")
    found = table.select(made(table.id).get("a"), made(table.id).flatten)
    assert _names(found) == ["_c0", "_c1", "_c2"]


def test_the_schema_shows_time_attributes(table):
    assert str(table.select(table.ts).get_schema()) == "root\n |-- ts: TIMESTAMP(3) *ROWTIME*\n"
    assert table.get_schema().get_field_data_type("ts") == DataTypes.TIMESTAMP(3)


def test_arguments_of_functions_are_not_narrowed(table):
    made = udf(lambda x: x, input_types=[DataTypes.BIGINT()], result_type=DataTypes.BIGINT())
    assert _names(table.select(made(table.id))) == ["_c0"]
    with pytest.raises(ValidationException, match="takes BIGINT, got <DOUBLE"):
        table.select(made(table.id.cast(DataTypes.DOUBLE())))
    decimal = udf(lambda x: x, input_types=["DECIMAL(5, 1)"], result_type="BIGINT")
    single = udf(lambda x: x, input_types=[DataTypes.FLOAT()], result_type="BIGINT")
    double = table.id.cast(DataTypes.DOUBLE())
    found = table.select(decimal(double), single(table.id.cast(DataTypes.DECIMAL(5, 1))))
    assert _names(found) == ["_c0", "_c1"]
    with pytest.raises(ValidationException, match="takes FLOAT, got <DOUBLE"):
        table.select(single(double))
