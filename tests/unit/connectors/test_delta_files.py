"""A Delta table's log lists files by path, and tables made from Parquet repeat names in folders."""

import pytest
from penstock.connectors.delta.source import by_uri
from penstock.errors import SourceError


def test_files_with_the_same_name_in_different_folders():
    sizes = {"day=1/part-0.parquet": 10, "day=2/part-0.parquet": 20}
    uris = ["s3://b/t/day=2/part-0.parquet", "s3://b/t/day=1/part-0.parquet"]
    assert by_uri(sizes, uris) == {uris[0]: 20, uris[1]: 10}


def test_files_at_the_top_of_the_table_and_of_other_tables():
    shared = "s3://other/t/part-0.parquet"
    sizes = {"part-0.parquet": 10, shared: 20}
    uris = ["/tables/t/part-0.parquet", shared]
    assert by_uri(sizes, uris) == {uris[0]: 10, shared: 20}


def test_a_file_that_the_log_does_not_list():
    with pytest.raises(SourceError, match=r"/t/c.parquet is not among the files"):
        by_uri({"b.parquet": 1}, ["/t/c.parquet"])
