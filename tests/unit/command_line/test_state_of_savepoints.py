"""``penstock state -s``: values of the job's own classes, found in the current folder."""

import sys

import pytest
from click.testing import CliRunner
from penstock.command_line.state_command import state
from penstock.common import Types
from penstock.datastream.state import ValueStateDescriptor
from penstock.serialization.class_reference import forget_imported
from penstock.state_processor import SavepointWriter

MODULE = """
from dataclasses import dataclass

@dataclass
class Sum:
    total: int
"""


@pytest.mark.parametrize("arguments", [["sums", "sum", "ada"], ["sums", "sum", "--scan"]])
def test_classes_are_imported_from_the_current_folder(tmp_path, monkeypatch, arguments):
    (tmp_path / "sums_of_a_job.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    from sums_of_a_job import Sum

    kind = ValueStateDescriptor("sum", Types.PICKLED_BYTE_ARRAY())
    writer = SavepointWriter(max_parallelism=128)
    path = writer.keyed_state("sums", kind, {"ada": Sum(7)}.items()).write(str(tmp_path / "sp"))
    sys.path.pop(0)
    monkeypatch.delitem(sys.modules, "sums_of_a_job")
    forget_imported()
    result = CliRunner().invoke(state, ["-s", path, *arguments])
    forget_imported()
    assert result.exit_code == 0, result.output
    assert "total" in result.output
    assert "7" in result.output
