"""Watermark alignment: how far the readers of a group may advance."""

from penstock.jobmaster.sources.source_coordinator import Reader
from penstock.jobmaster.sources.watermark_alignment import AlignmentGroups

A, B, OTHER = b"a" * 16, b"b" * 16, b"o" * 16
MAX = 2**63 - 1


class Readers:
    def __init__(self):
        self.told = []
        self.readers = {}

    def __getitem__(self, name):
        def send(message):
            assert message.attempt_id == name.encode()
            self.told.append((name, message.max_watermark))

        return self.readers.setdefault(name, Reader(name.encode(), "host", send))

    def take(self):
        told, self.told = self.told, []
        return told


def test_readers_of_a_group_may_be_so_far_ahead_of_the_slowest():
    groups, readers = AlignmentGroups(), Readers()
    groups.add(A, "g", 100)
    groups.add(B, "g", 100)
    groups.add(OTHER, "h", 5)
    groups.reported(A, 0, readers["a0"], 1000)
    assert readers.take() == [("a0", 1100)]
    groups.reported(B, 0, readers["b0"], 400)
    assert readers.take() == [("a0", 500), ("b0", 500)]
    groups.reported(A, 1, readers["a1"], 600)
    assert readers.take() == [("a1", 500)]
    groups.reported(OTHER, 0, readers["o0"], 7)
    assert readers.take() == [("o0", 12)]
    groups.reported(B, 0, readers["b0"], MAX)
    assert readers.take() == [("a0", 700), ("b0", 700), ("a1", 700)]
    groups.reported(A, 0, readers["a0"], MAX)
    assert readers.take() == []
    groups.reported(A, 1, readers["a1"], MAX)
    assert readers.take() == [("a0", MAX), ("b0", MAX), ("a1", MAX)]


def test_a_reader_that_starts_again_does_not_hold_the_others_back_until_it_reports():
    groups, readers = AlignmentGroups(), Readers()
    groups.add(A, "g", 10)
    groups.reported(A, 0, readers["a0"], 5)
    groups.reported(A, 1, readers["a1"], 50)
    assert readers.take() == [("a0", 15), ("a1", 15)]
    groups.forget(A, 0)
    groups.reported(A, 1, readers["a1"], 50)
    assert readers.take() == [("a1", 60)]
