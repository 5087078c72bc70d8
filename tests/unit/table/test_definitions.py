"""Statements that define tables, views, functions and databases, and their errors; no job runs."""

import pytest
from penstock.errors import ConfigurationError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.exceptions import SqlParserException, TableException, ValidationException
from penstock.table.schema.resolved_schema import PhysicalColumn
from penstock.table.sql.parsing import parse_statement
from penstock.table.statements.alteration import declared_schema, schema_of_query
from penstock.table.types import DataTypes
from penstock.table.udf import udf


@pytest.fixture
def tables():
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def _rows(result):
    return [tuple(row) for row in result.collect()]


def test_tables_and_views_have_one_namespace(tables):
    tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'blackhole')")
    with pytest.raises(ValidationException, match="already exists"):
        tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'blackhole')")
    tables.execute_sql("CREATE TEMPORARY TABLE t (b STRING) WITH ('connector' = 'blackhole')")
    assert tables.from_path("t").get_schema().get_field_names() == ["b"]
    with pytest.raises(ValidationException, match="Temporary table"):
        tables.execute_sql("DROP TABLE t")
    tables.execute_sql("DROP TEMPORARY TABLE t")
    assert tables.from_path("t").get_schema().get_field_names() == ["a"]
    tables.execute_sql("CREATE VIEW v AS SELECT 1 AS first")
    assert tables.list_tables() == ["t", "v"]
    assert tables.list_views() == ["v"]
    with pytest.raises(ValidationException, match="does not exist"):
        tables.execute_sql("DROP TABLE v")


@pytest.mark.parametrize("start", ["CREATE VIEW w AS ", "ALTER VIEW v AS "])
def test_the_mark_in_the_query_of_a_view_is_below_its_place(tables, start):
    tables.execute_sql("CREATE VIEW v AS SELECT 1 AS first")
    with pytest.raises(ValidationException) as caught:
        tables.execute_sql(f"{start}SELECT frist FROM v")
    line, mark = str(caught.value).splitlines()[-2:]
    assert line[mark.index("^") :] == "frist FROM v"


def test_columns_are_altered(tables):
    tables.execute_sql(
        "CREATE TABLE t (a INT, ts TIMESTAMP(3), b AS a + 1) WITH ('connector' = 'datagen')"
    )
    tables.execute_sql("ALTER TABLE t ADD (x STRING FIRST, y BIGINT AFTER a)")
    tables.execute_sql("ALTER TABLE t ADD WATERMARK FOR ts AS ts - INTERVAL '1' SECOND")
    names = [row[0] for row in _rows(tables.execute_sql("DESCRIBE t"))]
    assert names == ["x", "a", "y", "ts", "b"]
    tables.execute_sql("ALTER TABLE t DROP y")
    for change, message in (
        ("DROP a", "computed column `b`"),
        ("DROP nothing", "nothing"),
        ("RENAME ts TO a", "already exists"),
        ("RENAME ts TO time_", "watermark"),
    ):
        with pytest.raises(ValidationException, match=message):
            tables.execute_sql(f"ALTER TABLE t {change}")
    tables.execute_sql("ALTER TABLE t SET ('number-of-rows' = '5')")
    shown = _rows(tables.execute_sql("SHOW CREATE TABLE t"))[0][0]
    assert "'number-of-rows' = '5'" in shown
    assert "WATERMARK FOR `ts` AS `ts` - INTERVAL '1' SECOND" in shown


def test_show_create_is_the_text_of_flink(tables):
    tables.execute_sql(
        "CREATE TABLE t (s STRING, b BYTES, m TIMESTAMP_LTZ(3), r ROW<`STRING` STRING>) "
        "PARTITIONED BY (s) WITH ('path' = '/x', 'format' = 'csv', 'connector' = 'filesystem')"
    )
    shown = _rows(tables.execute_sql("SHOW CREATE TABLE t"))[0][0]
    assert shown == (
        "CREATE TABLE `default_catalog`.`default_database`.`t` (\n"
        "  `s` VARCHAR(2147483647),\n  `b` VARBINARY(2147483647),\n"
        "  `m` TIMESTAMP(3) WITH LOCAL TIME ZONE,\n"
        "  `r` ROW<`STRING` VARCHAR(2147483647)>\n)\nPARTITIONED BY (`s`)\nWITH (\n"
        "  'connector' = 'filesystem',\n  'format' = 'csv',\n  'path' = '/x'\n)\n"
    )
    tables.execute_sql("DROP TABLE t")
    tables.execute_sql(shown)
    assert _rows(tables.execute_sql("SHOW CREATE TABLE t"))[0][0] == shown


def test_a_table_without_options_is_shown_without_them(tables):
    tables.execute_sql("CREATE TABLE t (a INT)")
    shown = _rows(tables.execute_sql("SHOW CREATE TABLE t"))[0][0]
    assert shown == "CREATE TABLE `default_catalog`.`default_database`.`t` (\n  `a` INT\n)\n"


def test_partitions_are_columns(tables):
    with pytest.raises(ValidationException, match=r"Partition column 'nope'.*columns: \['a'\]"):
        tables.execute_sql(
            "CREATE TABLE t (a INT) PARTITIONED BY (nope) WITH ('connector' = 'blackhole')"
        )


def test_like_takes_parts_of_another_table(tables):
    tables.execute_sql(
        "CREATE TABLE base (a INT, b AS a + 1) WITH ('connector' = 'datagen', "
        "'rows-per-second' = '5')"
    )
    tables.execute_sql(
        "CREATE TABLE t (c STRING) WITH ('rows-per-second' = '7') "
        "LIKE base (EXCLUDING GENERATED OVERWRITING OPTIONS)"
    )
    assert [row[0] for row in _rows(tables.execute_sql("DESCRIBE t"))] == ["a", "c"]
    shown = _rows(tables.execute_sql("SHOW CREATE TABLE t"))[0][0]
    assert "'connector' = 'datagen'" in shown
    assert "'rows-per-second' = '7'" in shown


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("a INT, a STRING", "duplicate column"),
        ("a INT, PRIMARY KEY (b) NOT ENFORCED", "'b' does not exist"),
        ("a INT, PRIMARY KEY (a)", "ENFORCED"),
        ("a STRING, WATERMARK FOR a AS a", "TIMESTAMP"),
        ("a INT, WATERMARK FOR ts AS ts", "'ts'"),
        ("a INT, b AS c + 1", "computed column 'b'"),
        ("a INT METADATA, b INT METADATA FROM 'a'", "same metadata key 'a'"),
    ],
)
def test_wrong_definitions(tables, columns, message):
    with pytest.raises(TableException, match=message):
        tables.execute_sql(f"CREATE TABLE t ({columns}) WITH ('connector' = 'datagen')")


def test_wrong_insertions(tables):
    tables.execute_sql(
        "CREATE TABLE t (a INT, b STRING, c AS a + 1) WITH ('connector' = 'blackhole')"
    )
    for statement, message in (
        ("INSERT INTO t VALUES (1)", "Different number of columns"),
        ("INSERT INTO t VALUES (1, 2)", "sink column 'b'"),
        ("INSERT INTO t (a, c) VALUES (1, 2)", "computed column"),
        ("INSERT INTO t (a, z) VALUES (1, 2)", "Unknown target column 'z'"),
        ("INSERT INTO nothing VALUES (1)", "nothing"),
    ):
        with pytest.raises(ValidationException, match=message):
            tables.execute_sql(statement)


def test_databases_and_catalogs(tables):
    tables.execute_sql("CREATE DATABASE d")
    tables.execute_sql("USE d")
    assert tables.get_current_database() == "d"
    with pytest.raises(ValidationException, match="currently in use"):
        tables.execute_sql("DROP DATABASE d")
    tables.execute_sql("CREATE CATALOG c WITH ('type' = 'generic_in_memory')")
    tables.execute_sql("USE CATALOG c")
    assert tables.get_current_database() == "default"
    assert _rows(tables.execute_sql("SHOW CATALOGS")) == [("c",), ("default_catalog",)]
    with pytest.raises(ValidationException, match="generic_in_memory"):
        tables.execute_sql("CREATE CATALOG e WITH ('type' = 'hive')")


def test_functions_are_found_in_any_case(tables):
    tables.create_temporary_system_function("Mine", udf(lambda x: x, result_type="INT"))
    assert tables.list_user_defined_functions() == ["mine"]
    # As Flink lists them, and without those that are a part of the syntax there.
    listed = {"upper", "regexpReplace", "ARRAY_AGG", "JSON_VALUE", "mine"}
    assert listed <= set(tables.list_functions())
    assert not {"array_agg", "json_value", "cast"} & set(tables.list_functions())
    tables.execute_sql("DESCRIBE FUNCTION Regexp_Replace")
    assert tables.drop_temporary_system_function("MINE")
    assert not tables.drop_temporary_system_function("mine")
    with pytest.raises(TypeError, match="result_type"):
        udf(lambda x: x)
    with pytest.raises(ValueError, match="func_type"):
        udf(lambda x: x, result_type=DataTypes.INT(), func_type="fast")


def test_settings_are_no_statements_of_a_program(tables):
    with pytest.raises(TableException, match="get_config"):
        tables.execute_sql("SET 'parallelism.default' = '2'")


BASE = (
    "CREATE TABLE base (a INT NOT NULL, ts TIMESTAMP(3), b AS a + 1, "
    "WATERMARK FOR ts AS ts, CONSTRAINT pk PRIMARY KEY (a) NOT ENFORCED) PARTITIONED BY (a) "
    "WITH ('connector' = 'datagen', 'rows-per-second' = '5')"
)


def test_options_of_a_like_clause_are_overwritten_by_default(tables):
    tables.execute_sql(BASE)
    tables.execute_sql("CREATE TABLE t WITH ('connector' = 'print') LIKE base")
    shown = _rows(tables.execute_sql("SHOW CREATE TABLE t"))[0][0]
    assert "'connector' = 'print'" in shown
    assert "'rows-per-second' = '5'" in shown
    tables.execute_sql("CREATE TABLE u WITH ('connector' = 'print') LIKE base (EXCLUDING OPTIONS)")
    assert "rows-per" not in _rows(tables.execute_sql("SHOW CREATE TABLE u"))[0][0]


def test_excluding_partitions_permits_others_and_removes_none(tables):
    tables.execute_sql(BASE)
    for name, partitioned, key in (("t", "", "a"), ("u", "PARTITIONED BY (ts) ", "ts")):
        tables.execute_sql(f"CREATE TABLE {name} {partitioned}LIKE base (EXCLUDING PARTITIONS)")
        shown = _rows(tables.execute_sql(f"SHOW CREATE TABLE {name}"))[0][0]
        assert f"PARTITIONED BY (`{key}`)" in shown


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("WITH ('connector' = 'print') LIKE base (INCLUDING ALL)", "option .'connector'. in the"),
        ("(WATERMARK FOR ts AS ts) LIKE base", "OVERWRITING WATERMARKS"),
        ("(PRIMARY KEY (a) NOT ENFORCED) LIKE base", "already has a primary key"),
        ("PARTITIONED BY (ts) LIKE base", "already has partitions"),
        ("(b AS a) LIKE base", "column named 'b' already exists"),
        ("LIKE base (INCLUDING NONSENSE)", "Unknown option INCLUDING NONSENSE"),
        ("LIKE base (OVERWRITING CONSTRAINTS)", "Illegal merging strategy"),
        ("LIKE base (EXCLUDING OPTIONS INCLUDING OPTIONS)", "only once: OPTIONS"),
    ],
)
def test_parts_of_both_tables_need_a_rule(tables, statement, message):
    tables.execute_sql(BASE)
    with pytest.raises(ValidationException, match=message):
        tables.execute_sql(f"CREATE TABLE t {statement}")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ANALYZE TABLE t COMPUTE STATISTICS", "plans do not use statistics"),
        ("DELETE FROM t WHERE a = 1", "the changing result of a query"),
        ("CREATE MATERIALIZED TABLE m AS SELECT 1", "CREATE TABLE … AS"),
        ("ADD JAR 'x.jar'", "no JVM"),
    ],
)
def test_rejections_state_the_reason(tables, statement, message):
    with pytest.raises(TableException, match=message):
        tables.execute_sql(statement)


def test_functions_are_shown_and_altered(tables):
    tables.execute_sql("CREATE FUNCTION f AS 'm.one' LANGUAGE PYTHON")
    tables.execute_sql("ALTER FUNCTION f AS 'm.two' LANGUAGE PYTHON")
    assert _rows(tables.execute_sql("SHOW CREATE FUNCTION f")) == [
        ("CREATE FUNCTION `f` AS 'm.two' LANGUAGE PYTHON\n",)
    ]
    assert _rows(tables.execute_sql("DESCRIBE FUNCTION f"))[0] == ("is system function", "false")
    assert _rows(tables.execute_sql("DESCRIBE FUNCTION `abs`")) == [("is system function", "true")]
    with pytest.raises(ValidationException, match="doesn't exist"):
        tables.execute_sql("DESCRIBE FUNCTION no_such")


def test_a_constraint_is_dropped_by_its_name(tables):
    tables.execute_sql(BASE)
    with pytest.raises(ValidationException, match="it has pk"):
        tables.execute_sql("ALTER TABLE base DROP CONSTRAINT other")
    tables.execute_sql("ALTER TABLE base DROP CONSTRAINT pk")
    assert "PRIMARY KEY" not in _rows(tables.execute_sql("SHOW CREATE TABLE base"))[0][0]


def test_a_table_stays_when_its_replacement_is_wrong(tables):
    tables.execute_sql(BASE)
    with pytest.raises(ValidationException, match="no option 'connector'"):
        tables.execute_sql("REPLACE TABLE base AS SELECT 1 AS x")
    assert tables.list_tables() == ["base"]
    with pytest.raises(ValidationException, match="doesn't exist"):
        tables.execute_sql("REPLACE TABLE nothing WITH ('connector' = 'print') AS SELECT 1 AS x")


def test_functions_of_modules_need_declared_types(tables):
    tables.execute_sql("CREATE FUNCTION f AS 'os.path.basename' LANGUAGE PYTHON")
    with pytest.raises(ValidationException, match="create it by udf"):
        tables.sql_query("SELECT f('a')")


def test_partitions_are_noted(tables):
    tables.execute_sql(
        "CREATE TABLE t (a INT, d STRING, h INT) PARTITIONED BY (d, h) "
        "WITH ('connector' = 'filesystem', 'path' = '/tmp/none', 'format' = 'csv')"
    )
    tables.execute_sql("ALTER TABLE t ADD PARTITION (d = 'mo', h = 1) WITH ('k' = 'v')")
    tables.execute_sql("ALTER TABLE t ADD IF NOT EXISTS PARTITION (h = 1, d = 'mo')")
    tables.execute_sql("ALTER TABLE t ADD PARTITION (d = 'tu', h = 2)")
    assert _rows(tables.execute_sql("SHOW PARTITIONS t")) == [("d=mo/h=1",), ("d=tu/h=2",)]
    shown = tables.execute_sql("SHOW PARTITIONS t PARTITION (d = 'tu')")
    assert _rows(shown) == [("d=tu/h=2",)]
    tables.execute_sql("ALTER TABLE t DROP PARTITION (d = 'mo', h = 1)")
    tables.execute_sql("ALTER TABLE t DROP IF EXISTS PARTITION (d = 'mo', h = 1)")
    for statement, message in (
        ("ALTER TABLE t DROP PARTITION (d = 'mo', h = 1)", "no partition"),
        ("ALTER TABLE t ADD PARTITION (d = 'tu', h = 2)", "has the partition"),
        ("ALTER TABLE t ADD PARTITION (d = 'tu')", "is partitioned by d, h"),
    ):
        with pytest.raises(ValidationException, match=message):
            tables.execute_sql(statement)
    tables.execute_sql("CREATE TABLE u (a INT) WITH ('connector' = 'datagen')")
    with pytest.raises(ValidationException):
        tables.execute_sql("SHOW PARTITIONS u")


def test_options_of_statements_may_be_forbidden(tables):
    tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen')")
    query = "SELECT * FROM t /*+ OPTIONS('number-of-rows' = '1') */"
    assert tables.sql_query(query).get_schema().get_field_names() == ["a"]
    tables.get_config().set("table.dynamic-table-options.enabled", "false")
    with pytest.raises(ValidationException, match="hint is allowed only when"):
        tables.sql_query(query)


def test_casts_of_flink_1_are_refused(tables):
    with pytest.raises(ConfigurationError, match="ENABLED"):
        tables.get_config().set("table.exec.legacy-cast-behaviour", "ENABLED")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE u (a INT, PRIMARY KEY (a, a) NOT ENFORCED) WITH ('connector' = 'print')",
         "must not contain duplicate columns"),
        ("CREATE TABLE u (a INTERVAL DAY TO SECOND) WITH ('connector' = 'print')",
         "cannot be of the type INTERVAL"),
        ("ALTER TABLE t DROP d", "partition key"),
        ("INSERT INTO t VALUES (1.5, 'x')", "do not match"),
        ("INSERT INTO t VALUES (CAST(1 AS BIGINT), 'x')", "do not match"),
        ("SHOW PROCEDURES", "not supported"),
    ],
)  # fmt: skip
def test_flink_refuses_these_definitions(tables, statement, said):
    tables.execute_sql(
        "CREATE TABLE t (a INT, d STRING) PARTITIONED BY (d) "
        "WITH ('connector' = 'filesystem', 'path' = '/tmp/none', 'format' = 'csv')"
    )
    with pytest.raises(TableException, match=said):
        tables.execute_sql(statement)


def test_the_schema_of_a_table_shows_what_is_declared(tables):
    tables.execute_sql(
        "CREATE TABLE t (a BIGINT, b AS a + 1 COMMENT '', ts AS TO_TIMESTAMP_LTZ(a, 3), "
        "m TIMESTAMP(12), WATERMARK FOR ts AS ts, PRIMARY KEY (a) NOT ENFORCED) "
        "WITH ('connector' = 'datagen')"
    )
    assert str(tables.from_path("t").get_schema()).splitlines() == [
        "root",
        " |-- a: BIGINT NOT NULL",
        " |-- b: BIGINT NOT NULL AS `a` + 1",
        " |-- ts: TIMESTAMP_LTZ(3) *ROWTIME* AS `TO_TIMESTAMP_LTZ`(`a`, 3)",
        " |-- m: TIMESTAMP(9)",
        " |-- WATERMARK FOR ts: TIMESTAMP_LTZ(3) AS `ts`",
        " |-- CONSTRAINT PK_a PRIMARY KEY (a)",
    ]
    ((created,),) = _rows(tables.execute_sql("SHOW CREATE TABLE t"))
    assert "  `b` AS `a` + 1,\n" in created


def test_catalogs_keep_their_options_and_comment(tables):
    tables.execute_sql(
        "CREATE CATALOG c COMMENT 'mine' "
        "WITH ('type' = 'generic_in_memory', 'default-database' = 'd')"
    )
    assert _rows(tables.execute_sql("SHOW CREATE CATALOG c")) == [
        ("CREATE CATALOG `c`\nCOMMENT 'mine'\nWITH (\n  'default-database' = 'd',\n"
         "  'type' = 'generic_in_memory'\n)\n",)
    ]  # fmt: skip
    assert _rows(tables.execute_sql("DESCRIBE CATALOG EXTENDED c")) == [
        ("name", "c"),
        ("type", "generic_in_memory"),
        ("comment", "mine"),
        ("option:default-database", "d"),
    ]


def test_lists_of_what_there_never_is_are_empty(tables):
    for what in ("MODELS", "MATERIALIZED TABLES", "JARS"):
        assert _rows(tables.execute_sql(f"SHOW {what}")) == []


@pytest.mark.parametrize(
    "clause",
    ["BY HASH(`a`) INTO 4 BUCKETS", "BY RANGE(`a`, `d`)", "BY (`a`) INTO 2 BUCKETS",
     "INTO 3 BUCKETS"],
)  # fmt: skip
def test_no_connector_writes_buckets(tables, clause):
    tables.execute_sql(
        f"CREATE TABLE t (a INT, d STRING) DISTRIBUTED {clause} WITH ('connector' = 'blackhole')"
    )
    tables.execute_sql("CREATE TABLE u LIKE t")
    ((created,),) = _rows(tables.execute_sql("SHOW CREATE TABLE u"))
    assert f")\nDISTRIBUTED {clause}\nWITH (" in created
    with pytest.raises(TableException, match="distributed into buckets"):
        tables.execute_sql("INSERT INTO u VALUES (1, 'x')")


def test_buckets_are_a_whole_number(tables):
    with pytest.raises(SqlParserException, match="a number of buckets was expected"):
        tables.execute_sql(
            "CREATE TABLE t (a INT) DISTRIBUTED INTO 4.5 BUCKETS WITH ('connector' = 'blackhole')"
        )


@pytest.mark.parametrize("option", ["debezium.plugin.name", "decoding.plugin.name"])
def test_the_plugin_of_a_replication_slot_has_two_names(tables, option):
    pytest.importorskip("psycopg")
    needed = ("hostname", "username", "password", "database-name", "schema-name", "table-name")
    options = ", ".join(f"'{key}' = 'x'" for key in (*needed, "slot.name"))
    for name, plugin in (("t", "pgoutput"), ("u", "wal2json")):
        tables.execute_sql(
            f"CREATE TABLE {name} (a INT) WITH ('connector' = 'postgres-cdc', {options}, "
            f"'{option}' = '{plugin}')"
        )
    assert tables.sql_query("SELECT * FROM t")
    with pytest.raises(ValidationException, match=f"'wal2json' for option '{option}'"):
        tables.sql_query("SELECT * FROM u")


@pytest.mark.parametrize(
    ("columns", "written"),
    [
        ("", ["id", "name"]),
        ("(id BIGINT, twice AS id * 2, extra STRING)", ["twice", "extra", "id", "name"]),
        ("(name, id)", ["name", "id"]),
    ],
)
def test_columns_in_front_of_a_query(columns, written):
    text = (
        f"CREATE TABLE made {columns} WITH ('connector' = 'print') AS SELECT 1 AS id, 'a' AS name"
    )
    statement = parse_statement(text)
    query = [PhysicalColumn("id", DataTypes.INT()), PhysicalColumn("name", DataTypes.STRING())]
    found = schema_of_query(declared_schema(statement), statement, query)
    assert [column.name for column in found.columns] == written


@pytest.mark.parametrize("columns", ["name", "name, id INT", "name, id, more"])
def test_names_in_front_of_a_query_are_all_of_its_columns(tables, columns):
    with pytest.raises(TableException):
        tables.execute_sql(
            f"CREATE TABLE made ({columns}) WITH ('connector' = 'blackhole') AS "
            "SELECT 1 AS id, 'a' AS name"
        )


def test_names_without_types_are_those_of_a_query(tables):
    with pytest.raises(SqlParserException, match="column 'a' needs a type") as caught:
        tables.execute_sql("CREATE TABLE t (a, b INT) WITH ('connector' = 'blackhole')")
    line, mark = str(caught.value).splitlines()[-2:]
    assert line[mark.index("^") :].startswith("a, b INT")


def test_event_time_is_no_attribute_in_batch_mode():
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.execute_sql(
        "CREATE TABLE t (ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts) "
        "WITH ('connector' = 'datagen')"
    )
    shown = [row[1] for row in _rows(tables.execute_sql("DESCRIBE t"))]
    assert shown == ["TIMESTAMP(3)", "TIMESTAMP_LTZ(3) *PROCTIME*"]
    windowed = tables.sql_query(
        "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    )
    for table in (tables.from_path("t"), windowed):
        assert "ROWTIME" not in str(table.get_resolved_schema())


def test_describe_prints_nothing_for_null(tables, capsys):
    tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen')")
    tables.execute_sql("DESCRIBE t").print()
    assert "|    a |  INT | TRUE |     |        |           |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("DOUBLE PRECISION", "DOUBLE"),
        ("CHAR VARYING(3)", "VARCHAR(3)"),
        ("CHARACTER VARYING", "STRING"),
        ("ARRAY<ROW<x DOUBLE PRECISION>>", "ARRAY<ROW<`x` DOUBLE>>"),
    ],
)
def test_names_of_types_may_have_two_words(tables, name, kind):
    tables.execute_sql(f"CREATE TABLE t (a {name}) WITH ('connector' = 'datagen')")
    assert _rows(tables.execute_sql("DESCRIBE t"))[0][1] == kind


def test_a_column_that_like_overwrites_keeps_its_place(tables):
    tables.execute_sql("CREATE TABLE t (a INT, b AS a, c INT) WITH ('connector' = 'datagen')")
    tables.execute_sql("CREATE TABLE u (b AS a + 1) LIKE t (OVERWRITING GENERATED)")
    assert [row[0] for row in _rows(tables.execute_sql("DESCRIBE u"))] == ["a", "b", "c"]


def test_names_with_backticks_are_shown_so_that_they_can_be_read(tables):
    tables.execute_sql("CREATE TABLE t (`a``b` INT) WITH ('connector' = 'datagen')")
    (shown,) = _rows(tables.execute_sql("SHOW CREATE TABLE t"))[0]
    tables.execute_sql(shown.replace("`t`", "`u`"))
    assert tables.from_path("u").get_schema().get_field_names() == ["a`b"]


def test_show_create_prints_a_box(tables, capsys):
    tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'blackhole')")
    tables.execute_sql("SHOW CREATE TABLE t").print()
    border, header, _, first, *_ = capsys.readouterr().out.splitlines()
    text = next(tables.execute_sql("SHOW CREATE TABLE t").collect())[0]
    assert border == f"+{'-' * (len(text) + 2)}+"
    assert header == f"| {'result':>{len(text)}} |"
    assert first == "| CREATE TABLE `default_catalog`.`default_database`.`t` ("


def test_use_of_the_current_catalog_keeps_the_database(tables):
    tables.execute_sql("CREATE DATABASE d")
    tables.use_database("d")
    tables.execute_sql("USE CATALOG default_catalog")
    assert tables.get_current_database() == "d"


def test_a_statement_set_has_an_insertion(tables):
    with pytest.raises(SqlParserException, match="INSERT was expected"):
        tables.execute_sql("EXECUTE STATEMENT SET BEGIN END")
    tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'blackhole')")
    text = "EXECUTE STATEMENT SET BEGIN INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); END"
    plan = tables.explain_sql(text).split("==")[2]
    assert plan.count("Sink(") == 2
