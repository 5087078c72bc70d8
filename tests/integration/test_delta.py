"""DeltaSink and DeltaSource against deltalake, which itself reads and writes the tables."""

import datetime
import decimal

import deltalake
import pyarrow as pa
import pytest
from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream.connectors.delta import DeltaSink, DeltaSource
from penstock.errors import (
    DependencyError,
    FormatError,
    InvalidProgramError,
    SinkError,
    SourceError,
)
from support.environments import in_process
from support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, s3_process

PAIR = Types.ROW_NAMED(["n", "text"], [Types.LONG(), Types.STRING()])
PAIRS = [Row(n=1, text="a"), Row(n=2, text=None)]


def write(path, rows, kind=PAIR, **settings):
    env = in_process(2)
    env.from_collection(rows, kind).sink_to(DeltaSink(str(path), kind, **settings))
    env.execute()
    return deltalake.DeltaTable(str(path))


def read(path, *arguments):
    source = DeltaSource.for_snapshot(str(path), *arguments)
    stream = in_process(2).from_source(source, WatermarkStrategy.no_watermarks(), "delta")
    with stream.execute_and_collect() as results:
        return list(results)


def test_rows_are_appended_a_version_for_each_commit(tmp_path):
    table = write(tmp_path / "t", PAIRS)
    assert table.to_pyarrow_table().sort_by("n").to_pylist() == [
        {"n": 1, "text": "a"},
        {"n": 2, "text": None},
    ]
    assert table.version() == 1
    assert write(tmp_path / "t", [Row(n=3, text="c")]).version() == 2
    assert sorted(row.n for row in read(tmp_path / "t")) == [1, 2, 3]
    assert sorted(row.n for row in read(tmp_path / "t", None, 1)) == [1, 2]
    assert sorted(read(tmp_path / "t", ["text"], 1), key=str) == [Row(text="a"), Row(text=None)]


def test_a_folder_may_have_any_name(tmp_path):
    """Deltalake encodes it in the URLs of files."""
    place = tmp_path / "Übersicht #1" / "t"
    place.parent.mkdir()
    write(place, PAIRS, partition_by=["text"])
    assert sorted(read(place), key=str) == PAIRS


@pytest.mark.parametrize("partition_by", [[], ["text"]])
def test_a_table_is_reached_by_its_storage_options(partition_by):
    """In driver and workers, although penstock has no options of its own for the store."""
    with s3_process() as endpoint:
        options = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
        }
        table, env = f"s3://{BUCKET}/deep/t", in_process(2)
        sink = DeltaSink(table, PAIR, partition_by=partition_by, storage_options=options)
        env.from_collection(PAIRS, PAIR).sink_to(sink)
        env.execute()
        for source in (
            DeltaSource.for_snapshot(table, storage_options=options),
            DeltaSource.for_changes(table, end_version=1, storage_options=options),
        ):
            stream = in_process(2).from_source(source, WatermarkStrategy.no_watermarks(), "delta")
            with stream.execute_and_collect() as results:
                assert sorted(results, key=lambda row: row.n) == PAIRS


def test_nothing_is_committed_without_rows(tmp_path):
    assert write(tmp_path / "t", []).version() == 0
    assert read(tmp_path / "t") == []


def test_all_types_are_read_back(tmp_path):
    row = Row(
        a=True,
        b=2.5,
        c=decimal.Decimal("1.250000000000000000"),
        d=datetime.date(2024, 5, 6),
        e=datetime.datetime(2024, 5, 6, 7, 8, 9),
        f=[1, None],
        g={"k": 1},
        h=Row(x="y"),
    )
    names = list("abcdefgh")
    kind = Types.ROW_NAMED(
        names,
        [
            Types.BOOLEAN(),
            Types.DOUBLE(),
            Types.BIG_DEC(),
            Types.SQL_DATE(),
            Types.SQL_TIMESTAMP(),
            Types.LIST(Types.INT()),
            Types.MAP(Types.STRING(), Types.LONG()),
            Types.ROW_NAMED(["x"], [Types.STRING()]),
        ],
    )
    table = write(tmp_path / "t", [row], kind)
    assert [field.name for field in table.schema().fields] == names
    assert read(tmp_path / "t") == [row]


@pytest.mark.parametrize("name", ["text", "n", "day"])
def test_partitions(tmp_path, name):
    """Values with characters that a path cannot have, None, and more values than open files."""
    day = datetime.date(2024, 1, 1)
    rows = [
        Row(n=n, text=None if n == 5 else f"a/b=%20é {n}", day=day + datetime.timedelta(n), x=n)
        for n in range(100)
    ]
    kind = Types.ROW_NAMED(
        ["n", "text", "day", "x"],
        [Types.LONG(), Types.STRING(), Types.SQL_DATE(), Types.LONG()],
    )
    table = write(tmp_path / "t", rows, kind, partition_by=[name])
    assert table.metadata().partition_columns == [name]
    assert sorted(table.to_pyarrow_table()[name].to_pylist(), key=str) == sorted(
        (row[name] for row in rows), key=str
    )
    assert sorted(read(tmp_path / "t"), key=lambda row: row.n) == rows


def test_tables_of_others_are_read(tmp_path):
    path = str(tmp_path / "t")
    data = pa.table({"day": ["x y", "z"], "n": [1, 2]})
    deltalake.write_deltalake(path, data, partition_by=["day"])
    assert sorted(read(path), key=str) == [Row(day="x y", n=1), Row(day="z", n=2)]
    deltalake.DeltaTable(path).delete("n = 1")
    assert read(path, ["n"]) == [Row(n=2)]


def test_a_table_of_other_columns_is_refused(tmp_path):
    write(tmp_path / "t", PAIRS)
    other = Types.ROW_NAMED(["n", "text"], [Types.INT(), Types.STRING()])
    with pytest.raises(SinkError, match=r"has the columns .* and the sink has"):
        write(tmp_path / "t", [Row(n=1, text="a")], other)
    with pytest.raises(SinkError, match=r"partitioned by \[\], and the sink by \['text'\]"):
        write(tmp_path / "t", PAIRS, partition_by=["text"])


def test_a_value_that_does_not_fit_names_the_field(tmp_path):
    env = in_process(2)
    sink = DeltaSink(str(tmp_path / "t"), PAIR)
    env.from_collection([{"n": "x", "text": "a"}]).sink_to(sink)
    with pytest.raises(FormatError, match="field 'n' does not fit"):
        env.execute()


@pytest.mark.parametrize("source_of", [DeltaSource.for_snapshot, DeltaSource.for_changes])
def test_a_table_that_is_not_there_is_named(tmp_path, source_of):
    path = str(tmp_path / "nowhere")
    with pytest.raises(
        SourceError, match=f"cannot open the table {path} for DeltaSource: .*; check"
    ):
        source_of(path)


def test_a_table_that_cannot_be_made_is_named(tmp_path):
    path = tmp_path / "file"
    path.write_text("in the way")
    with pytest.raises(SinkError, match=f"cannot open the table {path} for DeltaSink: .*; check"):
        write(path, PAIRS)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda path: DeltaSink(path, Types.LONG()), "DeltaSink takes a row"),
        (
            lambda path: DeltaSink(path, PAIR, partition_by=["x"]),
            "names the column 'x', which does",
        ),
        (lambda path: DeltaSink(path, PAIR, partition_by=["n", "text"]), "at least one column"),
        (
            lambda path: DeltaSink(path, pa.schema({"f": pa.float64()}), partition_by=["f"]),
            "'f' of type double cannot partition the table",
        ),
        (lambda path: DeltaSource.for_snapshot(path, ["x"]), "has no column 'x'"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, make, expected):
    deltalake.write_deltalake(str(tmp_path), pa.table({"n": [1]}))
    with pytest.raises(InvalidProgramError, match=expected):
        make(str(tmp_path))


def test_tables_with_features_that_are_not_read_are_refused(tmp_path):
    deltalake.DeltaTable.create(
        str(tmp_path),
        deltalake.Schema.from_arrow(pa.schema({"n": pa.int64()})),
        configuration={"delta.enableDeletionVectors": "true"},
    )
    with pytest.raises(InvalidProgramError, match="deletionVectors"):
        DeltaSource.for_snapshot(str(tmp_path))


def test_the_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(DependencyError, match=r"penstock-engine\[delta\]"):
        DeltaSink("t", PAIR)
    with pytest.raises(DependencyError, match=r"penstock-engine\[delta\]"):
        DeltaSource.for_snapshot("t")
