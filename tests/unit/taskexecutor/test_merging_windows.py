"""Sessions merge by a shortcut; the result is that of merging all open windows."""

from hypothesis import given
from hypothesis import strategies as st
from penstock.datastream.window import EventTimeSessionWindows, TimeWindow
from penstock.datastream.window.sessions import joins_touching_windows
from penstock.taskexecutor.windowing.merging_windows import MergingWindowSet

WINDOWS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda w: TimeWindow(w[0], w[0] + w[1])),
    max_size=30,
)


class OwnSessions(EventTimeSessionWindows):
    """A program's own rule may be any, so every merge calls it."""

    def merge_windows(self, windows, callback):
        super().merge_windows(windows, callback)


def added(assigner, windows):
    """Return the results of each window, the merges, and the open windows at the end."""
    merges = []
    kept = MergingWindowSet(assigner, {}, joins_touching=joins_touching_windows(assigner))
    found = [kept.add(window, lambda *merge: merges.append(merge)) for window in windows]
    return found, merges, kept.mapping


@given(WINDOWS)
def test_sessions_merge_as_those_of_a_rule(windows):
    sessions, own = EventTimeSessionWindows(5), OwnSessions(5)
    assert joins_touching_windows(sessions)
    assert not joins_touching_windows(own)
    assert added(sessions, windows) == added(own, windows)
