"""Batches of a table's files that are emitted together: positions count them one by one."""

import itertools
import random

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq
from penstock.connectors.files.splits import FileSplit, SplitElements, whole_file
from penstock.table import types
from penstock.table.connectors.batches import BATCH_ROWS
from penstock.table.connectors.file_formats import bulk_format
from penstock.taskexecutor.sources import adaptive_emission
from penstock.taskexecutor.sources.adaptive_emission import AdaptiveMerging
from pyarrow import orc

COUNT = 12 * BATCH_ROWS + 5


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "a.parquet"
    table = pa.table({"n": range(COUNT), "unread": ["x"] * COUNT})
    pq.write_table(table, found, row_group_size=10 * BATCH_ROWS)
    return found


@pytest.fixture
def layout():
    row = types.DataTypes.ROW(
        [
            types.DataTypes.FIELD("n", types.BigIntType()),
            types.DataTypes.FIELD("unread", types.DataTypes.STRING()),
            types.DataTypes.FIELD("missing", types.IntType()),
        ]
    )
    return bulk_format("parquet", row, row, {}).with_columns([0, 2])


@pytest.mark.parametrize("limits", [[1], [3, 1, 100], [100]])
def test_each_row_is_read_once_after_a_checkpoint_anywhere(path, layout, limits):
    split, found, turn = whole_file(str(path), path.stat().st_size, layout), [], 0
    while True:
        # Each time another reader continues, as after a failure.
        elements = SplitElements(split, layout, None)
        number, taken = elements.take(limits[turn % len(limits)])
        turn += 1
        if number == 0:
            break
        assert elements.are_merged
        (batch,) = taken
        assert number == -(-batch.num_rows // BATCH_ROWS)
        assert batch.column(1).null_count == batch.column(2).null_count == batch.num_rows
        found += batch.column(0).to_pylist()
        split = elements.rest()
        elements.close()
    assert found == list(range(COUNT))


def test_a_position_within_a_decoded_part_is_kept(path, layout):
    """Earlier releases stored positions at any batch of a row group."""
    split = whole_file(str(path), path.stat().st_size, layout)._replace(skip=5)
    elements = SplitElements(split, layout, None)
    number, (batch,) = elements.take(100)
    assert (number, batch.column(0)[0].as_py()) == (3, 5 * BATCH_ROWS)
    assert sum(batch.num_rows for batch in [batch, *elements]) == COUNT - 5 * BATCH_ROWS


def rows_of(split, layout):
    elements = SplitElements(split, layout, None)
    return [number for batch in elements for number in batch.column(0).to_pylist()]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
@pytest.mark.parametrize("length", [1_000, 20_011, 100_000])
def test_a_range_has_the_pieces_that_begin_in_it(tmp_path, kind, length):
    row = types.DataTypes.ROW([types.DataTypes.FIELD("n", types.BigIntType())])
    layout, path, numbers = bulk_format(kind, row, row, {}), tmp_path / "a", list(range(50_000))
    random.Random(1).shuffle(numbers)
    if kind == "orc":
        orc.write_table(pa.table({"n": numbers}), str(path), stripe_size=1)
    else:
        pq.write_table(pa.table({"n": numbers}), path, row_group_size=5_000)
    assert layout.can_be_cut()
    size = path.stat().st_size
    bounds = itertools.pairwise([*range(0, size, length), size])
    found = [rows_of(FileSplit(str(path), start, end), layout) for start, end in bounds]
    assert sum(1 for rows in found if rows) > 1
    assert list(itertools.chain(*found)) == numbers


@pytest.mark.parametrize("number", range(3))
def test_a_position_may_be_the_number_of_a_row_group(path, layout, number):
    """Release 1.0 stored numbers of row groups instead of positions in the file."""
    pq.write_table(pa.table({"n": range(COUNT)}), path, row_group_size=5 * BATCH_ROWS)
    split = whole_file(str(path), path.stat().st_size, layout)
    skipped = split._replace(start=number, skip=2)
    assert rows_of(skipped, layout) == list(range((5 * number + 2) * BATCH_ROWS, COUNT))


def test_slow_batches_are_emitted_one_by_one(monkeypatch):
    now_ns = [0]
    monkeypatch.setattr(adaptive_emission, "monotonic_ns", lambda: now_ns[0])

    def sizes(batch_ns):
        found = []

        def some(limit):
            now_ns[0] += limit * batch_ns
            found.append(limit)
            return limit

        emitted = AdaptiveMerging()
        for _ in range(20):
            emitted.emit(8, some)
        return found

    assert set(sizes(20_000_000)) == {1}
    assert max(sizes(500_000)) == 8
