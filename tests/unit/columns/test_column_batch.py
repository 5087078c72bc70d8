"""Batches of columns: slices and joins of batches contain the rows of these batches."""

import pyarrow as pa
import pytest
from penstock.columns.batch_schema import batch_column, batch_schema, inexact_field
from penstock.columns.column_batch import NO_TIMESTAMP, ColumnBatch, concat
from penstock.common.row_kind import RowKind
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.errors import FormatError
from penstock.formats.arrow_columns import ColumnMisfit, column_values
from penstock.formats.arrow_types import columns_of
from penstock.taskexecutor import compiled
from penstock.taskexecutor.compiled import operator_loop
from penstock.taskexecutor.copies.held_values import is_held

ROW = Types.ROW_NAMED(["number", "name"], [Types.LONG(), Types.STRING()])
ROWS = [Row(number=n, name=None if n == 2 else f"name {n}") for n in range(5)]


def batch(timestamps=NO_TIMESTAMP):
    return ColumnBatch(columns_of(ROWS, ROW, batch_schema(ROW)), ROW, timestamps)


def stamped():
    return batch(pa.array([10, 50, 20, 30, 40], pa.int64()))


def test_rows_are_those_it_was_made_of():
    assert batch().rows() == ROWS
    assert [type(row) for row in batch().rows()] == [Row] * 5


@pytest.mark.parametrize("loop", [operator_loop, compiled])
@pytest.mark.parametrize("made", [batch(), stamped()])
def test_a_row_that_is_processed_has_no_other_owner(made, loop):
    """State would take it for a value that a function holds, and copy it in the end."""
    kept = []

    class Keeping(loop.Input):
        def process(self, value, timestamp):
            assert not any(is_held((kept[n],), 0) for n in range(len(kept)))
            kept.append(value)

    class Emitting(loop.Output):
        def collect(self, value, timestamp):
            Keeping().process(value, timestamp)

    Keeping().process_batch(made)
    assert kept == ROWS
    kept.clear()
    Emitting().collect_batch(made)
    assert kept == ROWS


def test_tuples_and_values_are_records_as_well():
    data = pa.RecordBatch.from_pydict({"f0": [1, 2], "f1": ["a", "b"]})
    pairs = ColumnBatch(data, Types.TUPLE([Types.LONG(), Types.STRING()]))
    assert pairs.rows() == [(1, "a"), (2, "b")]
    assert ColumnBatch(data.select(["f0"]), Types.LONG()).rows() == [1, 2]


def test_kinds_of_change_are_read_back():
    rows = [Row(number=1, name="a"), Row(number=1, name="b")]
    rows[1].set_row_kind(RowKind.UPDATE_AFTER)
    kinds = pa.array([row.get_row_kind().value for row in rows], pa.int8())
    made = ColumnBatch(columns_of(rows, ROW, batch_schema(ROW)), ROW, kinds=kinds)
    assert made.rows() == rows
    assert made.take(pa.array([1])).rows()[0].get_row_kind() is RowKind.UPDATE_AFTER


def test_parts_keep_timestamps_with_their_records():
    made = stamped()
    assert made.slice(1, 2).timestamp_list() == [50, 20]
    assert made.take(pa.array([4, 0])).timestamp_list() == [40, 10]
    kept = made.filter(pa.array([True, None, False, True, False]))
    assert (kept.rows(), kept.timestamp_list()) == ([ROWS[0], ROWS[3]], [10, 30])


def test_the_largest_timestamp():
    assert stamped().max_timestamp == 50
    assert batch(7).max_timestamp == 7
    assert batch(7).slice(0, 0).max_timestamp == NO_TIMESTAMP
    assert stamped().slice(0, 0).max_timestamp == NO_TIMESTAMP


def test_batches_are_joined():
    joined = concat([batch(3).slice(0, 1), batch(3).slice(4)])
    assert (joined.rows(), joined.timestamps) == ([ROWS[0], ROWS[4]], 3)
    joined = concat([batch(3).slice(0, 1), stamped().slice(3)])
    assert joined.timestamp_list() == [3, 30, 40]
    with pytest.raises(ValueError, match="no batch"):
        concat([])


def test_kinds_are_joined_with_batches_that_have_none():
    changed = ColumnBatch(batch().data, ROW, kinds=pa.array([3] * 5, pa.int8()))
    assert concat([batch(), changed]).kinds.to_pylist() == [0] * 5 + [3] * 5


def test_parts_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="2 timestamps for 5 rows"):
        ColumnBatch(batch().data, ROW, pa.array([1, 2]))
    with pytest.raises(ValueError, match="2 columns"):
        ColumnBatch(batch().data, Types.LONG())


def test_rows_that_do_not_fit_name_the_field():
    with pytest.raises(FormatError, match="'number'"):
        columns_of([Row(number="one", name="a")], ROW, batch_schema(ROW))


def test_a_field_without_an_exact_column_is_found():
    nested = Types.ROW_NAMED(["n", "d"], [Types.LONG(), Types.BIG_DEC()])
    assert inexact_field(nested) == "d"


@pytest.mark.parametrize(
    ("column", "declared"),
    [
        (pa.array([1, None, -3], pa.int8()), Types.LONG()),
        (pa.array([1, 2**40], pa.int64()), Types.LONG()),
        (pa.array([0.5, None, float("inf")], pa.float32()), Types.DOUBLE()),
        (pa.array(["a", None, "ä"], pa.large_string()), Types.STRING()),
        (pa.array(["a", "b", "a"]).dictionary_encode(), Types.STRING()),
    ],
)
def test_columns_of_files_keep_their_values(column, declared):
    made = batch_column(column, declared)
    assert made.type == batch_schema(declared).field(0).type
    assert made.to_pylist() == column_values(column, declared)


def test_columns_that_need_more_than_a_cast_are_left_to_rows():
    assert batch_column(pa.array([1.0, 2.0]), Types.LONG()) is None


def test_a_number_that_does_not_fit_is_refused():
    with pytest.raises(ColumnMisfit):
        batch_column(pa.array([2**40]), Types.INT())
