"""Compiled plans: their content, where they are refused, and their execution."""

import json
import sys
import types

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.errors import ConfigurationError
from penstock.table import (
    CompiledPlan,
    DataTypes,
    EnvironmentSettings,
    PlanReference,
    TableDescriptor,
    TableEnvironment,
)
from penstock.table.exceptions import SqlParserException, TableException, ValidationException
from penstock.table.plan_reference import FilePlanReference, JsonContentPlanReference
from penstock.table.udf import udf

INSERT = "INSERT INTO sums SELECT k, SUM(m) FROM v GROUP BY k"
SUMS = "CREATE TABLE sums (k STRING, s INT) WITH ('connector' = 'blackhole')"


def environment(mode="streaming"):
    return TableEnvironment.create(getattr(EnvironmentSettings, f"in_{mode}_mode")())


def numbers(options="'number-of-rows' = '3'"):
    return f"CREATE TABLE t (k STRING, n INT) WITH ('connector' = 'datagen', {options})"


@pytest.fixture
def tables():
    made = environment()
    for statement in (numbers(), SUMS, "CREATE VIEW v AS SELECT k, n + 1 AS m FROM t"):
        made.execute_sql(statement)
    return made


def loaded(tables, plan):
    return tables.load_plan(PlanReference.from_json_string(plan.as_json_string()))


def test_a_plan_holds_statement_tables_views_and_operators(tables):
    tables.get_config().set("table.exec.state.ttl", "1 h").set("table.dml-sync", "true")
    plan = json.loads(tables.compile_plan_sql(INSERT).as_json_string())
    assert plan["format"] == 1
    assert plan["statement"] == INSERT
    assert plan["options"] == {"table.exec.state.ttl": "1 h"}
    assert [table["name"][-1] for table in plan["tables"]] == ["sums", "t"]
    assert "'number-of-rows' = '3'" in plan["tables"][1]["create"]
    assert [view["query"] for view in plan["views"]] == ["SELECT k, n + 1 AS m FROM t"]
    assert any(uid.startswith("GroupAggregate(groupBy=[k]") for uid in plan["operators"])
    assert tables.compile_plan_sql(INSERT).get_flink_version() == plan["version"]


def test_a_plan_needs_no_tables_of_its_environment(tables):
    plan = tables.compile_plan_sql(INSERT)
    other = environment()
    assert loaded(other, plan).explain() == plan.explain()
    assert other.list_tables() == []


def test_a_view_of_another_database_keeps_its_names(tables):
    tables.execute_sql("CREATE DATABASE other")
    tables.use_database("other")
    plan = tables.compile_plan_sql(
        f"INSERT INTO default_database.{INSERT[12:]}".replace("FROM v", "FROM default_database.v")
    )
    assert loaded(environment(), plan).explain() == plan.explain()


def test_statements_of_sql_write_and_execute_files(tables, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(
        "penstock.table.planning.job.TableJobs.insert", lambda _, sinks: started.append(sinks)
    )
    file = tmp_path / "new" / "plan.json"
    tables.execute_sql(f"COMPILE PLAN '{file}' FOR {INSERT}")
    with pytest.raises(TableException, match=r"Cannot overwrite the plan file.*force-recompile"):
        tables.execute_sql(f"COMPILE PLAN '{file}' FOR {INSERT}")
    other = INSERT.replace("SUM(", "MAX(")
    tables.execute_sql(f"COMPILE PLAN '{file}' IF NOT EXISTS FOR {other}")
    assert json.loads(file.read_text())["statement"] == INSERT
    tables.execute_sql(f"EXECUTE PLAN '{file}'")
    tables.execute_sql(f"COMPILE AND EXECUTE PLAN '{file}' FOR {other}")
    assert json.loads(file.read_text())["statement"] == INSERT
    tables.get_config().set("table.plan.force-recompile", "true")
    tables.execute_sql(
        f"COMPILE AND EXECUTE PLAN 'file://{file}' FOR STATEMENT SET BEGIN {INSERT}; {other}; END"
    )
    assert json.loads(file.read_text())["statement"].startswith("EXECUTE STATEMENT SET BEGIN")
    assert [len(sinks) for sinks in started] == [1, 1, 2]
    with pytest.raises(TableException, match="cannot be read"):
        tables.execute_sql(f"EXECUTE PLAN '{tmp_path}/none.json'")
    with pytest.raises(SqlParserException, match='Encountered "SELECT", INSERT was expected'):
        tables.execute_sql(f"COMPILE PLAN '{file}' FOR SELECT 1")


def test_files_are_kept_if_the_program_asks_for_it(tables, tmp_path):
    plan, file = tables.compile_plan_sql(INSERT), tmp_path / "plan.json"
    plan.write_to_file(file)
    assert file.stat().st_mode & 0o077 == 0  # it may contain passwords
    plan.write_to_file(file, ignore_if_exists=True)
    with pytest.raises(TableException, match="Cannot overwrite"):
        plan.write_to_file(str(file))
    (tmp_path / "file").touch()
    with pytest.raises(TableException, match="cannot be written"):
        plan.write_to_file(tmp_path / "file" / "plan.json")


def test_pipelines_and_statement_sets_of_sql_are_compiled(tables):
    query = tables.sql_query("SELECT k, n FROM t -- a comment")
    plan = query.insert_into("sums").compile_plan()
    assert plan.explain() == query.insert_into("sums").explain()
    both = tables.create_statement_set().add(query.insert_into("sums")).add_insert_sql(INSERT)
    assert loaded(environment(), both.compile_plan()).explain() == both.explain()
    path = tables.from_path("t").insert_into("sums").compile_plan()
    assert isinstance(path, CompiledPlan)
    for pipeline in (
        query.select(query.k, query.n).insert_into("sums"),
        query.insert_into(TableDescriptor.for_connector("blackhole").build()),
        tables.create_statement_set(),
    ):
        with pytest.raises(ValidationException, match="compiled from SQL"):
            pipeline.compile_plan()
    assert not tables.pipelines  # none is left for the `execute` of Flink 1


def test_tables_of_the_program_are_refused(tables):
    rows = tables.from_elements([("a", 1)], ["k", "n"])
    with pytest.raises(ValidationException, match=r"UnnamedTable\$\d exists only in the program"):
        tables.compile_plan_sql(f"INSERT INTO sums SELECT k, CAST(n AS INT) FROM {rows}")


def test_temporary_tables_are_the_programs(tables):
    temporary = numbers().replace("TABLE t", "TEMPORARY TABLE temporary")
    tables.execute_sql(temporary)
    plan = tables.compile_plan_sql("INSERT INTO sums SELECT k, n FROM temporary")
    other = environment()
    with pytest.raises(TableException, match=r"needs the temporary table .*temporary"):
        loaded(other, plan)
    other.execute_sql(temporary)
    loaded(other, plan)


def test_changed_tables_do_not_fit_and_changed_options_do(tables):
    plan = tables.compile_plan_sql(INSERT)
    other = environment()
    other.execute_sql(numbers("'number-of-rows' = '7'"))
    loaded(other, plan)
    tables.execute_sql("ALTER TABLE t ADD x INT")
    with pytest.raises(
        TableException, match=r"t has changed since the plan was compiled(.|\n)*`x`"
    ):
        loaded(tables, plan)
    tables.get_config().set("table.plan.restore.catalog-objects", "ALL_ENFORCED")
    loaded(tables, plan)
    tables.get_config().set("table.plan.restore.catalog-objects", "IDENTIFIER")
    loaded(tables, plan)


@pytest.mark.parametrize(
    ("objects", "message"), [("SCHEMA", "no options of it"), ("IDENTIFIER", "only its name")]
)
def test_plans_may_leave_out_options_and_schemas(tables, objects, message):
    tables.get_config().set("table.plan.compile.catalog-objects", objects)
    plan = tables.compile_plan_sql(INSERT)
    assert "'connector'" not in plan.as_json_string()
    loaded(tables, plan)
    with pytest.raises(TableException, match=message):
        loaded(environment(), plan)
    with pytest.raises(ConfigurationError):
        tables.get_config().set("table.plan.compile.catalog-objects", "SOME")


def test_functions_of_catalogs_are_found_by_their_class(tables, monkeypatch):
    module = types.ModuleType("functions_of_plans")
    module.up = udf(lambda text: text.upper(), result_type=DataTypes.STRING())
    monkeypatch.setitem(sys.modules, "functions_of_plans", module)
    tables.execute_sql("CREATE FUNCTION up AS 'functions_of_plans.up' LANGUAGE PYTHON")
    plan = tables.compile_plan_sql("INSERT INTO sums SELECT up(k), n FROM t")
    other = environment()
    loaded(other, plan)
    assert other.list_user_defined_functions() == []
    tables.create_temporary_function("low", module.up)
    plan = tables.compile_plan_sql("INSERT INTO sums SELECT low(k), n FROM t")
    with pytest.raises(ValidationException, match="low"):
        loaded(other, plan)


def test_options_of_the_plan_hold_when_it_is_executed(tables):
    tables.get_config().set("table.local-time-zone", "Asia/Tokyo")
    plan = tables.compile_plan_sql(INSERT)
    scopes = []

    other = environment()
    other.get_config().set("table.local-time-zone", "UTC")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "penstock.table.planning.job.TableJobs.insert",
            lambda jobs, _: scopes.append(jobs._config.get_local_timezone()),
        )
        loaded(other, plan).execute()
    assert scopes == ["Asia/Tokyo"]
    assert other.get_config().get_local_timezone() == "UTC"


def test_other_operators_are_shown(tables):
    content = json.loads(tables.compile_plan_sql(INSERT).as_json_string())
    content["statement"] = INSERT.replace("SUM(", "MAX(")
    with pytest.raises(
        TableException, match=r"(?s)other operators now.*- .*SUM\(m\).*\+ .*MAX\(m\)"
    ):
        tables.load_plan(PlanReference.from_json_string(json.dumps(content)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flinkVersion": "2.3", "nodes": []}, "a plan of Flink 2.3"),
        ({"format": 2, "version": "3.0.0"}, "not a compiled plan of format 1.*penstock 3.0.0"),
        ({"tables": None}, "not a complete plan: 'tables' is None"),
        ({"more": 1}, "unknown parts: more"),
        ({"mode": "BATCH"}, "compiled in batch mode, but the environment is in streaming mode"),
    ],
)
def test_plans_of_another_kind_are_refused(tables, change, message):
    content = json.loads(tables.compile_plan_sql(INSERT).as_json_string()) | change
    with pytest.raises(TableException, match=message):
        tables.load_plan(PlanReference.from_json_string(json.dumps(content)))


def test_texts_that_are_no_plans_are_refused(tables):
    for text in ("{", "[]"):
        with pytest.raises(TableException, match="is not a compiled plan"):
            tables.load_plan(PlanReference.from_json_string(text))
    with pytest.raises(ValidationException, match="Only an INSERT or a statement set"):
        tables.compile_plan_sql("SELECT 1")
    tables.get_config().set("table.exec.uid.generation", "DISABLED")
    with pytest.raises(ValidationException, match="needs operator ids"):
        tables.compile_plan_sql(INSERT)


def test_references_are_values(tmp_path):
    file = PlanReference.from_file(tmp_path / "a.json")
    assert isinstance(file, FilePlanReference)
    assert file.get_file() == tmp_path / "a.json"
    assert file == PlanReference.from_file(str(tmp_path / "a.json"))
    text = PlanReference.from_json_string("{}")
    assert isinstance(text, JsonContentPlanReference)
    assert text.get_content() == "{}"
    assert len({file, text, PlanReference.from_json_string("{}")}) == 2
    with pytest.raises(AttributeError, match="from_json_string"):
        PlanReference.from_smile_bytes(b"")
