"""The data that may wait for a reader: at most a second's worth; the cases of the native twin."""

import pytest
from penstock.network.pure.partition.reader_pace import MAX_BUFFERS_PER_CHANNEL, ReaderPace

MILLISECOND_NS = 1_000_000


class Reader:
    """Reads full buffers at a pace."""

    def __init__(self):
        self.pace = ReaderPace()
        self.now_ns = 0

    def take(self, count, interval_ms):
        """Read some buffers; return the last change of the quota."""
        changed = None
        for _ in range(count):
            self.now_ns += interval_ms * MILLISECOND_NS
            self.pace.on_taken(self.now_ns)
            changed = self.pace.take_change() or changed
        return changed


@pytest.mark.parametrize(
    ("interval_ms", "quota"),
    [(0, None), (100, None), (112, 9), (350, 3), (500, 2), (5000, 2)],
)
def test_quota_is_what_a_second_holds(interval_ms, quota):
    reader = Reader()
    assert reader.take(20, interval_ms) == quota
    assert reader.pace.is_slow == (quota is not None)


def test_short_measurements_change_nothing():
    assert Reader().take(3, 333) is None


def test_quick_reader_is_trusted_again():
    reader = Reader()
    assert reader.take(3, 700) == 2
    assert reader.take(9, 1) is None
    assert reader.take(1, 1) == MAX_BUFFERS_PER_CHANNEL


def test_blocked_time_does_not_count():
    reader = Reader()
    reader.take(1, 0)
    reader.pace.restart()
    assert reader.take(1, 60_000) is None
    assert reader.take(10, 1) is None
