"""Names of folders by the timestamps of records."""

import pytest
from penstock.connectors.files.buckets import BucketAssigner


@pytest.mark.parametrize(
    ("timestamp_ms", "folder"),
    [(-1, "1969-12-31--23-59-59"), (-1000, "1969-12-31--23-59-59"), (0, "1970-01-01--00-00-00")],
)
def test_the_second_before_the_epoch_has_its_folder(timestamp_ms, folder):
    assigner = BucketAssigner.event_time_bucket_assigner("yyyy-MM-dd--HH-mm-ss")
    assert assigner.get_bucket_id(None, timestamp_ms) == folder
