"""DeltaSource.for_changes: the rows of a table and their changes, which deltalake writes."""

import datetime
import decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from penstock.common import WatermarkStrategy
from penstock.datastream import ProcessFunction
from penstock.datastream.connectors.delta import DeltaSource
from penstock.errors import InvalidProgramError, PenstockError
from support.environments import in_process

CDF = {"delta.enableChangeDataFeed": "true"}


def append(path, *numbers, **settings):
    data = pa.table({"n": numbers, "day": [f"d{n % 2}" for n in numbers]})
    deltalake.write_deltalake(str(path), data, mode="append", **settings)


def changes(path, *arguments, **settings):
    """Return the kind and the values of each record."""
    source = DeltaSource.for_changes(str(path), *arguments, discovery_interval_ms=1, **settings)
    stream = in_process(2).from_source(source, WatermarkStrategy.no_watermarks(), "delta")
    with stream.execute_and_collect() as results:
        return [(str(row.get_row_kind()), *row) for row in results]


def test_rows_and_then_those_of_later_versions(tmp_path):
    append(tmp_path, 1, 2)
    append(tmp_path, 3)
    append(tmp_path, 4)
    inserts = [("+I", 1), ("+I", 2), ("+I", 3), ("+I", 4)]
    assert changes(tmp_path, ["n"], start_version=0, end_version=2) == inserts
    assert changes(tmp_path, ["n"], start_version=0, end_version=1) == inserts[:3]
    assert sorted(changes(tmp_path, ["n"], end_version=2)) == inserts
    later = changes(tmp_path, ["n"], start_version=0, end_version=2, snapshot=False)
    assert later == inserts[2:]


@pytest.mark.parametrize("partition_by", [None, ["day"]])
def test_removed_rows_are_deletes(tmp_path, partition_by):
    append(tmp_path, 1, 3, 5, partition_by=partition_by)
    table = deltalake.DeltaTable(tmp_path)
    table.delete("n = 1")
    table.update(predicate="n = 3", new_values={"n": "4"})
    found = changes(tmp_path, start_version=0, end_version=2)
    kept = [(n, day) for kind, n, day in found if kind == "+I"]
    for row in [(n, day) for kind, n, day in found if kind == "-D"]:
        kept.remove(row)
    assert sorted(kept) == [(4, "d1"), (5, "d1")]
    assert [kind for kind, *_ in found[3:6]] == ["-D"] * 3, "what goes, before what comes"


@pytest.mark.parametrize("partition_by", [None, ["day"]])
def test_a_table_that_keeps_its_changes_says_which_rows_were_updated(tmp_path, partition_by):
    append(tmp_path, 1, 3, 5, partition_by=partition_by, configuration=CDF)
    table = deltalake.DeltaTable(tmp_path)
    table.update(predicate="n = 3", new_values={"n": "30"})
    table.delete("n = 5")
    append(tmp_path, 7)
    assert changes(tmp_path, start_version=0, end_version=3, snapshot=False) == [
        ("-U", 3, "d1"),
        ("+U", 30, "d1"),
        ("-D", 5, "d1"),
        ("+I", 7, "d1"),
    ]


def test_files_that_are_put_together_change_nothing(tmp_path):
    append(tmp_path, 1)
    append(tmp_path, 2)
    deltalake.DeltaTable(tmp_path).optimize.compact()
    append(tmp_path, 3)
    found = changes(tmp_path, ["n"], start_version=1, end_version=3, snapshot=False)
    assert found == [("+I", 3)]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("a b/c=%", pa.string()),
        (None, pa.string()),
        (True, pa.bool_()),
        (-5, pa.int32()),
        (datetime.date(2024, 5, 6), pa.date32()),
        (datetime.datetime(2024, 5, 6, 7, 8, 9), pa.timestamp("us")),
        (decimal.Decimal("1.50"), pa.decimal128(5, 2)),
        (2.5, pa.float64()),
    ],
)
def test_partitions_have_their_types(tmp_path, value, kind):
    """In the snapshot, in added rows, and in removed rows."""
    data = pa.table({"n": pa.array([1]), "part": pa.array([value], kind)})
    deltalake.write_deltalake(str(tmp_path), data, partition_by=["part"])
    deltalake.write_deltalake(str(tmp_path), data, mode="append")
    deltalake.DeltaTable(tmp_path).delete("n = 1")
    found = changes(tmp_path, ["part"], start_version=0, end_version=2)
    assert found == [("+I", value)] * 2 + [("-D", value)] * 2


def test_columns_that_were_added_are_none_before(tmp_path):
    append(tmp_path, 1)
    data = pa.table({"n": [2], "day": ["d"], "more": ["x"]})
    deltalake.write_deltalake(str(tmp_path), data, mode="append", schema_mode="merge")
    source = DeltaSource.for_changes(
        str(tmp_path), ["n", "more"], end_version=2, discovery_interval_ms=1
    )
    data = pa.table({"n": [3], "day": ["d"], "more": ["y"]})
    deltalake.write_deltalake(str(tmp_path), data, mode="append")
    stream = in_process().from_source(source, WatermarkStrategy.no_watermarks(), "delta")
    with stream.execute_and_collect() as results:
        found = sorted((tuple(row) for row in results), key=str)
    assert found == [(1, None), (2, "x"), (3, "y")]


class Timestamps(ProcessFunction):
    def process_element(self, value, ctx):
        yield value.n, ctx.timestamp()


def test_rows_have_the_time_of_their_commit(tmp_path):
    append(tmp_path, 1)
    append(tmp_path, 2)
    source = DeltaSource.for_changes(
        str(tmp_path), start_version=0, end_version=1, discovery_interval_ms=1
    )
    env = in_process()
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = env.from_source(source, strategy, "delta").process(Timestamps())
    with stream.execute_and_collect() as results:
        found = dict(results)
    history = {entry["version"]: entry for entry in deltalake.DeltaTable(tmp_path).history()}
    assert found[2] == history[1]["timestamp"]


def test_versions_that_come_later_are_found(tmp_path):
    append(tmp_path, 1)
    source = DeltaSource.for_changes(str(tmp_path), ["n"], end_version=3, discovery_interval_ms=1)
    stream = in_process().from_source(source, WatermarkStrategy.no_watermarks(), "delta")
    found = []
    with stream.execute_and_collect() as results:
        for row in results:
            found.append(row.n)
            if len(found) < 4:
                append(tmp_path, len(found) + 1)
    assert found == [1, 2, 3, 4]


def test_a_log_that_was_cleaned_is_an_error(tmp_path):
    for number in range(3):
        append(tmp_path, number)
    source = DeltaSource.for_changes(
        str(tmp_path), start_version=0, end_version=2, snapshot=False, discovery_interval_ms=1
    )
    deltalake.DeltaTable(tmp_path).create_checkpoint()
    Path(tmp_path, "_delta_log", f"{1:020d}.json").unlink()
    stream = in_process().from_source(source, WatermarkStrategy.no_watermarks(), "delta")
    with pytest.raises(PenstockError, match=r"no longer has version 1"):
        list(stream.execute_and_collect())


def test_files_that_were_vacuumed_are_an_error(tmp_path):
    append(tmp_path, 1, 2)
    table = deltalake.DeltaTable(tmp_path)
    table.delete("n = 1")
    source = DeltaSource.for_changes(
        str(tmp_path), start_version=0, end_version=1, snapshot=False, discovery_interval_ms=1
    )
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    stream = in_process().from_source(source, WatermarkStrategy.no_watermarks(), "delta")
    with pytest.raises(PenstockError, match=r"of version 1 of .* no longer exists"):
        list(stream.execute_and_collect())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"columns": ["x"]}, "has no column 'x'"),
        ({"end_version": 0, "start_version": 1}, "is before start_version"),
        ({"discovery_interval_ms": 0}, "must be positive"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, settings, said):
    append(tmp_path, 1)
    append(tmp_path, 2)
    with pytest.raises(InvalidProgramError, match=said):
        DeltaSource.for_changes(str(tmp_path), **settings)


def test_a_version_with_deletion_vectors_is_refused(tmp_path):
    append(tmp_path, 1)
    source = DeltaSource.for_changes(str(tmp_path), end_version=1, discovery_interval_ms=1)
    Path(tmp_path, "_delta_log", f"{1:020d}.json").write_text(
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,'
        '"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors"]}}\n'
    )
    stream = in_process().from_source(source, WatermarkStrategy.no_watermarks(), "delta")
    with pytest.raises(PenstockError, match="deletionVectors"):
        list(stream.execute_and_collect())
