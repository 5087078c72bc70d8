"""TO_CHANGELOG and FROM_CHANGELOG."""

import pytest

pytest.importorskip("pyarrow")

from penstock.table import EnvironmentSettings, TableEnvironment, exceptions
from penstock.table.expressions import col, descriptor, map_


@pytest.fixture
def tables():
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", "1")
    made.execute_sql(
        "CREATE TEMPORARY VIEW counts AS SELECT s, COUNT(*) AS n "
        "FROM (VALUES ('a'), ('b'), ('a')) AS v(s) GROUP BY s"
    )
    return made


def rows(result):
    with result.collect() as found:
        return [(str(row.get_row_kind()), *row) for row in found]


def test_changes_become_insertions_with_codes(tables):
    table = tables.from_path("counts").to_changelog()
    assert table.get_schema().get_field_names() == ["op", "s", "n"]
    assert rows(table.execute()) == [
        ("+I", "INSERT", "a", 1),
        ("+I", "INSERT", "b", 1),
        ("+I", "UPDATE_BEFORE", "a", 1),
        ("+I", "UPDATE_AFTER", "a", 2),
    ]


def test_codes_have_names_and_changes_without_one_are_dropped(tables):
    expected = [("+I", "set", "a", 1), ("+I", "set", "b", 1), ("+I", "set", "a", 2)]
    made = tables.from_path("counts").to_changelog(
        descriptor("what").as_argument("op"),
        map_("INSERT, UPDATE_AFTER", "set").as_argument("op_mapping"),
    )
    assert made.get_schema().get_field_names() == ["what", "s", "n"]
    assert rows(made.execute()) == expected
    text = (
        "SELECT * FROM TO_CHANGELOG(input => TABLE counts, op => DESCRIPTOR(what), "
        "op_mapping => MAP['INSERT, UPDATE_AFTER', 'set'])"
    )
    assert rows(tables.execute_sql(text)) == expected


def test_codes_become_changes(tables):
    coded = tables.from_elements(
        [("c", "a", 1), ("r", "b", 1), ("ub", "a", 1), ("ua", "a", 5), ("d", "b", 1)],
        ["op", "s", "n"],
    )
    codes = map_(
        "c, r", "INSERT", "ub", "UPDATE_BEFORE", "ua", "UPDATE_AFTER", "d", "DELETE"
    ).as_argument("op_mapping")
    made = coded.from_changelog(codes)
    assert rows(made.execute()) == [
        ("+I", "a", 1),
        ("+I", "b", 1),
        ("-U", "a", 1),
        ("+U", "a", 5),
        ("-D", "b", 1),
    ]
    assert rows(made.select(col("n").sum).execute())[-1] == ("+U", 5)


def test_a_changelog_and_back_is_the_same_table(tables):
    tables.create_temporary_view("coded", tables.from_path("counts").to_changelog())
    text = "SELECT * FROM FROM_CHANGELOG(input => TABLE coded)"
    assert rows(tables.execute_sql(text)) == rows(tables.from_path("counts").execute())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("TO_CHANGELOG(input => TABLE counts, op => DESCRIPTOR(a, b))", "exactly one column"),
        ("TO_CHANGELOG(input => TABLE counts, op_mapping => MAP['X', 'a'])", "operation: 'X'"),
        ("TO_CHANGELOG(input => TABLE counts, op_mapping => MAP['INSERT', 'a', 'INSERT,DELETE', "
         "'b'])", "Duplicate change operation"),
        ("TO_CHANGELOG(input => TABLE counts, more => 1)", "takes INPUT, OP, OP_MAPPING"),
        ("TO_CHANGELOG(1)", "First argument must be a table"),
        ("FROM_CHANGELOG(input => TABLE texts, op => DESCRIPTOR(x))", "does not exist"),
        ("FROM_CHANGELOG(input => TABLE texts, op => DESCRIPTOR(n))", "of STRING type"),
        ("FROM_CHANGELOG(input => TABLE texts, op_mapping => MAP['u', 'UPDATE_AFTER'])",
         "must include UPDATE_BEFORE"),
        ("FROM_CHANGELOG(input => TABLE texts, op_mapping => MAP['u', UPPER('INSERT')])",
         "constant MAP"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(tables, text, said):
    tables.create_temporary_view("texts", tables.from_elements([("INSERT", 1)], ["op", "n"]))
    with pytest.raises(exceptions.TableException, match=said):
        tables.sql_query(f"SELECT * FROM {text}")


def test_unknown_codes_fail_the_job(tables):
    coded = tables.from_elements([("X", 1)], ["op", "n"])
    with pytest.raises(Exception, match="Received invalid op code 'X'"):
        rows(coded.from_changelog().execute())
