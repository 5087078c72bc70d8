"""A DeltaSink whose workers are killed in each phase of a commit: every row once.

deltalake reads the table.
"""

import deltalake
import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors import Committer
from penstock.datastream.connectors.data_generator import (
    DataGeneratorSource,
    RateLimiterStrategy,
)
from penstock.datastream.connectors.delta import DeltaSink

from recovery.programs import environment
from recovery.sink_programs import Fate, fates

ELEMENTS = 3000
MOMENTS = ["before commit", "after commit"]
DECLARED = Types.ROW_NAMED(["n"], [Types.LONG()])


class FailingCommitter(Committer):
    """Kills its worker before a commit, and after one that the job does not know of."""

    def __init__(self, committer, fate):
        self.committer = committer
        self.fate = fate
        self.commits = 0

    def commit(self, requests):
        self.commits += 1
        if self.commits == 2:
            self.fate.strike("before commit")
        self.committer.commit(requests)
        if self.commits == 3:
            self.fate.strike("after commit")


class FailingSink(DeltaSink):
    def __init__(self, path, fate):
        super().__init__(path, DECLARED)
        self.fate = fate

    def create_committer(self, context):
        return FailingCommitter(super().create_committer(context), self.fate)


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_every_row_once_though_workers_are_killed(tmp_path, monkeypatch, runtime):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", MOMENTS)
    env = environment({})
    source = DataGeneratorSource(
        lambda number: (number,),
        ELEMENTS,
        RateLimiterStrategy.per_checkpoint(300),
        Types.TUPLE([Types.LONG()]),
    )
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.sink_to(FailingSink(str(tmp_path / "table"), Fate(tmp_path / "fates", "kill")))
    env.execute()
    assert not list((tmp_path / "fates").iterdir())
    table = deltalake.DeltaTable(str(tmp_path / "table"))
    assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == list(range(ELEMENTS))
    assert table.version() > 3
