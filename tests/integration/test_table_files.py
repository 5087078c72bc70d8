"""Tables in files of columns: rows are written and read back, by partitions, in each format."""

from datetime import UTC, datetime

import pytest
from penstock.datastream.connectors.file_system import PartitionCommitPolicy
from penstock.errors import SinkError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.connectors import partition_commits
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


def test_types_without_avro_form_are_rejected_before_the_job_starts(tables, tmp_path):
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
    # The markers are not rows.
    assert rows_of(tables, "SELECT n, `day` FROM f") == [(1, "mo"), (2, "tu")]


class Manifest(PartitionCommitPolicy):
    """Writes the path and the values of a partition into its folder."""

    def __init__(self, name):
        self.name = name

    def commit(self, context):
        """Write them."""
        context.write_file(self.name, repr(context.partition_spec).encode())


def test_partitions_are_committed_by_their_time(tables, tmp_path):
    """The partition beyond the last watermark is committed at the end of the input."""
    declare(
        tables,
        "f",
        tmp_path,
        "(n INT, `day` STRING, `hour` STRING) PARTITIONED BY (`day`, `hour`)",
        format="csv",
        **{
            "partition.time-extractor.timestamp-pattern": "$day $hour:00:00",
            "sink.partition-commit.trigger": "partition-time",
            "sink.partition-commit.delay": "1 h",
            "sink.partition-commit.policy.kind": "custom,success-file",
            "sink.partition-commit.policy.class": f"{__name__}.Manifest",
            "sink.partition-commit.policy.class.parameters": "_manifest",
        },
    )
    tables.execute_sql("INSERT INTO f VALUES (1, '2024-01-02', '10')").wait()
    folder = tmp_path / "day=2024-01-02" / "hour=10"
    assert (folder / "_manifest").read_text() == "{'day': '2024-01-02', 'hour': '10'}"
    assert (folder / "_SUCCESS").read_bytes() == b""


@pytest.mark.parametrize(
    ("pattern", "formatter", "zone", "folder", "time"),
    [
        (None, None, "UTC", "d=2024-01-02", "2024-01-02T00:00+00:00"),
        ("$d $h:00:00", None, "Asia/Tokyo", "d=2024-01-02/h=3", "2024-01-02T03:00+09:00"),
        ("$d_h", None, "UTC", "d=x/d_h=2024-01-02 10%3A00%3A00", "2024-01-02T10:00+00:00"),
        ("$d-$h", "yyyyMMdd-HH", "UTC", "d=20240102/h=10", "2024-01-02T10:00+00:00"),
    ],
)
def test_the_time_of_a_partition_is_read_off_its_folder(pattern, formatter, zone, folder, time):
    given = {key: spec.default for key, spec in partition_commits.OPTIONS.items()} | {
        "partition.time-extractor.timestamp-pattern": pattern,
        "partition.time-extractor.timestamp-formatter": formatter,
        "sink.partition-commit.trigger": "partition-time",
        "sink.partition-commit.watermark-time-zone": zone,
        "sink.partition-commit.policy.kind": ("success-file",),
    }
    keys = [part.partition("=")[0] for part in folder.split("/")]
    trigger, _ = partition_commits.partition_commit(given, keys)
    assert trigger.time_of(folder) == datetime.fromisoformat(time).timestamp() * 1000
    with pytest.raises(SinkError, match="timestamp-pattern"):
        trigger.time_of("/".join(f"{key}=__DEFAULT_PARTITION__" for key in keys))


class OfFixedTime:
    """An extractor that always returns the same time."""

    def extract(self, partition_keys, partition_values):
        """Return that time."""
        assert (list(partition_keys), list(partition_values)) == (["day"], ["mo"])
        return datetime(2024, 1, 2, tzinfo=UTC)


def test_classes_of_partition_commit_are_imported():
    given = {key: spec.default for key, spec in partition_commits.OPTIONS.items()} | {
        "partition.time-extractor.kind": "custom",
        "partition.time-extractor.class": f"{__name__}:OfFixedTime",
        "sink.partition-commit.trigger": "partition-time",
        "sink.partition-commit.policy.kind": ("success-file",),
    }
    trigger, _ = partition_commits.partition_commit(given, ["day"])
    assert trigger.time_of("day=mo") == datetime(2024, 1, 2, tzinfo=UTC).timestamp() * 1000
    for changed, words in (
        ({"sink.partition-commit.policy.kind": ("custom",)}, "policy.class' is missing"),
        ({"partition.time-extractor.class": "org.acme.Times"}, "cannot construct org.acme.Times"),
        ({"partition.time-extractor.class": "builtins.object"}, "no method extract"),
        (
            {
                "sink.partition-commit.policy.kind": ("custom",),
                "sink.partition-commit.policy.class": "builtins.object",
            },
            "not a subclass of",
        ),
    ):
        with pytest.raises(ValidationException, match=words):
            partition_commits.partition_commit(given | changed, ["day"])


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("sink.partition-commit.policy.kind", "metastore,success-file", "no metastore"),
        ("sink.partition-commit.trigger", "event-time", "process-time or partition-time"),
        ("sink.partition-commit.delay", "soon", "delay"),
        ("sink.partition-commit.watermark-time-zone", "Mars", "unknown time zone"),
        ("auto-compaction", "true", "enable_compact"),
    ],
)
def test_invalid_options_are_reported(tables, tmp_path, option, value, words):
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
