"""Types of the columns of streams that become tables; they are Flink 2.3's."""

import pytest

pytest.importorskip("pyarrow")

from penstock.common import Row, RowKind, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.table import DataTypes, Schema, StreamTableEnvironment
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.expressions import col
from penstock.table.table_environment import stream_conversion


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (Types.INT(), "INT NOT NULL"),
        (Types.DOUBLE(), "DOUBLE NOT NULL"),
        (Types.BOOLEAN(), "BOOLEAN NOT NULL"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "BYTES NOT NULL"),
        (Types.MAP(Types.STRING(), Types.INT()), "MAP<STRING, INT> NOT NULL"),
        (Types.STRING(), "STRING"),
        (Types.BIG_DEC(), "DECIMAL(38, 18)"),
        (Types.ROW([Types.INT()]), "INT"),
        (Types.TUPLE([Types.INT()]), "INT NOT NULL"),
        (Types.TUPLE([Types.STRING()]), "STRING"),
    ],
)
def test_records_that_are_never_none_are_not_null(kind, column):
    env = StreamExecutionEnvironment.get_execution_environment()
    table = StreamTableEnvironment.create(env).from_data_stream(env.from_collection([], kind))
    assert str(table.get_schema()).split(": ")[1].strip() == column


def test_the_rowtime_of_a_field_is_a_timestamp_without_a_zone():
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([], Types.ROW_NAMED(["a"], [Types.INT()]))
    table = StreamTableEnvironment.create(env).from_data_stream(stream, col("a"), col("t").rowtime)
    assert str(table.get_schema()).splitlines()[2] == " |-- t: TIMESTAMP(3) *ROWTIME*"


def test_a_primary_key_is_declared_not_null():
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([], Types.ROW_NAMED(["a"], [Types.INT()]))
    tables = StreamTableEnvironment.create(env)
    for kind, refused in ((DataTypes.INT(), True), (DataTypes.INT().not_null(), False)):
        schema = Schema.new_builder().column("a", kind).primary_key("a").build()
        if refused:
            with pytest.raises(ValidationException, match="Column 'a' is nullable"):
                tables.from_data_stream(stream, schema)
        else:
            assert tables.from_data_stream(stream, schema).get_schema().get_field_names() == ["a"]


def test_the_key_of_columns_that_a_stream_has_is_not_null():
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([], Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]))
    schema = Schema.new_builder().primary_key("a").build()
    table = StreamTableEnvironment.create(env).from_changelog_stream(stream, schema)
    assert str(table.get_schema()).splitlines()[1:3] == [" |-- a: INT NOT NULL", " |-- b: INT"]


def test_columns_that_expressions_select_are_nullable():
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([], Types.TUPLE([Types.INT(), Types.LONG()]))
    tables = StreamTableEnvironment.create(env)
    for fields in ((col("a"), col("b")), (col("f0"), col("f1"))):
        shown = str(tables.from_data_stream(stream, *fields).get_schema())
        assert [line.split(": ")[1] for line in shown.splitlines()[1:3]] == ["INT", "BIGINT"]


def test_a_single_column_has_the_name_of_the_field():
    env = StreamExecutionEnvironment.get_execution_environment()
    schema = Schema.new_builder().column("n", DataTypes.INT()).build()
    with pytest.raises(ValidationException, match="a field named 'n'"):
        StreamTableEnvironment.create(env).from_data_stream(
            env.from_collection([], Types.INT()), schema
        )


def test_columns_of_program_rows_have_different_names():
    env = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(env)
    with pytest.raises(ValidationException, match=r"unique. Found duplicates: \['a'\]"):
        tables.from_elements([(1, 2)], ["a", "a"])


def test_records_without_a_declared_type_are_a_column_of_python_objects():
    env = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(env)
    tables.create_temporary_view("v", env.from_collection([(1, "a"), {2}]))
    described = [tuple(row) for row in tables.execute_sql("DESCRIBE v").collect()]
    assert described == [("f0", "RAW('[B', '...')", True, None, None, None)]
    assert repr(tables.from_path("v").get_schema().get_field_data_type("f0")) == "RawType(true)"
    tables.get_config().set("execution.target", "in-process")
    assert [row[0] for row in tables.from_path("v").execute().collect()] == [(1, "a"), {2}]
    assert list(tables.from_path("v").to_pandas()["f0"]) == [(1, "a"), {2}]


def test_a_stream_of_insertions_refuses_other_kinds():
    kind = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())])
    rows = stream_conversion.StreamRows(kind, True, False, None)
    record = Row(1)
    assert rows.row_of(record, None) == (0, [1])
    record.set_row_kind(RowKind.UPDATE_BEFORE)
    with pytest.raises(TableException, match=r"insert-only.*UPDATE_BEFORE"):
        rows.row_of(record, None)


def test_a_schema_for_a_changelog_names_all_columns():
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([], Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]))
    tables = StreamTableEnvironment.create(env)
    schema = Schema.new_builder().column("b", DataTypes.BIGINT()).build()
    with pytest.raises(ValidationException, match="Different number of columns"):
        tables.to_changelog_stream(tables.from_data_stream(stream), schema)
