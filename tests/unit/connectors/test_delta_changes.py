"""A reader of a Delta table's changes looks for the next version while others commit it."""

from types import SimpleNamespace

import pytest
from penstock.connectors.delta.changes import ChangesSplit, _ChangesReader
from penstock.errors import SourceError


class Log:
    """A log whose newest version is committed after a number of reads, or was removed."""

    def __init__(self, absent_reads):
        self.absent_reads = absent_reads

    def version(self, number):
        self.absent_reads -= 1
        return None if self.absent_reads >= 0 else f"version {number}"

    def newest(self):
        return 7


def reader_of(log):
    reader = object.__new__(_ChangesReader)
    reader._split, reader._log, reader._has_looked = ChangesSplit(7, False), log, False
    reader._source = SimpleNamespace(uri="/table")
    return reader


def test_a_version_that_is_committed_during_the_search_is_read():
    assert reader_of(Log(absent_reads=1))._next_version() == "version 7"


def test_a_version_that_was_removed_is_an_error():
    with pytest.raises(SourceError, match="no longer has version 7"):
        reader_of(Log(absent_reads=9))._next_version()
