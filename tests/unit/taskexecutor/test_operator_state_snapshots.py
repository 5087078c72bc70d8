"""Snapshots of operator and broadcast state while it changes (M58).

Goal: a snapshot holds the states' contents at its opening, whatever changes later and whenever its
slices are read, and it does not affect the states.  Method: random operations on states and on a
list and a dictionary, of which each snapshot has a copy.
"""

import copy
import threading
from enum import Enum

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from penstock.common import Types
from penstock.datastream.functions import KeyedBroadcastProcessFunction
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor
from penstock.graph import operators
from penstock.taskexecutor.copies.isolation import ValueCopier
from penstock.taskexecutor.state.backends.operator_backend import OperatorStateBackend
from penstock.taskexecutor.state.snapshots.snapshot import serialised
from penstock.testing import KeyedTwoInputStreamOperatorTestHarness

RULES = MapStateDescriptor("rules", Types.LONG(), Types.PICKLED_BYTE_ARRAY())
ITEMS = ListStateDescriptor("items", Types.PICKLED_BYTE_ARRAY())
ALL = ListStateDescriptor("all", Types.LONG())
FOREVER = 2**62

keys = st.integers(0, 30)
values = st.integers(0, 5) | st.lists(st.integers(0, 3), max_size=3)


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.backend = OperatorStateBackend()
        copier = ValueCopier("test")
        self.rules = self.backend.broadcast_state(RULES, copier, is_private=True)
        self.items = self.backend.list_state(ITEMS, copier, is_private=True)
        self.all = self.backend.union_list_state(ALL, is_private=True)
        self.pairs, self.list, self.numbers = {}, [], []
        self.open = []

    @rule(pairs=st.dictionaries(keys, values, max_size=20))
    def put(self, pairs):
        self.rules.put_all(pairs)
        self.pairs.update(copy.deepcopy(pairs))

    @rule(key=keys, value=st.lists(values))
    def change_what_was_put(self, key, value):
        """The state has the value itself, and an open snapshot does not see the change."""
        self.rules.put(key, value)
        value.append("changed")
        self.pairs[key] = list(value)

    @rule(key=keys)
    def remove(self, key):
        self.rules.remove(key)
        self.pairs.pop(key, None)

    @rule()
    def clear_pairs(self):
        self.rules.clear()
        self.pairs.clear()

    @rule(key=keys)
    def change_what_was_got(self, key):
        """Reads return the stored values, and an open snapshot does not see the change."""
        value = self.rules.get(key)
        if isinstance(value, list):
            value.append("changed")
            self.pairs[key] = [*self.pairs[key], "changed"]

    @rule(added=st.lists(values, max_size=20))
    def add(self, added):
        self.items.add_all(added)
        self.list.extend(copy.deepcopy(added))
        self.all.add(len(added))
        self.numbers.append(len(added))

    @rule(replaced=st.lists(values, max_size=5))
    def update(self, replaced):
        self.items.update(replaced)
        self.list = copy.deepcopy(replaced)

    @rule()
    def clear_list(self):
        self.items.clear()
        self.list = []

    @precondition(lambda self: len(self.open) < 3)
    @rule()
    def open_snapshot(self):
        expected = copy.deepcopy((self.pairs, self.list, self.numbers))
        self.open.append((self.backend.open_snapshot(), expected))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def advance(self, data):
        index = data.draw(st.integers(0, len(self.open) - 1))
        snapshot = self.open[index][0]
        if snapshot.advance(0):
            self.check(*self.open.pop(index))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def give_up(self, data):
        self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))[0].close()

    @invariant()
    def holds_what_it_should(self):
        assert dict(self.rules.items()) == self.pairs
        assert sorted(self.rules.keys()) == sorted(self.pairs)
        assert list(self.rules.values()) == [value for _, value in self.rules.items()]
        assert all(self.rules.get(key) == self.pairs.get(key) for key in range(31))
        assert all(self.rules.contains(key) == (key in self.pairs) for key in range(31))
        assert self.items.get() == self.list

    def check(self, snapshot, expected):
        pairs, items, numbers = expected
        states = snapshot.states()
        found = {}
        for some in states.broadcast["rules"]:
            assert not found.keys() & dict(some).keys()
            found.update(some)
        assert found == pairs
        assert list(states.lists["items"]) == items
        assert list(states.union_lists["all"]) == numbers

    def teardown(self):
        for snapshot, expected in reversed(self.open):
            assert snapshot.advance(FOREVER)
            self.check(snapshot, expected)


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip


class Counted:
    """Counts how often values are serialised."""

    times = 0

    def __reduce__(self):
        Counted.times += 1
        return (Counted, ())


@pytest.fixture
def counted():
    Counted.times = 0
    return Counted


def test_opening_a_snapshot_serialises_nothing(counted):
    """Whatever the amount of state; a slice serialises as much as time allows."""
    backend = OperatorStateBackend()
    backend.broadcast_state(RULES, is_private=True).put_all((n, counted()) for n in range(5000))
    backend.list_state(ITEMS, is_private=True).add_all(counted() for _ in range(5000))
    snapshot = backend.open_snapshot()
    assert counted.times == 0
    assert not snapshot.advance(0)
    assert 0 < counted.times < 200
    assert snapshot.advance(FOREVER)
    assert counted.times == 10_000


def test_values_that_somebody_may_change_are_serialised_at_once(counted):
    backend = OperatorStateBackend()
    backend.broadcast_state(RULES).put(1, kept := [1])
    backend.list_state(ITEMS).add(kept)
    snapshot = backend.open_snapshot()
    kept.append(2)
    assert snapshot.advance(FOREVER)
    assert list(snapshot.states().lists["items"]) == [[1]]
    assert list(snapshot.states().broadcast["rules"]) == [[(1, [1])]]


def test_a_value_that_cannot_be_serialised_fails_only_the_snapshot():
    backend = OperatorStateBackend()
    rules = backend.broadcast_state(RULES, is_private=True)
    rules.put(1, "one")
    rules.put(2, threading.Lock())
    first, second = backend.open_snapshot(), backend.open_snapshot()
    rules.put(2, "two")
    rules.remove(1)
    for snapshot in (first, second):
        with pytest.raises(Exception, match="lock"):
            snapshot.advance(FOREVER)
    third = backend.open_snapshot()
    assert third.advance(FOREVER)
    assert list(third.states().broadcast["rules"]) == [[(2, "two")]]


def test_an_empty_state_is_part_of_a_snapshot():
    backend = OperatorStateBackend()
    backend.broadcast_state(RULES, is_private=True)
    snapshot = backend.open_snapshot()
    assert snapshot.advance(FOREVER)
    assert list(snapshot.states().broadcast["rules"]) == [[]]


class Ruled(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


@pytest.mark.parametrize("reuse", ["false", "true"])
def test_a_job_continues_with_its_rules_at_the_barrier(reuse):
    """With and without objects that functions and states share."""

    def harness():
        return KeyedTwoInputStreamOperatorTestHarness(
            operators.KeyedBroadcastProcess(Ruled()),
            lambda value: value,
            None,
            key_type=Types.LONG(),
            configuration={"pipeline.object-reuse": reuse},
        )

    with harness() as test:
        rules = {n: [n] for n in range(1000)}
        for pair in rules.items():
            test.process_element2(pair)
        running = test.begin_snapshot(1)
        for n in range(0, 2000, 3):
            test.process_element2((n, "later"))
        rules[5].append("changed in place")
        test.process_element1(3)
        assert test.values == [(3, "later")]
        snapshot = serialised(running)
        test.process_element1(4)
        test.process_element1(1998)
        assert test.values[1:] == [(4, [4]), (1998, "later")]
    new = harness()
    new.initialize_state(snapshot)
    with new:
        for n in (3, 4, 5, 1998):
            new.process_element1(n)
        assert new.values == [(3, [3]), (4, [4]), (5, [5]), (1998, None)]


class Careless(KeyedBroadcastProcessFunction):
    """Mutates values of its broadcast state, and never puts them back."""

    def process_element(self, value, ctx):
        found = ctx.get_broadcast_state(RULES).get(value)
        found.append("only here")
        yield value, ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        if not rules.contains(value):
            rules.put(value, found := [])
            found.append("put")
        rules.get(value).append("got")
        for pair in rules.items():
            pair[1].append("item")
        for found in rules.values():
            found.append("value")


def test_changes_in_place_on_the_broadcast_side_are_in_the_state():
    """Also while a snapshot is open, which has the values at its own time."""

    def harness():
        return KeyedTwoInputStreamOperatorTestHarness(
            operators.KeyedBroadcastProcess(Careless()),
            lambda value: value,
            None,
            key_type=Types.LONG(),
        )

    once = ["put", "got", "item", "value"]
    with harness() as test:
        test.process_element2(1)
        running = test.begin_snapshot(1)
        test.process_element2(1)
        test.process_element2(2)
        test.process_element1(1)
        assert test.values == [(1, [*once, *once[1:], "item", "value"])]
        snapshot = serialised(running)
    new = harness()
    new.initialize_state(snapshot)
    with new:
        new.process_element1(1)
        assert new.values == [(1, once)]


class Level(Enum):
    HIGH = 1


def test_a_value_that_never_changes_leaves_a_snapshot_open():
    backend = OperatorStateBackend()
    state = backend.broadcast_state(RULES, ValueCopier("here"), is_private=True)
    rules = {1: 1, 2: "two", 3: (3, ("three",)), 4: Level.HIGH}
    state.put_all(rules)
    snapshot = backend.open_snapshot()
    assert {key: state.get(key) for key in rules} == rules
    assert not list(snapshot.blocks())
    state.put(5, [5])
    assert state.get(5) == [5]
    assert snapshot.advance(FOREVER)
    assert list(snapshot.states().broadcast["rules"]) == [list(rules.items())]
