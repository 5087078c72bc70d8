"""Options of tables in files reach the sink that writes the files."""

import pytest
from penstock.table.connectors.file_sinks import LineFiles
from penstock.table.formats.row_format import RowFormat

POLICY = "sink.rolling-policy."
VALUES = {
    POLICY + "file-size": 1,
    POLICY + "rollover-interval": 2,
    POLICY + "inactivity-interval": 3,
    POLICY + "check-interval": 4,
}


@pytest.mark.parametrize("changed", [{}, {POLICY + "check-interval": 9}])
def test_options_of_rolling_policies(changed):
    values = VALUES | changed
    sink = LineFiles(RowFormat).builder("out", values)._operator()
    policy = sink.rolling_policy
    assert [
        policy.part_size_bytes,
        policy.rollover_interval_ms,
        policy.inactivity_interval_ms,
        sink.bucket_check_interval_ms,
    ] == list(values.values())
