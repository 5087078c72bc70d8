"""Rows of sources that arrive together are one batch, and none waits for later ones."""

import datetime

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.common.row_kind import RowKind
from penstock.common.types import Row
from penstock.errors import SourceError
from penstock.table.connectors.batches import BATCH_ROWS
from penstock.table.connectors.kafka_messages import BlocksOfTable, Layout, MessageBlocks
from penstock.table.connectors.row_sources import SourceRows
from penstock.table.formats.row_format import RowFormat
from penstock.table.types import DataTypes, RowField, RowType
from penstock.testing import OneInputStreamOperatorTestHarness

NUMBERS = RowType([RowField("n", DataTypes.INT())])
OLD, NEW = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER


def rows(row_type=NUMBERS, metadata=(), refusal=None):
    made = SourceRows(row_type, metadata, with_kinds=True, refusal=refusal)
    harness = OneInputStreamOperatorTestHarness(made)
    harness.open()
    return harness


def give(harness, *numbers, kind=RowKind.INSERT, timestamp=None):
    for number in numbers:
        harness.process_element(Row.of_kind(kind, number), timestamp)


def taken(harness):
    return [batch.column(0).to_pylist() for batch in harness.values]


def test_rows_of_one_turn_are_one_batch():
    harness = rows()
    give(harness, 1, 2)
    assert taken(harness) == []
    harness.set_processing_time(0)
    assert taken(harness) == [[1, 2]]
    give(harness, 3)
    harness.set_processing_time(0)
    assert taken(harness) == [[1, 2], [3]]
    harness.close()


def test_no_watermark_or_barrier_overtakes_a_row():
    harness = rows()
    for number, pass_by in enumerate(
        [
            lambda: harness.process_watermark(5),
            lambda: harness.snapshot(1),
            lambda: harness.process_watermark_status(idle=True),
            harness.end_input,
        ]
    ):
        give(harness, number)
        pass_by()
        assert taken(harness)[number:] == [[number]]
    harness.close()


def test_a_full_batch_does_not_part_the_rows_of_an_update():
    harness = rows()
    give(harness, *range(BATCH_ROWS - 1))
    give(harness, -1, kind=OLD)
    assert taken(harness) == []
    give(harness, 1, kind=NEW)
    assert [len(batch) for batch in taken(harness)] == [BATCH_ROWS + 1]
    harness.close()


def test_rows_have_metadata_and_updates_their_old_row():
    columns = [DataTypes.INT(), DataTypes.STRING(), DataTypes.TIMESTAMP_LTZ(3)]
    row_type = RowType([RowField(f"c{i}", kind) for i, kind in enumerate(columns)])
    harness = rows(row_type, ["db", None], "REPLICA IDENTITY FULL")
    give(harness, 1, timestamp=1500)
    harness.set_processing_time(0)
    [batch] = harness.values
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=datetime.UTC)
    assert [column.to_pylist() for column in batch.columns] == [[1], ["db"], [moment], [0]]
    with pytest.raises(SourceError, match="REPLICA IDENTITY FULL"):
        give(harness, 2, kind=NEW)
    harness.close()


class Updates(RowFormat):
    """A format whose messages are an insertion, or the old and the new row of an update."""

    identifier = "updates"

    def decode(self, message):
        number = int(message)
        return [(1, [number]), (2, [number + 1])] if number else [(0, [0])]

    def encode(self, kind, row):
        raise NotImplementedError


def test_a_block_of_messages_does_not_part_the_rows_of_an_update():
    layout = Layout(NUMBERS, (), (0,), None, Updates(NUMBERS, {}))
    blocks = MessageBlocks(BlocksOfTable(layout, NUMBERS, with_kinds=True))
    values = [b"0", *[b"1"] * (BATCH_ROWS - 1)]
    first, second = blocks.elements([([None] * len(values), values, [])])
    assert (first.num_rows, second.num_rows) == (BATCH_ROWS + 1, BATCH_ROWS - 2)
    assert second.column(1).to_pylist()[:2] == [1, 2]
