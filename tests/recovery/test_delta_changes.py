"""DeltaSource.for_changes whose workers are killed: every row of every version once, in order.

The next version is written when the rows of the previous one have arrived, that is, when a
checkpoint includes them; so there are checkpoints between the versions, and within them.
"""

import deltalake
import pyarrow as pa
import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import MapFunction
from penstock.datastream.connectors.delta import DeltaSource

from recovery.programs import environment
from recovery.sink_programs import Fate, fates

ROWS = 5000
VERSIONS = 6
MOMENTS = {ROWS * 1 + 2500: "first", ROWS * 3 + 10: "second", ROWS * 4 + 4999: "third"}


class FailingAt(MapFunction):
    def __init__(self, fate):
        self.fate = fate

    def map(self, value):
        if value.n in MOMENTS:
            self.fate.strike(MOMENTS[value.n])
        return value.n


def write(path, version):
    numbers = pa.array(range(version * ROWS, (version + 1) * ROWS))
    deltalake.write_deltalake(path, pa.table({"n": numbers}), mode="append")


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "how"), [("native", "kill"), ("pure", "raise")])
def test_every_row_once_though_workers_are_killed(tmp_path, monkeypatch, runtime, how):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", MOMENTS.values())
    path = str(tmp_path / "table")
    write(path, 0)
    source = DeltaSource.for_changes(path, end_version=VERSIONS - 1, discovery_interval_ms=5)
    env = environment({})
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "delta")
    numbers = rows.map(FailingAt(Fate(tmp_path / "fates", how)), Types.LONG())
    found = []
    with numbers.execute_and_collect() as results:
        for number in results:
            found.append(number)
            if number % ROWS == ROWS - 1 and number // ROWS < VERSIONS - 1:
                write(path, number // ROWS + 1)
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    assert sorted(found) == list(range(ROWS * VERSIONS))
