"""An IcebergSource whose workers are killed: every row, including appended ones, once.

The next rows are appended when the previous ones have arrived, that is, when a checkpoint includes
them; so there are checkpoints between the snapshots, and within their files.
"""

import pyarrow as pa
import pytest
from integration.test_iceberg import Lake
from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors.iceberg import IcebergSource

from recovery.programs import environment
from recovery.sink_programs import fates
from recovery.test_delta_changes import MOMENTS, ROWS, VERSIONS, FailingAt, Fate


def append(table, part):
    table.refresh()
    table.append(pa.table({"n": range(part * ROWS, (part + 1) * ROWS)}))


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_every_row_once_though_workers_are_killed(tmp_path, monkeypatch, runtime):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", MOMENTS.values())
    lake = Lake(tmp_path)
    table = lake.catalog.create_table("db.t", schema=pa.schema([("n", pa.int64())]))
    append(table, 0)
    source = IcebergSource.for_appends(
        "db.t", catalog=lake.properties, name="lake", discovery_interval_ms=20
    )
    rows = environment({}).from_source(source, WatermarkStrategy.no_watermarks(), "iceberg")
    numbers = rows.map(FailingAt(Fate(tmp_path / "fates", "kill")), Types.LONG())
    found, parts = [], 1
    with numbers.execute_and_collect() as results:
        for number in results:
            found.append(number)
            if len(found) == VERSIONS * ROWS:
                break
            if len(found) == parts * ROWS:
                append(table, parts)
                parts += 1
    lake.catalog.engine.dispose()
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    assert sorted(found) == list(range(VERSIONS * ROWS))
