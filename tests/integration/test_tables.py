"""Tables end to end: statements run as jobs, connectors read and write, streams become tables."""

import datetime
import io
from contextlib import redirect_stdout

import pytest
from penstock.common import Instant, Row, RowKind, Types
from penstock.datastream import ProcessFunction, StreamExecutionEnvironment
from penstock.errors import JobExecutionError, SinkError
from penstock.table import (
    DataTypes,
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    TableEnvironment,
)
from penstock.table.changelog_mode import ChangelogMode
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.expressions import col, lit
from penstock.table.udf import TableAggregateFunction, udf, udtaf, udtf


@pytest.fixture(autouse=True)
def _in_process(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")


@pytest.fixture
def tables():
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", "1")
    made.get_config().set("table.local-time-zone", "UTC")
    return made


def _rows(result):
    with result.collect() as rows:
        return [(str(row.get_row_kind()), *row) for row in rows]


def _lines(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._")
    return sorted(line for path in files for line in path.read_text().splitlines())


def test_elements_are_queried_by_calls_and_in_sql(tables):
    table = tables.from_elements([(1, "a"), (2, "b")], ["n", "s"])
    assert _rows(
        table.where(col("n") > 1).select(col("s"), (col("n") * 2).alias("m")).execute()
    ) == [("+I", "b", 4)]
    found = tables.sql_query(f"SELECT s || 'x' AS t FROM {table} WHERE n = 1")
    assert found.get_schema().get_field_names() == ["t"]
    assert _rows(found.execute()) == [("+I", "ax")]
    with pytest.raises(AttributeError, match="available columns"):
        _ = table.nothing


def test_an_updating_result_is_printed_with_its_changes(tables):
    table = tables.from_elements([("a", 1), ("a", 2)], ["k", "n"])
    out = io.StringIO()
    with redirect_stdout(out):
        table.group_by(col("k")).select(col("k"), col("n").sum.alias("total")).execute().print()
    assert out.getvalue().splitlines()[3:-2] == [
        "| +I |                              a |                    1 |",
        "| -U |                              a |                    1 |",
        "| +U |                              a |                    3 |",
    ]
    frame = table.group_by(col("k")).select(col("k"), col("n").sum.alias("total")).to_pandas()
    assert frame.to_dict("records") == [{"k": "a", "total": 3}]


def test_files_are_written_in_partitions_and_read_again(tables, tmp_path):
    folder = tmp_path / "out"
    tables.execute_sql(
        "CREATE TABLE f (id INT, d STRING, twice AS id * 2) PARTITIONED BY (d) WITH "
        f"('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json')"
    )
    tables.execute_sql("INSERT INTO f VALUES (1, 'x'), (2, 'y')").wait()
    tables.execute_sql("INSERT INTO f PARTITION (d = 'z') SELECT 3").wait()
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["d=x", "d=y", "d=z"]
    assert _lines(folder) == ['{"id":1}', '{"id":2}', '{"id":3}']
    found = _rows(tables.execute_sql("SELECT id, d, twice FROM f"))
    assert sorted(found) == [("+I", 1, "x", 2), ("+I", 2, "y", 4), ("+I", 3, "z", 6)]


def test_only_used_columns_are_parsed(tables, tmp_path):
    (tmp_path / "rows.csv").write_text("1,x\n2,y\n")
    tables.execute_sql(
        "CREATE TABLE f (a INT, b INT) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    assert _rows(tables.execute_sql("SELECT a + 1 FROM f WHERE a > 1")) == [("+I", 3)]
    with pytest.raises(Exception, match="column `b`"):
        _rows(tables.execute_sql("SELECT b FROM f"))


def test_an_updating_query_needs_a_table_that_takes_changes(tables, tmp_path):
    tables.create_temporary_view("v", tables.from_elements([("a",), ("a",)], ["k"]))
    for name, kind in (("plain", "json"), ("changes", "debezium-json")):
        tables.execute_sql(
            f"CREATE TABLE {name} (k STRING, n BIGINT) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path / name}', 'format' = '{kind}')"
        )
    query = "SELECT k, COUNT(*) FROM v GROUP BY k"
    with pytest.raises(TableException, match=r"doesn't support consuming update .*GroupAggregate"):
        tables.execute_sql(f"INSERT INTO plain {query}")
    tables.execute_sql(f"INSERT INTO changes {query}").wait()
    assert [line[-4:-1] for line in _lines(tmp_path / "changes")] == ['"c"', '"c"', '"d"']


@pytest.mark.parametrize("mode", ["ERROR", "DROP"])
def test_not_null_columns_are_enforced(tables, tmp_path, mode):
    tables.get_config().set("table.exec.sink.not-null-enforcer", mode)
    kind = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())])
    table = tables.from_elements([(1,), (None,)], kind)
    tables.execute_sql(
        "CREATE TABLE f (a INT NOT NULL) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    if mode == "DROP":
        table.execute_insert("f").wait()
        assert _lines(tmp_path) == ["1"]
        return
    with pytest.raises((SinkError, JobExecutionError), match="Column 'a'"):
        table.execute_insert("f").wait()


def test_sequences_of_datagen_end(tables):
    tables.execute_sql(
        "CREATE TABLE g (id INT, s STRING) WITH ('connector' = 'datagen', "
        "'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '5', "
        "'fields.s.length' = '3')"
    )
    found = _rows(tables.execute_sql("SELECT id, CHAR_LENGTH(s) FROM g"))
    assert found == [("+I", i, 3) for i in range(1, 6)]


def test_streams_become_tables_and_back():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    tables = StreamTableEnvironment.create(env)
    kind = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()])
    stream = env.from_collection([Row("a", 1), Row("b", 2)], kind)
    tables.create_temporary_view("v", stream.filter(lambda row: row.n > 1))
    made = tables.to_data_stream(tables.sql_query("SELECT k, n + 1 AS m FROM v"))
    rows = list(made.map(lambda row: f"{row.k}{row.m}", Types.STRING()).execute_and_collect())
    assert rows == ["b3"]
    with pytest.raises(ValidationException, match="zz"):
        tables.from_data_stream(stream, Schema.new_builder().column("zz", DataTypes.INT()).build())


def test_moments_of_tables_are_instants_in_streams():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    tables = StreamTableEnvironment.create(env)
    moment = "TO_TIMESTAMP_LTZ(1005, 3)"
    query = tables.sql_query(
        f"SELECT {moment} AS a, ARRAY[{moment}, NULL] AS b, MAP['k', {moment}] AS c, ROW({moment})"
    )
    stream = tables.to_data_stream(query)
    instant = Instant(1, 5_000_000)
    fields = stream.map(lambda row: [*row[:3], *row[3]])  # chained: nothing is serialised
    assert list(fields.execute_and_collect()) == [
        [instant, [instant, None], {"k": instant}, instant]
    ]
    back = tables.from_data_stream(stream).select(col("a"))
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1, 5000, datetime.UTC)
    assert _rows(back.execute()) == [("+I", moment)]
    pairs = tables.to_retract_stream(query.select(col("a")), Types.ROW([Types.INSTANT()]))
    assert [(flag, *row) for flag, row in pairs.execute_and_collect()] == [(True, instant)]


class _Times(ProcessFunction):
    def process_element(self, value, ctx):
        yield value.moment.to_epoch_milli(), ctx.timestamp()


@pytest.mark.parametrize("convert", ["to_data_stream", "to_changelog_stream"])
def test_event_time_of_tables_is_the_timestamp_of_records(convert):
    env = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(env)
    stream = env.from_collection([(1000,), (2500,)], Types.TUPLE([Types.LONG()]))
    schema = (
        Schema.new_builder()
        .column_by_expression("moment", "TO_TIMESTAMP_LTZ(f0, 3)")
        .watermark("moment", "moment - INTERVAL '1' SECOND")
        .build()
    )
    made = getattr(tables, convert)(tables.from_data_stream(stream, schema))
    times = sorted(made.process(_Times()).execute_and_collect())
    assert times == [(1000, 1000), (2500, 2500)]


def test_upserts_of_a_stream_replace_each_other():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    tables = StreamTableEnvironment.create(env)
    kind = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()])
    rows = [
        Row.of_kind(RowKind.INSERT, "a", 1),
        Row.of_kind(RowKind.UPDATE_AFTER, "a", 7),
        Row.of_kind(RowKind.DELETE, "b", 0),
    ]
    schema = (
        Schema.new_builder()
        .column("k", DataTypes.STRING().not_null())
        .column("n", DataTypes.INT())
        .primary_key("k")
        .build()
    )
    stream = env.from_collection(rows, kind)
    table = tables.from_changelog_stream(stream, schema, ChangelogMode.upsert())
    assert _rows(table.execute()) == [("+I", "a", 1), ("-U", "a", 1), ("+U", "a", 7)]


def test_a_statement_set_is_one_job(tables, tmp_path):
    for name in ("first", "two"):
        tables.execute_sql(
            f"CREATE TABLE {name} (a INT) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path / name}', 'format' = 'csv')"
        )
    statements = tables.create_statement_set()
    statements.add_insert_sql("INSERT INTO first VALUES (1)")
    statements.add_insert(
        "two", tables.from_elements([(2,)], ["a"]).select(col("a").cast(DataTypes.INT()))
    )
    result = statements.execute()
    result.wait()
    assert result.get_job_client() is not None
    assert _lines(tmp_path / "first") == ["1"]
    assert _lines(tmp_path / "two") == ["2"]
    with pytest.raises(ValidationException, match="no insertion"):
        statements.execute()


def test_python_functions(tables):
    double = udf(lambda n: n * 2, result_type=DataTypes.BIGINT())
    tables.create_temporary_function("double", double)
    table = tables.from_elements([(3,)], ["n"])
    assert _rows(table.select(double(col("n")) + lit(1)).execute()) == [("+I", 7)]
    assert _rows(tables.execute_sql(f"SELECT double(n) FROM {table}")) == [("+I", 6)]


class _Largest(TableAggregateFunction):
    def create_accumulator(self):
        return [None]

    def accumulate(self, accumulator, row):
        accumulator[0] = max(row.n, accumulator[0] or row.n)

    def emit_value(self, accumulator):
        yield Row(accumulator[0])

    def get_accumulator_type(self):
        return DataTypes.ARRAY(DataTypes.BIGINT())

    def get_result_type(self):
        return DataTypes.ROW([DataTypes.FIELD("largest", DataTypes.BIGINT())])


def test_functions_of_whole_rows_know_the_columns(tables):
    def words(row):
        for word in row.text.split(","):
            yield row.n, word

    split = udtf(words, result_types=[DataTypes.BIGINT(), DataTypes.STRING()])
    table = tables.from_elements([(1, "a,b"), (2, "c")], ["n", "text"])
    pairs = [("+I", 1, "a"), ("+I", 1, "b"), ("+I", 2, "c")]
    assert _rows(table.flat_map(split).execute()) == pairs
    joined = table.join_lateral(split.alias("m", "word")).select(col("m"), col("word"))
    assert _rows(joined.execute()) == pairs
    largest = table.flat_aggregate(udtaf(_Largest())).select(col("*"))
    assert _rows(largest.execute()) == [("+I", 1), ("-D", 1), ("+I", 2)]
    with pytest.raises(ValidationException, match="not AGGREGATE"):
        table.aggregate(udtaf(_Largest())).select(col("*"))


def test_computed_columns_use_all_fields_of_a_stream(tables):
    env = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(env)
    stream = env.from_collection([(2000, "a")], Types.TUPLE([Types.LONG(), Types.STRING()]))
    schema = (
        Schema.new_builder()
        .column_by_expression("moment", "TO_TIMESTAMP(FROM_UNIXTIME(f0 / 1000))")
        .column("f1", "STRING")
        .column_by_expression("twice", col("f1") + col("f1"))
        .watermark("moment", "moment - INTERVAL '1' SECOND")
        .build()
    )
    table = tables.from_data_stream(stream, schema)
    assert table.get_schema().get_field_names() == ["moment", "f1", "twice"]
    assert table.get_resolved_schema().get_columns()[0].get_data_type().time_attribute is not None
    assert _rows(table.select(col("f1"), col("twice")).execute()) == [("+I", "a", "aa")]
