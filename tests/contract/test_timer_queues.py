"""Timer queues of both runtimes against a set of timers (D8).

Goal: a queue fires what was registered and not deleted, once, in the order of time, also what its
own callbacks register; and a snapshot of its table, loaded elsewhere, is the same queue.  Method:
random operations, with callbacks that add and delete timers.
"""

import importlib

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from penstock.errors import IllegalStateError
from penstock.taskexecutor.state.heap import KeyContext

from contract.codecs import RUNTIMES
from contract.test_state_snapshots import ALL_GROUPS, FOREVER, MAX_PARALLELISM, key_reader


def timers_of(kind):
    package = "penstock._native" if kind == "native" else "penstock.taskexecutor.compiled"
    return importlib.import_module(f"{package}.timers")


def table_of(kind):
    name = "_native.state_table" if kind == "native" else "taskexecutor.state.table"
    return importlib.import_module(f"penstock.{name}").StateTable("timers", "timer")


times = st.integers(-3, 12) | st.sampled_from([-(2**63), 2**62, 2**63 - 1])
keys = st.integers(0, 4) | st.sampled_from(
    [2**40, -(2**70), "a", "b", b"x", None, True, ("a", 1), (1, None), 1.5]
)
namespaces = st.sampled_from([None, None, "w", 1, ("t", 4)])
timers = st.tuples(times, keys, namespaces)


class Callbacks:
    """Notes what fires, and does at each firing what was planned for it."""

    def __init__(self, machine, plans, keys):
        self.machine, self.plans, self.keys, self.fired = machine, list(plans), keys, []

    def on_event_time(self, timestamp, key, namespace):
        assert self.keys.current_key == key
        machine = self.machine
        timer = timestamp, key, namespace
        # All earlier ones have fired, and what fires is not there any more.
        assert timestamp == min(machine.model)[0] if machine.model else False
        machine.model.remove_timer(timer)
        self.fired.append(timer)
        if self.plans:
            adds, (when, of, namespace) = self.plans.pop()
            (machine.add if adds else machine.remove)(when, of, namespace)

    on_processing_time = on_event_time


class Model(dict):
    """Timers by (time, what is equal when the timers are): insertion order is no matter."""

    def identity(self, timer):
        timestamp, key, namespace = timer
        return timestamp, repr(key), repr(namespace)

    def add_timer(self, timer):
        is_new = self.identity(timer) not in self
        self.setdefault(self.identity(timer), timer)
        return is_new

    def remove_timer(self, timer):
        return self.pop(self.identity(timer), None) is not None


class QueueMachine(RuleBasedStateMachine):
    kind = ""

    def __init__(self):
        super().__init__()
        self.package = timers_of(self.kind)
        self.reader = key_reader(self.kind)
        self.table = self.new_table()
        self.table.note_changes(None, MAX_PARALLELISM, ALL_GROUPS)
        self.queue = self.package.TimerQueue(self.table)
        self.model = Model()

    def new_table(self):
        return table_of(self.kind)

    def add(self, when, key, namespace):
        identity = self.reader.identity(key)
        assert self.queue.add(when, identity, namespace) == self.model.add_timer(
            (when, identity, namespace)
        )

    def remove(self, when, key, namespace):
        identity = self.reader.identity(key)
        assert self.queue.remove(when, identity, namespace) == self.model.remove_timer(
            (when, identity, namespace)
        )

    @rule(timer=timers)
    def register(self, timer):
        self.add(*timer)

    @rule(timer=timers)
    def delete(self, timer):
        self.remove(*timer)

    @rule(when=times, count=st.integers(1, 40))
    def register_many(self, when, count):
        for key in range(count):
            self.add(when, key, None)

    @rule(limit=times, plans=st.lists(st.tuples(st.booleans(), timers), max_size=6))
    def fire(self, limit, plans):
        context = KeyContext()
        callbacks = Callbacks(self, plans, context)
        target = self.package.TimerTarget(callbacks)
        self.queue.fire_until(limit, context, target, True)
        assert all(timer[0] <= limit for timer in callbacks.fired)
        assert all(timer[0] > limit for timer in self.model.values())

    @rule()
    def restore(self):
        """Goes on with what a snapshot of the table holds."""
        snapshot = self.table.open_snapshot(None, MAX_PARALLELISM, ALL_GROUPS)
        assert snapshot.advance(FOREVER)
        self.table = self.new_table()
        for group in snapshot.entries.key_groups():
            self.table.load(snapshot.entries.take(group), self.reader)
        self.queue = self.package.TimerQueue(self.table)
        self.queue.take_over()

    @invariant()
    def is_the_model(self):
        assert len(self.queue) == len(self.model)
        assert {self.model.identity(timer) for timer in self.queue} == set(self.model)
        earliest = min((timer[0] for timer in self.model.values()), default=None)
        assert self.queue.earliest() == earliest


MACHINE_SETTINGS = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.parametrize("kind", RUNTIMES)
def test_queues_do_as_sets_do(kind):
    class Machine(QueueMachine):
        pass

    Machine.kind = kind
    Machine.TestCase.settings = MACHINE_SETTINGS
    Machine.TestCase().runTest()


@pytest.mark.parametrize("kind", RUNTIMES)
def test_times_of_more_than_64_bits_are_refused(kind):
    queue = timers_of(kind).TimerQueue(table_of(kind))
    for when in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError):
            queue.add(when, "key", None)
    assert queue.earliest() is None


@pytest.mark.parametrize("kind", RUNTIMES)
def test_nothing_can_be_taken_of_an_empty_map(kind):
    contents = table_of(kind).map(1)
    with pytest.raises(IllegalStateError):
        contents.take_next()


@pytest.mark.parametrize("kind", RUNTIMES)
def test_each_entry_is_taken_in_its_turn(kind):
    """What is added again while others are taken does not hold them up."""
    contents = table_of(kind).map(1)
    for key in range(20):
        assert contents.add(key)
        assert not contents.add(key)
    taken = []
    for _ in range(40):
        taken.append(contents.take_next())
        contents.add(taken[-1])
    assert sorted(taken[:20]) == sorted(taken[20:]) == list(range(20))
