"""An IcebergSink whose workers are killed in each phase of a commit: every row once.

pyiceberg reads the table.
"""

import pytest
from penstock.datastream.connectors.iceberg import IcebergSink
from pyiceberg.catalog import load_catalog

from recovery.lake_commits import DECLARED, MOMENTS, NUMBERS, FailingCommitter, write_numbers
from recovery.sink_programs import Fate, fates


class FailingSink(IcebergSink):
    def __init__(self, catalog, fate):
        super().__init__("db.t", DECLARED, catalog=catalog)
        self.fate = fate

    def create_committer(self, context):
        return FailingCommitter(super().create_committer(context), self.fate)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_every_row_once_though_workers_are_killed(tmp_path, monkeypatch, runtime):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", MOMENTS)
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    opened = load_catalog("default", **catalog)
    opened.create_namespace("db")
    write_numbers(FailingSink(catalog, Fate(tmp_path / "fates", "kill")))
    assert not list((tmp_path / "fates").iterdir())
    table = opened.load_table("db.t")
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == list(NUMBERS)
    assert len(table.snapshots()) > 3
