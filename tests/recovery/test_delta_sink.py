"""A DeltaSink whose workers are killed in each phase of a commit: every row once.

deltalake reads the table.
"""

import deltalake
import pytest
from penstock.datastream.connectors.delta import DeltaSink

from recovery.lake_commits import DECLARED, MOMENTS, NUMBERS, FailingCommitter, write_numbers
from recovery.sink_programs import Fate, fates


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
    write_numbers(FailingSink(str(tmp_path / "table"), Fate(tmp_path / "fates", "kill")))
    assert not list((tmp_path / "fates").iterdir())
    table = deltalake.DeltaTable(str(tmp_path / "table"))
    assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == list(NUMBERS)
    assert table.version() > 3
