"""Open sessions of keys: merging, ends, late rows."""

from types import SimpleNamespace

from penstock.taskexecutor.operators.relational.windows.open_sessions import OpenSessions


class Map(dict):
    """The map of a keyed state."""

    put = dict.__setitem__
    remove = dict.__delitem__


def sessions(content):
    table = SimpleNamespace(map=lambda _: content)
    context = SimpleNamespace(keyed_state=SimpleNamespace(table=lambda *_: table))
    return OpenSessions(context, lambda old, new: ([*old[0], *new[0]],))


def test_a_session_that_joins_two_takes_their_place():
    found = sessions(Map())
    for start, value in ((0, "a"), (20, "c"), (10, "b")):
        assert found.add("k", start, start + 10, ([value],))
    assert list(found.ended(28)) == []
    assert [(start, end, sorted(rows)) for start, end, rows in found.ended(29)] == [
        (0, 30, ["a", "b", "c"])
    ]
    assert list(found.ended(100)) == []


def test_an_end_is_noted_once():
    found = sessions(Map())
    for start in (0, 0, 0, -5):
        found.add("k", start, start + 10, ([start],))
    assert found.ends == [(10, "k")]


def test_a_session_that_lasts_is_noted_again_when_it_might_have_ended():
    found = sessions(Map())
    for start in (0, 5, 12):
        found.add("k", start, start + 10, ([start],))
    found.add("l", 1, 11, (["l"],))
    assert [rows for _, _, rows in found.ended(12)] == [["l"]]
    assert found.ends == [(22, "k")]
    assert [rows for _, _, rows in found.ended(21)] == [[0, 5, 12]]
    assert found.ends == []


def test_sessions_of_a_key_end_one_by_one():
    found = sessions(Map())
    for start, value in ((20, "late"), (0, "early")):
        found.add("k", start, start + 10, ([value],))
    found.add("l", 0, 12, (["l"],))
    assert [rows for _, _, rows in found.ended(11)] == [["early"], ["l"]]
    assert [rows for _, _, rows in found.ended(29)] == [["late"]]


def test_an_ended_session_is_dropped_unless_it_meets_an_open_one():
    found = sessions(Map())
    found.watermark = 9
    assert not found.add("k", 0, 10, (["late"],))
    assert found.add("k", 8, 18, (["open"],))
    assert found.add("k", 0, 10, (["not late"],))
    assert list(found.ended(17)) == [(0, 18, ["open", "not late"])]


def test_restored_sessions_end():
    found = sessions(Map({"k": [[5, 15, ["b"]]], "l": [[0, 10, ["a"]]]}))
    found.restore()
    assert [rows for _, _, rows in found.ended(14)] == [["a"], ["b"]]
