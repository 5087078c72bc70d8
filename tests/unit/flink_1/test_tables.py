"""Tables of PyFlink 1: the log and errors show the line to write."""

import re

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock import flink_1, table
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import InvalidProgramError, JvmOnlyError, WrongArgumentError
from penstock.flink_1 import descriptors
from penstock.flink_1.dataset import ExecutionEnvironment
from penstock.table import (
    BatchTableEnvironment,
    DataTypes,
    EnvironmentSettings,
    GroupedTable,
    StreamTableEnvironment,
    TableConfig,
    TableEnvironment,
)
from penstock.table.expression import text_expressions
from penstock.table.expressions import call_sql, col, lit
from penstock.table.window import GroupWindow, Over, OverWindow, Tumble

COLUMNS = ["a", "b"]


@pytest.fixture
def env():
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    assert made.scan  # expressions in texts are for programs of Flink 1
    return made


def tables(env):
    rows = env.from_elements([(1, "x")], COLUMNS)
    grouped = rows.group_by(col("b"))
    return {
        "select": rows.select,
        "where": rows.where,
        "filter": rows.filter,
        "group_by": rows.group_by,
        "order_by": rows.order_by,
        "add_columns": rows.add_columns,
        "add_or_replace_columns": rows.add_or_replace_columns,
        "rename_columns": rows.rename_columns,
        "drop_columns": rows.drop_columns,
        "join": lambda text: rows.join(env.from_elements([(1,)], ["c"]), text),
        "select of groups": grouped.select,
        "window": Tumble.over,
        "over": Over.partition_by(col("b")).order_by(col("a")).preceding,
    }


@pytest.mark.parametrize(
    ("method", "text", "instead"),
    [
        ("select", "a, b", "col('a'), col('b')"),
        ("select", "*", "col('*')"),
        ("select", "concat(b, ', ') as z, a", "call_sql(\"concat(b, ', ')\").alias('z'), col('a')"),
        ("select", 'concat(b, "it\'s", b)', "call_sql(\"concat(b, 'it''s', b)\")"),
        ("where", "a === 1 && b !== 'x && y'", "call_sql(\"a = 1 AND b <> 'x && y'\")"),
        ("filter", "a > 1", "call_sql('a > 1')"),
        ("group_by", "b", "col('b')"),
        ("order_by", "a.desc, b", "col('a').desc, col('b')"),
        ("order_by", "a.desc", "col('a').desc"),
        ("add_columns", "a + 1 AS c", "call_sql('a + 1').alias('c')"),
        ("add_or_replace_columns", "b as a", "col('b').alias('a')"),
        ("rename_columns", "a as c", "col('a').alias('c')"),
        ("drop_columns", "a", "col('a')"),
        ("join", "a = c", "call_sql('a = c')"),
        ("select of groups", "b, a.sum() as s", "col('b'), col('a').sum.alias('s')"),
        ("window", "10.minutes", "lit(10).minutes"),
        ("over", "2.hours", "lit(2).hours"),
    ],
)  # fmt: skip
def test_expressions_in_texts_are_those_of_the_logged_line(env, method, text, instead, caplog):
    flink_1._said.clear()
    with pytest.raises(WrongArgumentError, match=re.escape(f"write {instead}")):
        tables(env)[method](text)
    assert env.scan
    made = tables(env)[method](text)
    assert caplog.messages[-1].endswith(f" is of Flink 1 and deprecated: write {instead}")
    expressions = eval(instead, {"col": col, "lit": lit, "call_sql": call_sql})
    same = tables(env)[method](*(expressions if isinstance(expressions, tuple) else [expressions]))
    assert plan(made) == plan(same)


def test_reserved_words_as_arguments_are_columns(env):
    rows = env.from_elements([(1, "x")], ["value", "timestamp"])
    rows.select("concat(timestamp,cast(value as varchar)) as c, abs(value)")
    assert re.findall(
        "`.*?`",
        text_expressions._IN_CALL.sub(
            text_expressions._of_sql, "f(timestamp, value ,'a,value,b',n)"
        ),
    ) == ["`timestamp`", "`value`"]


def plan(made):
    if isinstance(made, (GroupWindow, OverWindow)):
        return repr(made)
    table = made.select(col("b")) if isinstance(made, GroupedTable) else made
    return re.sub(r"\$\d+|0x\w+", "", repr(table.plan_node))


def test_texts_without_an_expression_or_with_too_many_are_refused(env):
    rows = env.from_elements([(1, "x")], COLUMNS)
    with pytest.raises(WrongArgumentError, match="Expected an expression, got the text ''"):
        rows.select("")
    with pytest.raises(WrongArgumentError, match="Expected one expression, got the text 'a, b'"):
        rows.where("a, b")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("registerTable", "create_temporary_view"),
        ("create_java_temporary_function", "no JVM"),
    ],
)
def test_former_methods_have_a_hint(env, name, hint):
    for environment in (
        env,
        StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment()),
    ):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': .*{hint}"):
            getattr(environment, name)


def test_former_options_have_a_hint(env):
    with pytest.raises(AttributeError, match=r"write set_idle_state_retention\("):
        env.get_config().set_idle_state_retention_time(1, 2)


@pytest.mark.parametrize("use", ["TableSource", "TableSink"])
def test_classes_of_java_name_their_replacement(use):
    with pytest.raises(JvmOnlyError, match=r"is of PyFlink 1; write create_temporary_table\("):
        getattr(table, use)(None)


def options_of(env, name):
    return env.catalogs.table(env.catalogs.identifier([name]), "table").get_options()


def test_a_connector_with_format_and_columns_is_a_table(env):
    kafka = descriptors.Kafka().version("universal").topic("words").start_from_latest()
    kafka.properties({"bootstrap.servers": "host:9092", "zookeeper.connect": "host:2181"})
    kafka.start_from_specific_offsets({0: 42, 1: 300})
    json = descriptors.Json().fail_on_missing_field(True).json_schema("{}").derive_schema()
    columns = descriptors.Schema().field("word", DataTypes.STRING()).from_origin_field("word")
    columns.field("n", "INT").field("at", DataTypes.TIMESTAMP(3)).proctime()
    described = env.connect(kafka).with_format(json).with_schema(columns).in_upsert_mode()
    described.create_temporary_table("words")
    assert options_of(env, "words") == {
        "connector": "kafka",
        "topic": "words",
        "properties.bootstrap.servers": "host:9092",
        "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": "partition:0,offset:42;partition:1,offset:300",
        "format": "json",
        "json.fail-on-missing-field": "true",
    }
    found = env.from_path("words").get_resolved_schema()
    assert found.get_column_names() == ["word", "n", "at"]
    assert "PROCTIME()" in str(found)


def test_options_of_csv(env):
    old = descriptors.OldCsv().field_delimiter("|").line_delimiter("\n").comment_prefix("#")
    old.field("a", DataTypes.STRING()).ignore_parse_errors()
    new = descriptors.Csv().quote_character("'").escape_character("\\").null_literal("-")
    new.array_element_delimiter(":").schema(DataTypes.ROW([])).derive_schema()
    quoted = descriptors.OldCsv().quote_character("'")
    columns = descriptors.Schema().field("a", DataTypes.STRING())
    found = []
    for name, csv in (("old", old), ("new", new), ("quoted", quoted)):
        described = env.connect(descriptors.FileSystem().path("/tmp/a"))
        described.with_format(csv).with_schema(columns).register_table_source_and_sink(name)
        options = options_of(env, name)
        assert (options.pop("connector"), options.pop("path"), options.pop("format")) == (
            "filesystem",
            "/tmp/a",
            "csv",
        )
        found.append({key.removeprefix("csv."): value for key, value in options.items()})
    assert found == [
        {
            "disable-quote-character": "true",
            "field-delimiter": "|",
            "allow-comments": "true",
            "ignore-parse-errors": "true",
        },
        {
            "quote-character": "'",
            "escape-character": "\\",
            "null-literal": "-",
            "array-element-delimiter": ":",
        },
        {"quote-character": "'"},
    ]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: descriptors.OldCsv().line_delimiter("\r\n"), "lines end with a line feed"),
        (lambda: descriptors.OldCsv().comment_prefix("//"), "comments begin with '#'"),
        (lambda: descriptors.OldCsv().ignore_first_line(), "filter it out in the query"),
        (
            lambda: descriptors.Schema().field("a", "INT").from_origin_field("b"),
            "name the column 'b', and rename it to 'a'",
        ),
        (
            lambda: table.CsvTableSource("a", ["a"], ["INT"], ignore_first_line=True),
            "filter it out in the query",
        ),
        (
            lambda: table.CsvTableSink(["a"], ["INT"], "out", write_mode=table.WriteMode.OVERWRITE),
            r"write table\.execute_insert\(name, overwrite=True\)",
        ),
    ],
)
def test_descriptions_that_are_not_possible_name_the_way(use, message):
    with pytest.raises(InvalidProgramError, match=message):
        use()


@pytest.mark.parametrize(
    "use",
    [
        lambda: descriptors.CustomConnectorDescriptor("type", 1, True),
        lambda: descriptors.Elasticsearch().version("7"),
        lambda: descriptors.Schema().field("a", "INT").rowtime(descriptors.Rowtime()),
    ],
)
def test_descriptors_without_a_counterpart_name_their_replacement(use):
    with pytest.raises(JvmOnlyError, match="it is of PyFlink 1; write create_temporary_table"):
        use()


def test_insertions_run_as_one_job(tmp_path):
    base = ExecutionEnvironment.get_execution_environment()
    base.get_config().set_parallelism(1)
    env = BatchTableEnvironment.create(base, TableConfig())
    assert env.get_config().root.get_string("parallelism.default", "") == "1"
    (tmp_path / "words.csv").write_text('"a",1\nb,2\n')
    types = [DataTypes.STRING(), DataTypes.INT()]
    source = table.CsvTableSource(str(tmp_path / "words.csv"), ["word", "n"], types)
    env.register_table_source("words", source)
    for name in ("first", "second", "third"):
        sink = table.CsvTableSink(["word", "n"], types, str(tmp_path / name), "|")
        env.register_table_sink(name, sink)
    env.scan("words").insert_into("first")
    env.insert_into("second", env.scan("words").where("n > 1"))
    env.sql_update("INSERT INTO third SELECT word, n + 1 FROM words")
    assert env.execute("three").is_job_execution_result()
    written = [
        sorted("".join(file.read_text() for file in (tmp_path / name).iterdir()).split())
        for name in ("first", "second", "third")
    ]
    assert written == [['"a"|1', "b|2"], ["b|2"], ['"a"|2', "b|3"]]
    env.scan("words").execute_insert("first").wait()
    with pytest.raises(InvalidProgramError, match="there is no insertion"):
        env.execute("nothing")


def test_batch_environments_are_table_environments_in_batch_mode():
    config = TableConfig(Configuration())
    config.set("table.local-time-zone", "Asia/Kolkata")
    settings = EnvironmentSettings.new_instance().in_batch_mode().use_blink_planner().build()
    env = BatchTableEnvironment.create(table_config=config, environment_settings=settings)
    assert isinstance(env, TableEnvironment)
    assert not env.planner.is_streaming
    assert env.get_config().get_local_timezone() == "Asia/Kolkata"
    assert not BatchTableEnvironment.create().planner.is_streaming


def test_a_stream_table_environment_takes_options_as_in_flink_1():
    config = TableConfig()
    config.set("table.local-time-zone", "Asia/Kolkata")
    env = StreamExecutionEnvironment.get_execution_environment()
    made = StreamTableEnvironment.create(env, config)
    assert made.get_config().get_local_timezone() == "Asia/Kolkata"
    assert made.planner.is_streaming
    with pytest.raises(WrongArgumentError, match="environment_settings is EnvironmentSettings"):
        StreamTableEnvironment.create(env, "batch")


def test_wrong_settings_of_batch_environments_are_refused():
    streaming = EnvironmentSettings.in_streaming_mode()
    with pytest.raises(InvalidProgramError, match="settings are of streaming mode"):
        BatchTableEnvironment.create(environment_settings=streaming)
    with pytest.raises(InvalidProgramError, match=r"an ExecutionEnvironment of pyflink\.dataset"):
        BatchTableEnvironment.create(object())
    with pytest.raises(WrongArgumentError, match="table_config is a TableConfig"):
        BatchTableEnvironment.create(table_config={})
