"""A checkpoint between two slices of a batch: the rest of a split is read once, in columns."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from penstock.columns.column_batch import ColumnBatch
from penstock.common.typeinfo import Types
from penstock.connectors.files.splits import SplitElements, whole_file
from penstock.datastream.formats.parquet import ParquetColumnarRowInputFormat

ROW = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])
COUNT = 600


@pytest.mark.parametrize("limit", [23, 300, 5000])
def test_each_row_is_read_once_after_a_checkpoint_anywhere(limit, tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"n": list(range(COUNT)), "s": [str(n) for n in range(COUNT)]})
    pq.write_table(table, path, row_group_size=256)
    layout = ParquetColumnarRowInputFormat(ROW).in_columns()
    split, found = whole_file(str(path), path.stat().st_size, layout), []
    while True:
        # Each time another reader continues, as after a failure.
        elements = SplitElements(split, layout, None)
        assert elements.are_columns or len(found) == COUNT
        number, taken = elements.take(limit)
        if number == 0 and len(found) == COUNT:
            break
        assert isinstance(taken, ColumnBatch)
        assert len(taken) == number
        found += [row.n for row in taken.rows()]
        split = elements.rest()
        elements.close()
    assert found == list(range(COUNT))
