"""Tables in files of columns: what is written is read again, by partitions and in each format."""

import pytest
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.exceptions import ValidationException


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", "1")
    made.get_config().set("table.local-time-zone", "UTC")
    return made


def declare(tables, name, folder, columns, **options):
    given = {"connector": "filesystem", "path": folder, **options}
    pairs = ", ".join(f"'{key.replace('__', '.')}' = '{value}'" for key, value in given.items())
    tables.execute_sql(f"CREATE TABLE {name} {columns} WITH ({pairs})")


def rows_of(tables, query):
    with tables.execute_sql(query).collect() as rows:
        return sorted(tuple(row) for row in rows)


COLUMNS = (
    "(id INT, name STRING, amount DECIMAL(10, 2), at_time TIMESTAMP(3), tags ARRAY<STRING>, "
    "inner_row ROW<x INT, y STRING>, `day` STRING) PARTITIONED BY (`day`)"
)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("avro", {"avro__codec": "deflate"}),
        ("avro", {}),
        ("orc", {}),
        ("parquet", {"parquet__compression": "gzip"}),
    ],
)
def test_files_of_columns_are_written_and_read(tables, tmp_path, name, options):
    pytest.importorskip("fastavro")
    declare(tables, "f", tmp_path, COLUMNS, format=name, **options)
    tables.execute_sql(
        "INSERT INTO f VALUES "
        "(1, 'a', 1.50, TIMESTAMP '2024-01-02 03:04:05.678', ARRAY['x', 'y'], ROW(1, 'r'), 'mo'),"
        "(2, CAST(NULL AS STRING), CAST(NULL AS DECIMAL(10, 2)), CAST(NULL AS TIMESTAMP(3)), "
        "ARRAY['z'], ROW(2, 's'), 'tu')"
    ).wait()
    assert {path.name for path in tmp_path.iterdir()} >= {"day=mo", "day=tu"}
    assert rows_of(
        tables,
        "SELECT id, name, CAST(amount AS STRING), CAST(at_time AS STRING), tags[1], inner_row.y, "
        "`day` FROM f",
    ) == [
        (1, "a", "1.50", "2024-01-02 03:04:05.678", "x", "r", "mo"),
        (2, None, None, None, "z", "s", "tu"),
    ]


def test_what_avro_has_not_is_refused_before_the_job_starts(tables, tmp_path):
    declare(tables, "f", tmp_path, "(m MAP<INT, INT>)", format="avro")
    declare(tables, "g", tmp_path, "(n INT)", format="avro", avro__codec="nice")
    with pytest.raises(ValidationException, match="keys of its maps are texts"):
        tables.execute_sql("SELECT * FROM f")
    with pytest.raises(ValidationException, match="nice"):
        tables.execute_sql("INSERT INTO g VALUES (1)")


def test_formats_without_lines_are_refused(tables, tmp_path):
    options = {"format": "avro-confluent", "avro-confluent__url": "http://127.0.0.1:9"}
    declare(tables, "f", tmp_path, "(n INT)", **options)
    with pytest.raises(ValidationException, match=r"has no lines.*csv"):
        tables.execute_sql("SELECT * FROM f")


def test_partitions_are_marked_when_their_files_are_there(tables, tmp_path):
    declare(
        tables,
        "f",
        tmp_path,
        "(n INT, `day` STRING) PARTITIONED BY (`day`)",
        format="csv",
        **{
            "sink.partition-commit.policy.kind": "success-file",
            "sink.partition-commit.success-file.name": "done",
        },
    )
    tables.execute_sql("INSERT INTO f VALUES (1, 'mo'), (2, 'tu')").wait()
    for day in ("mo", "tu"):
        folder = tmp_path / f"day={day}"
        assert (folder / "done").read_bytes() == b""
        assert sum(path.name.startswith("part-") for path in folder.iterdir()) == 1
    assert not (tmp_path / "done").exists()
    # The marks are no rows.
    assert rows_of(tables, "SELECT n, `day` FROM f") == [(1, "mo"), (2, "tu")]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("sink.partition-commit.policy.kind", "metastore,success-file", "neither a metastore"),
        ("sink.partition-commit.trigger", "partition-time", "does not wait for partition-time"),
        ("sink.partition-commit.delay", "1 h", "without delay"),
        ("auto-compaction", "true", "enable_compact"),
    ],
)
def test_what_partitions_do_not_wait_for_is_told(tables, tmp_path, option, value, words):
    declare(tables, "f", tmp_path, "(n INT)", format="csv", **{option: value})
    with pytest.raises(ValidationException, match=words):
        tables.execute_sql("INSERT INTO f VALUES (1)")


def test_rows_are_replaced_in_the_partitions_that_are_written(monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    columns = "(n INT, `day` STRING) PARTITIONED BY (`day`)"
    declare(tables, "f", tmp_path / "f", columns, format="csv")
    tables.execute_sql("INSERT INTO f VALUES (1, 'mo'), (2, 'tu')").wait()
    tables.execute_sql("INSERT INTO f VALUES (3, 'mo')").wait()
    tables.execute_sql("INSERT OVERWRITE f VALUES (4, 'mo')").wait()
    assert rows_of(tables, "SELECT n, `day` FROM f") == [(2, "tu"), (4, "mo")]
    tables.execute_sql("INSERT OVERWRITE f PARTITION (`day` = 'tu') SELECT 5").wait()
    assert rows_of(tables, "SELECT n, `day` FROM f") == [(4, "mo"), (5, "tu")]
    declare(tables, "g", tmp_path / "g", "(n INT)", format="json")
    numbers = tables.sql_query("SELECT n FROM f")
    for _ in range(2):
        numbers.execute_insert("g", overwrite=True).wait()
    assert rows_of(tables, "SELECT n FROM g") == [(4,), (5,)]


def test_rows_are_replaced_in_batch_mode_and_by_files_alone(tables, tmp_path):
    declare(tables, "f", tmp_path, "(n INT)", format="csv")
    tables.execute_sql("CREATE TABLE p (n INT) WITH ('connector' = 'print')")
    with pytest.raises(ValidationException, match="is for batch mode"):
        tables.execute_sql("INSERT OVERWRITE f VALUES (1)")
    with pytest.raises(ValidationException, match="can replace rows"):
        tables.execute_sql("INSERT OVERWRITE p VALUES (1)")
