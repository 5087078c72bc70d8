"""penstock's JSON and CSV read messages as the real PyFlink did when it was recorded."""

import json
from pathlib import Path

import pytest
from pyflink_comparison.pyflink_oracle import csv_files, formats


def test_messages_are_read_as_in_pyflink():
    meant = set().union(*formats.MEANT.values())
    found = formats.differing()
    assert {case: what for case, what in found.items() if case not in meant} == {}
    assert meant - found.keys() == set(), "no difference any more"


def test_each_case_is_recorded_and_each_difference_has_its_reason():
    recorded = {
        (expression, message)
        for expression, answers in json.loads(formats.RECORDED.read_text()).items()
        for message, _ in answers
    }
    assert set(formats.cases()) == recorded
    documented = (Path(__file__).resolve().parents[2] / "docs" / "pyflink.md").read_text()
    assert [reason for reason in formats.MEANT if f"- {reason}" not in documented] == []
    assert f"{len(recorded)} messages" in documented


@pytest.mark.parametrize("block_bytes", [16, 1 << 18])
def test_csv_files_with_changed_bytes_are_read_as_in_flink(block_bytes):
    assert csv_files.differing(block_bytes) == []
