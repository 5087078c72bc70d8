"""Files of a Delta table: their paths and URLs, from those in the table's log."""

import pytest
from penstock.connectors.delta.source import file_uri


@pytest.mark.parametrize(
    ("path", "table", "expected"),
    [
        ("part-0.parquet", "/tables/t", "/tables/t/part-0.parquet"),
        ("day=1/part-0.parquet", "s3://bucket/t/", "s3://bucket/t/day=1/part-0.parquet"),
        # A folder's name is the encoded value, and the log encodes it once more.
        ("city=a%2520b/part-0.parquet", "/a table #1", "/a table #1/city=a%20b/part-0.parquet"),
        ("s3://other/t/part-0.parquet", "s3://bucket/t", "s3://other/t/part-0.parquet"),
        ("file:///other/part-0.parquet", "/tables/t", "/other/part-0.parquet"),
    ],
)
def test_the_place_of_a_file(path, table, expected):
    assert file_uri(path, table) == expected
