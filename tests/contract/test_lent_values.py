"""Values of states that functions may mutate in place: which are tracked, and for how long.

Goal: a value counts as changed for as long as a reference outside its state can mutate it, and the
number of tracked values is bounded.  Method: a state that stores its values in a dictionary, on
both runtimes.
"""

import importlib
import weakref

import pytest

from contract.codecs import RUNTIMES

#: The greatest number of values that are tracked.
MOST = 1024


class State:
    """A state that stores a value for each key, and its users."""

    name = "kept"

    def __init__(self):
        self.values = {}
        self.touched = []
        self.copied = []

    def touch(self, contents, key, element):
        self.touched.append(key)

    def hold(self, contents, key):
        """Keep everything in memory."""

    def keep_copy(self, contents, key, element, copied):
        self.copied.append(key)
        self.values[key] = copied(self.values[key])


@pytest.fixture(params=RUNTIMES)
def lent(request):
    room = "_native.state" if request.param == "native" else "taskexecutor.state"
    return importlib.import_module(f"penstock.{room}.lent_values").LentValues()


@pytest.fixture
def state():
    return State()


def lend(lent, state, key, value):
    state.values[key] = value
    lent.lend(state, state, key, None, value)


def touched(lent, state):
    state.touched.clear()
    lent.settle()
    lent.touch()
    return state.touched


def test_values_without_other_references_are_forgotten(lent, state):
    held = [1]
    for key, value in enumerate([[2], held, {"a": held}, (1, 2), "text", None, 7, [3]]):
        lend(lent, state, key, value)
    value = None
    assert touched(lent, state) == [1, 2]
    assert touched(lent, state) == [1, 2], "it is held still"
    held = None
    assert touched(lent, state) == [1, 2], "a value of the state is in another one"
    del state.values[1]
    assert touched(lent, state) == []


def test_a_value_that_is_lent_again_and_again_is_noted_once(lent, state):
    held = [[number] for number in range(3)]
    for number in range(1000):
        lend(lent, state, number % 3, held[number % 3])
    assert sorted(touched(lent, state)) == [0, 1, 2]
    del held
    assert touched(lent, state) == []


def test_parts_of_an_entry_are_noted_each(lent, state):
    held = [[number] for number in range(3)]
    state.values["key"] = [*held]
    for part in held:
        lent.lend_part(state, state, "key", part)
    assert touched(lent, state) == ["key"] * 3
    del held[1:], part
    assert touched(lent, state) == ["key"]


def test_of_too_many_held_values_the_state_keeps_copies_of_the_oldest(lent, state):
    held = {}
    for key in range(3 * MOST):
        held[key] = [key]
        lend(lent, state, key, held[key])
    lent.settle()
    assert len(touched(lent, state)) == MOST
    assert state.copied == list(range(len(state.copied)))
    assert len(state.copied) == 2 * MOST
    assert state.values == held
    assert all(state.values[key] is not held[key] for key in state.copied)


def test_too_many_parts_of_an_entry_are_copied_at_once(lent, state):
    held = [[number] for number in range(3 * MOST)]
    for key in ("a", "b"):
        state.values[key] = held[key == "b" :: 2]
        for part in state.values[key]:
            lent.lend_part(state, state, key, part)
    lent.settle()
    assert touched(lent, state).count("b") <= MOST
    assert len(state.copied) <= 4, "not for each part"
    assert state.values["a"] == held[::2]
    assert all(part is not mine for part, mine in zip(state.values["a"], held[::2], strict=True))


def test_nothing_is_kept_once_it_is_over(lent, state):
    held = [1]
    lend(lent, state, 1, held)
    lent.settle()
    lend(lent, state, 2, held)
    lent.clear()
    assert touched(lent, state) == []


def test_large_values_are_not_searched_each_time(lent, state):
    """They stay noted, as their state may have many of them, until the next epoch."""
    for _ in range(20):
        for key in range(100):
            lend(lent, state, key, state.values.get(key) or set(range(1000)))
    lent.touch()
    assert len(set(state.touched)) > 60, "most are noted since the last complete search"
    assert touched(lent, state) == []


class Large(list):
    """A list that weak references find."""


def test_large_values_that_left_the_state_are_forgotten(lent, state):
    left = []
    for key in range(2000):
        value = Large(range(1000))
        left.append(weakref.ref(value))
        lend(lent, state, key, value)
        value = None
        del state.values[key]
    assert sum(value() is not None for value in left) <= 100
