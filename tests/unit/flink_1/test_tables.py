"""Tables of PyFlink 1: errors show the line to write, and batch environments work."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock import pyflink_alias, table
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import InvalidProgramError, JvmOnlyError, WrongArgumentError
from penstock.table import (
    BatchTableEnvironment,
    EnvironmentSettings,
    StreamTableEnvironment,
    TableConfig,
    TableEnvironment,
)
from penstock.table.expressions import call_sql, col, lit
from penstock.table.window import Over, Tumble

COLUMNS = ["a", "b"]


@pytest.fixture
def env():
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


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
        ("select", "f(a, 'x, y') as z, a.count", "call_sql(\"f(a, 'x, y')\").alias('z'), "
         "col('a').count"),
        ("select", "", "col('name')"),
        ("where", "a === 1 && b !== 'x && y'", "call_sql(\"a = 1 AND b <> 'x && y'\")"),
        ("filter", "a > 1", "call_sql('a > 1')"),
        ("group_by", "b", "col('b')"),
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
def test_expressions_in_texts_are_refused(env, method, text, instead):
    with pytest.raises(WrongArgumentError) as refused:
        tables(env)[method](text)
    written = str(refused.value).split(" texts, write ")[1].split("\n")[0]
    assert written == instead
    # The line works as far as an expression can without its table.
    assert eval(written, {"col": col, "lit": lit, "call_sql": call_sql}) is not None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("scan", "from_path"),
        ("sql_update", "execute_sql"),
        ("connect", r"TableDescriptor\.for_connector"),
        ("execute", "create_statement_set"),
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


@pytest.mark.parametrize(
    ("module", "instead"),
    [
        ("table.descriptors", r"TableDescriptor\.for_connector"),
        ("table.sources", "CREATE TABLE"),
        ("table.sinks", "CREATE TABLE"),
        ("dataset", r"RuntimeExecutionMode\.BATCH"),
    ],
)
def test_former_modules_name_their_replacement(module, instead):
    with pytest.raises(ModuleNotFoundError, match=f"pyflink.{module} is not part .*{instead}"):
        pyflink_alias.submodule(module)


@pytest.mark.parametrize(
    "use",
    [
        lambda: table.CsvTableSource("in.csv", ["a"], []),
        lambda: table.CsvTableSink(["a"], [], "out.csv", ",", 1, table.WriteMode),
        lambda: table.WriteMode.OVERWRITE,
        lambda: table.TableSource(None),
        lambda: table.TableSink(None),
    ],
)
def test_former_sources_and_sinks_can_be_imported_and_name_their_replacement(use):
    with pytest.raises(JvmOnlyError, match=r"is of PyFlink 1; write create_temporary_table\("):
        use()


def test_batch_environments_are_table_environments_in_batch_mode():
    config = TableConfig(Configuration())
    config.set("table.local-time-zone", "Asia/Kolkata")
    settings = EnvironmentSettings.new_instance().in_batch_mode().use_blink_planner().build()
    env = BatchTableEnvironment.create(table_config=config, environment_settings=settings)
    assert isinstance(env, TableEnvironment)
    assert not env.planner.is_streaming
    assert env.get_config().get_local_timezone() == "Asia/Kolkata"
    assert not BatchTableEnvironment.create().planner.is_streaming


def test_wrong_settings_of_batch_environments_are_refused():
    streaming = EnvironmentSettings.in_streaming_mode()
    with pytest.raises(InvalidProgramError, match="settings are of streaming mode"):
        BatchTableEnvironment.create(environment_settings=streaming)
    with pytest.raises(InvalidProgramError, match="was of the DataSet API"):
        BatchTableEnvironment.create(object())
    with pytest.raises(WrongArgumentError, match="table_config is a TableConfig"):
        BatchTableEnvironment.create(table_config={})
