"""The table of keyed state, compared with a dictionary, in both runtimes.

Goal: an entry is found by its key and namespace until it is removed.  Method: random operations on
a table and on dictionaries.
"""

import gc
import importlib
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.common.typeinfo import Types
from penstock.errors import IllegalStateError

from contract.codecs import RUNTIMES, codec_of


@pytest.fixture(params=RUNTIMES)
def new_table(request):
    """Create the tables of a runtime."""
    return table_class(request.param)


def table_class(kind):
    name = "penstock._native.state.state_table"
    if kind != "native":
        name = "penstock.taskexecutor.state.table"
    return importlib.import_module(name).StateTable


class Same:
    """Keys with the same hash."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return isinstance(other, Same) and self.number == other.number


LARGE = [2**61 - 1, 2**61, 2**62 - 1, 2**62, -(2**62), -(2**62) - 1, 2**63, 2**64, 2**200]
keys = (
    st.integers(-3, 12)
    | st.sampled_from([*LARGE, *map(str, range(20)), "é", "\u4e2d", "\U0001f600", b"1", None, 0.5])
    | st.sampled_from([("a", 1), ("a", 2), ((1,), None)])
    | st.builds(Same, st.integers(0, 4))
)
values = st.integers() | st.sampled_from([*LARGE, None, True, "text", 1.5, (), [1]])
operations = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put_at", "remove", "get", "clear"]), keys, values),
    max_size=120,
)


@pytest.mark.parametrize("kind", RUNTIMES)
@given(operations)
@settings(max_examples=150, deadline=None)
def test_it_holds_what_a_dictionary_holds(kind, operations):
    table = table_class(kind)("state", "value")
    entries, model = table.map(None), {}
    for operation, key, value in operations:
        if operation == "put":
            entries.put(key, value)
            model[key] = value
        elif operation == "put_at":
            entries.put_at(entries.find(key), key, value)
            model[key] = value
        elif operation == "remove":
            assert entries.remove(key) == model.pop(key, None)
        elif operation == "clear" and key == 0:
            entries.clear()
            model.clear()
        assert entries.get(key) == model.get(key)
        position = entries.find(key)
        assert (position >= 0) == (key in model) == (key in entries)
        if position >= 0:
            found = entries.at(position)
            assert found == model[key]
            assert type(found) is type(model[key])
    assert len(entries) == len(model)
    assert dict(entries.items()) == model
    assert (
        list(entries) == entries.items() == list(zip(entries.keys(), entries.values(), strict=True))
    )


def test_many_entries_come_and_go(new_table):
    entries = new_table("state", "value").map(None)
    model = {}
    for number in range(20_000):
        key = number * 1024 if number % 3 else f"key {number}"
        entries.put(key, number)
        model[key] = number
        if number % 2:
            gone = number // 2 * 1024 if number // 2 % 3 else f"key {number // 2}"
            assert entries.remove(gone) == model.pop(gone, None)
    assert dict(entries.items()) == model


@pytest.mark.parametrize("kind", RUNTIMES)
@given(st.lists(
    st.tuples(
        st.sampled_from(["increase", "increase", "put", "remove", "clear"]),
        st.integers(0, 2),
        st.integers(0, 40),
    ),
    max_size=200,
))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_texts_off_the_wire_are_found_in_each_of_several_tables(kind, operations):
    """The last entry found for a text may be in another table, moved, or removed."""
    codec = codec_of(kind, Types.STRING())
    maps = [table_class(kind)(name, "value").map(None) for name in "abc"]
    models = [{}, {}, {}]
    for operation, table, number in operations:
        entries, model = maps[table], models[table]
        key = codec.decode(codec.encode(f"word {number}"))
        if operation == "increase":
            total = entries.increase(key, 1)
            assert total == (model[key] + 1 if key in model else None)
            if total is not None:
                entries.put_at(entries.find(key), key, total)
                model[key] += 1
        if operation == "put" or (operation == "increase" and key not in model):
            entries.put(key, number)
            model[key] = number
        elif operation == "remove":
            assert entries.remove(key) == model.pop(key, None)
        elif operation == "clear" and number == 0:
            entries.clear()
            model.clear()
        assert [found.find(key) >= 0 for found in maps] == [key in known for known in models]
        assert [found.get(key) for found in maps] == [known.get(key) for known in models]
    assert [dict(entries.items()) for entries in maps] == models


def test_entries_keep_the_order_of_their_insertion(new_table):
    entries = new_table("state", "value").map(None)
    for number in range(100):
        entries.put(str(number), number)
    entries.put("3", "changed")
    assert entries.keys() == [str(number) for number in range(100)]


def test_namespaces_are_apart(new_table):
    table = new_table("state", "value")
    table.map(None).put("a", 1)
    table.map("w").put("a", 2)
    table.map("w").put("b", 3)
    assert table.map("w") is table.map("w")
    assert table.map("w").namespace == "w"
    assert list(table) == [(None, "a", 1), ("w", "a", 2), ("w", "b", 3)]
    assert len(table) == 3
    table.drop_if_empty("w")
    assert len(table.namespaces()) == 2
    table.map("w").clear()
    table.drop_if_empty("w")
    table.drop_if_empty("never there")
    table.drop_if_empty(None)
    assert [entries.namespace for entries in table.namespaces()] == [None]


def test_a_position_is_good_until_something_else_is_found_or_removed(new_table):
    """A function may use the state that it is called for: no write reaches another key."""
    entries = new_table("state", "value").map(None)
    for key in "abc":
        entries.put(key, key)
    position = entries.find("a")
    entries.remove("a")
    entries.put("d", "d")
    entries.put_at(position, "a", "new")
    assert sorted(entries.items()) == [("a", "new"), ("b", "b"), ("c", "c"), ("d", "d")]
    position = entries.find("a")
    entries.find("b")
    entries.put_at(position, "a", "newer")
    assert entries.get("a") == "newer"
    entries.clear()
    for position in (-1, 0, 5):
        with pytest.raises(IllegalStateError, match="'state' has no entry at"):
            entries.at(position)


def test_increase(new_table):
    entries = new_table("state", "value").map(None)
    assert entries.increase("a", 1) is None
    entries.put("a", 5)
    assert entries.increase("a", 2) == 7
    assert entries.get("a") == 7
    for refused in (True, 1.5, "1", 2**61, -(2**61), 2**70):
        assert entries.increase("a", refused) is None
    assert entries.get("a") == 7
    entries.put("a", 2**61 - 2)
    assert entries.increase("a", 1) == 2**61 - 1
    assert entries.increase("a", 1) is None
    assert entries.get("a") == 2**61 - 1
    for value in (True, 1.5, None, 2**80):
        entries.put("b", value)
        assert entries.increase("b", 1) is None
        assert entries.get("b") is value or entries.get("b") == value


def test_entries_may_be_added_while_they_are_gone_through(new_table):
    entries = new_table("state", "value").map(None)
    for number in range(20):
        entries.put(number, number)
    seen = []
    for key, _ in entries:
        seen.append(key)
        if key < 20:
            entries.put(key + 100, key)
    assert seen == [*range(20), *range(100, 120)]


def test_references_are_counted(new_table):
    class Value:
        pass

    key, value = "".join(["k", "ey"]), Value()
    before = sys.getrefcount(key), sys.getrefcount(value)
    table = new_table("state", "value")
    for namespace in (None, "w"):
        entries = table.map(namespace)
        entries.put(key, value)
        entries.put(key, value)
        entries.put_at(entries.find(key), key, value)
        entries.remove(key)
        entries.put(key, value)
        entries.clear()
        entries.put(key, value)
    assert sys.getrefcount(value) == before[1] + 2
    del table, entries
    gc.collect()
    assert (sys.getrefcount(key), sys.getrefcount(value)) == before


def test_a_value_that_uses_the_state_as_it_goes(new_table):
    """User code runs when the last reference to a value is dropped."""
    entries = new_table("state", "value").map(None)

    class Last:
        def __del__(self):
            for number in range(50):
                entries.put(number, number)
            entries.remove("a")

    entries.put("a", Last())
    entries.put("a", "other")
    gc.collect()
    assert entries.get("a") is None
    entries.put("b", Last())
    entries.clear()
    gc.collect()
    assert entries.get(49) == 49


def test_unhashable_keys_raise(new_table):
    entries = new_table("state", "value").map(None)
    for operation in (entries.get, entries.find):
        with pytest.raises(TypeError):
            operation([])
    with pytest.raises(TypeError):
        entries.put([], 1)
    assert len(entries) == 0


def looked_at(table, count):
    """Return the entries that ``peek`` shows in one round, and the number of calls."""
    slot = position = calls = 0
    seen = []
    while True:
        found, slot, position = table.peek(slot, position, count)
        assert len(found) <= count
        seen += [(contents.namespace, key, value) for contents, key, value in found]
        calls += 1
        if slot == position == 0:
            return seen, calls


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_a_round_of_peeks_shows_every_entry_once(new_table, count):
    table = new_table("state", "value")
    assert looked_at(table, count)[0] == []
    for namespace in (None, "w", "x"):
        for key in range(10):
            table.map(namespace).put(key, [key])
    for key in range(0, 10, 3):
        table.map("w").remove(key)
    table.map("x").clear()
    table.drop_if_empty("x")
    seen, calls = looked_at(table, count)
    assert sorted(map(str, seen)) == sorted(map(str, table))
    # Each call looks at so many places, and at the end of each map.
    assert calls >= 20 / count


def test_peeks_continue_while_entries_are_removed(new_table):
    table = new_table("state", "value")
    for key in range(10):
        table.map(None).put(key, key)
    slot = position = 0
    seen = []
    while True:
        found, slot, position = table.peek(slot, position, 3)
        for contents, key, _ in found:
            contents.remove(key)
            seen.append(key)
        if slot == position == 0:
            break
    assert seen == list(range(10))
    assert len(table) == 0
