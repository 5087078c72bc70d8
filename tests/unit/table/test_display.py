"""Tables as text: cells, widths and the box; definitions as SHOW and DESCRIBE print them."""

import datetime
import decimal
import zoneinfo

import pytest
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.schema.resolution import expression_text
from penstock.table.schema.resolved_schema import (
    ComputedColumn,
    PhysicalColumn,
    ResolvedSchema,
    UniqueConstraint,
    WatermarkSpec,
)
from penstock.table.statements.show import described, like_pattern
from penstock.table.table_result.display import box_lines, cell_text, content_widths, type_widths
from penstock.table.types import DataTypes, TimeAttribute

D = DataTypes
UTC = zoneinfo.ZoneInfo("UTC")


@pytest.mark.parametrize(
    ("value", "data_type", "text"),
    [
        (True, D.BOOLEAN(), "TRUE"),
        (1.0e7, D.DOUBLE(), "1.0E7"),
        (decimal.Decimal("1.50"), D.DECIMAL(5, 2), "1.50"),
        (b"\x0a\xff", D.BYTES(), "x'0aff'"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5, 600000), D.TIMESTAMP(3), "2024-01-02 03:04:05.600"),
        (datetime.datetime(2024, 1, 2), D.TIMESTAMP(0), "2024-01-02 00:00:00"),
        (datetime.timedelta(days=1, hours=2), D.INTERVAL(D.DAY(), D.SECOND(3)), "+1 02:00:00.000"),
        (14, D.INTERVAL(D.MONTH()), "+1-02"),
        ([1, None], D.ARRAY(D.INT()), "[1, NULL]"),
        ({"k": 1}, D.MAP(D.STRING(), D.INT()), "{k=1}"),
        ((1, "x"), D.ROW([D.FIELD("a", D.INT()), D.FIELD("b", D.STRING())]), "(1, x)"),
    ],
)
def test_cells_are_what_casts_to_string_give(value, data_type, text):
    assert cell_text(value, data_type, UTC) == text


def test_instants_are_in_the_zone_of_the_session():
    moment = datetime.datetime(2024, 7, 1, tzinfo=datetime.UTC)
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    assert cell_text(moment, D.TIMESTAMP_LTZ(3), zone) == "2024-07-01 02:00:00.000"


def test_widths_follow_from_types_and_names():
    kinds = [D.INT(), D.BIGINT(), D.BOOLEAN(), D.DECIMAL(5, 2), D.TIMESTAMP(3), D.STRING()]
    names = ["a", "b", "c", "d", "e", "f"]
    assert type_widths(names, kinds) == [11, 20, 6, 7, 23, 30]
    assert type_widths(["a long name of a column"], [D.INT()]) == [23]


def test_long_cells_are_cut_and_wide_characters_count_twice():
    lines = list(box_lines(["a"], [["abcdefgh"], ["日本"]], [6]))
    assert lines == [
        "+--------+",
        "|      a |",
        "+--------+",
        "| abc... |",
        "|   日本 |",
        "+--------+",
        "2 rows in set",
    ]
    assert list(box_lines(["a"], [], [1])) == ["Empty set"]
    assert content_widths(["ab"], [["abc"]]) == [3]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("price*2", "`price` * 2"),
        ("ts - interval '5' second", "`ts` - INTERVAL '5' SECOND"),
        ("proctime()", "PROCTIME()"),
        ("upper(name) || '!'", "UPPER(`name`) || '!'"),
        ("cast(a as decimal(5, 2))", "CAST(`a` AS DECIMAL(5, 2))"),
        ("`x y`.z", "`x y`.`z`"),
    ],
)
def test_expressions_are_shown_with_quoted_names(text, shown):
    assert expression_text(text) == shown


def test_describe():
    time = D.TIMESTAMP(3).with_time_attribute(TimeAttribute.ROWTIME)
    schema = ResolvedSchema(
        [
            PhysicalColumn("id", D.BIGINT().not_null(), "the key"),
            PhysicalColumn("ts", time),
            ComputedColumn("twice", D.BIGINT(), None, None, "`id` * 2"),
        ],
        [WatermarkSpec("ts", None, "`ts`")],
        UniqueConstraint.primary_key("PK_id", ["id"]),
    )
    rows = [list(row) for row in described(schema).collect()]
    assert rows == [
        ["id", "BIGINT", False, "PRI(id)", None, None, "the key"],
        ["ts", "TIMESTAMP(3) *ROWTIME*", True, None, None, "`ts`", None],
        ["twice", "BIGINT", True, None, "AS `id` * 2", None, None],
    ]


def test_patterns_of_show():
    assert like_pattern("a%_b.", is_insensitive=False).fullmatch("axyzb.")
    assert not like_pattern("a%", is_insensitive=False).fullmatch("Ab")
    assert like_pattern("a%", is_insensitive=True).fullmatch("Ab")


def test_insertions_print_minus_one_for_each_table_at_their_end(monkeypatch, capsys):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'blackhole')")
    insertions = tables.create_statement_set()
    insertions.add_insert_sql("INSERT INTO t VALUES (1)")
    insertions.add_insert_sql("INSERT INTO t VALUES (2)")
    result = insertions.execute()
    result.print()
    assert capsys.readouterr().out == "-1, -1\n"
    status = result.get_job_client().get_job_status().result()
    assert status.is_globally_terminal_state()
