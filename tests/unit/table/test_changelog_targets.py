"""Schemas and modes of `to_changelog_stream`, as PyFlink 2.3 applies them."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.common import Row, RowKind, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import ProcessFunction
from penstock.table import ChangelogMode, DataTypes, Schema, StreamTableEnvironment
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.expressions import col

NAMED = Types.ROW_NAMED(["k", "v"], [Types.INT(), Types.INT()])
KEYED = (
    Schema.new_builder()
    .column("k", DataTypes.INT().not_null())
    .column("v", DataTypes.INT())
    .primary_key("k")
    .build()
)


class SecondsOfValue(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


class WithTimestamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield tuple(value), ctx.timestamp()


@pytest.fixture
def environments(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment()
    return env, StreamTableEnvironment.create(env)


def of_kind(kind, *values):
    row = Row(*values)
    row.set_row_kind(kind)
    return row


def changes(stream):
    with stream.execute_and_collect() as rows:
        return [(str(row.get_row_kind()), *row) for row in rows]


def timed(env, tables):
    """Return a table of ids and their seconds with the event time `t`."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = env.from_collection([Row(1, 3), Row(2, 5)], NAMED)
    stream = stream.assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondsOfValue())
    )
    schema = Schema.new_builder().column_by_metadata("t", "TIMESTAMP_LTZ(3)", "rowtime")
    table = tables.from_data_stream(stream, schema.watermark("t", "SOURCE_WATERMARK()").build())
    tables.create_temporary_view("timed", table)
    return table


@pytest.fixture
def updated(environments):
    """A table of which one row is updated and another deleted."""
    env, tables = environments
    rows = [
        of_kind(RowKind.INSERT, 1, 10),
        of_kind(RowKind.INSERT, 2, 20),
        of_kind(RowKind.UPDATE_BEFORE, 1, 10),
        of_kind(RowKind.UPDATE_AFTER, 1, 11),
        of_kind(RowKind.DELETE, 2, 20),
    ]
    return tables.from_changelog_stream(
        env.from_collection(rows, NAMED), KEYED, ChangelogMode.all()
    )


def test_a_stream_of_upserts_has_no_old_rows(environments, updated):
    _, tables = environments
    found = changes(tables.to_changelog_stream(updated, KEYED, ChangelogMode.upsert()))
    assert found == [("+I", 1, 10), ("+I", 2, 20), ("+U", 1, 11), ("-D", 2, 20)]


def test_an_update_of_the_key_of_upserts_deletes_the_old_one(environments, updated):
    _, tables = environments
    swapped = updated.select(col("v").alias("k"), col("k").alias("v"))
    found = changes(tables.to_changelog_stream(swapped, KEYED, ChangelogMode.upsert()))
    left = {}
    for kind, key, value in found:
        if kind == "-D":
            del left[key]
        else:
            left[key] = value
    assert left == {11: 1}
    assert "-U" not in {kind for kind, *_ in found}


def test_columns_of_a_schema_are_matched_by_position(environments, updated):
    _, tables = environments
    kinds = DataTypes.BIGINT(), DataTypes.INT()
    for names in (("v", "k"), ("x", "y")):
        schema = Schema.new_builder().from_fields(names, kinds).build()
        stream = tables.to_changelog_stream(updated, schema)
        assert stream.get_type().get_field_names() == list(names)
        assert changes(stream)[:2] == [("+I", 1, 10), ("+I", 2, 20)]
    texts = Schema.new_builder().from_fields(["k", "v"], [DataTypes.STRING()] * 2).build()
    with pytest.raises(ValidationException, match="Incompatible types for sink column 'k'"):
        tables.to_changelog_stream(updated, texts)


def test_the_rowtime_of_a_schema_is_the_timestamp_of_records(environments):
    env, tables = environments
    timed(env, tables)
    table = tables.sql_query("SELECT t, k FROM timed")
    schema = Schema.new_builder().column_by_metadata("time", "TIMESTAMP_LTZ(3)", "rowtime")
    schema.column("id", DataTypes.INT())
    stream = tables.to_changelog_stream(table, schema.build()).process(WithTimestamp())
    with stream.execute_and_collect() as rows:
        assert list(rows) == [((1,), 3000), ((2,), 5000)]


def test_a_stream_has_no_other_metadata(environments, updated):
    _, tables = environments
    schema = Schema.new_builder().column("k", DataTypes.INT())
    schema.column_by_metadata("offset", DataTypes.INT())
    with pytest.raises(ValidationException, match="Invalid metadata key 'offset'"):
        tables.to_changelog_stream(updated, schema.build())


def test_a_target_has_one_time_attribute(environments):
    env, tables = environments
    timed(env, tables)
    both = "SELECT t, t AS u FROM timed"
    columns = "a TIMESTAMP_LTZ(3), b TIMESTAMP_LTZ(3)"
    tables.execute_sql(f"CREATE TABLE target ({columns}) WITH ('connector' = 'blackhole')")
    for write in (
        lambda: tables.to_data_stream(tables.sql_query(both)),
        lambda: tables.to_changelog_stream(tables.sql_query(both)),
        lambda: tables.execute_sql(f"INSERT INTO target {both}"),
    ):
        with pytest.raises(TableException, match="more than one rowtime attribute column"):
            write()


def test_columns_that_expressions_select_have_different_names(environments):
    env, tables = environments
    with pytest.raises(ValidationException, match="Ambiguous column name: k"):
        tables.from_data_stream(env.from_collection([], NAMED), col("k"), col("k"))
