"""Timer queues of both runtimes against Flink's heap of timers (M33).

Goal: a queue returns each registered and undeleted timer once, in the order of Flink's
``HeapPriorityQueueSet``, including timers registered while others fire; and a snapshot of its
table, loaded elsewhere, has the same timers.  Method: random operations, also between two timers
that fire.
"""

import importlib

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from contract.codecs import RUNTIMES
from contract.test_state_snapshots import ALL_GROUPS, FOREVER, MAX_PARALLELISM, key_reader


def queues_of(kind):
    room = "_native.operators" if kind == "native" else "taskexecutor.compiled"
    return importlib.import_module(f"penstock.{room}.timer_queue")


def table_of(kind):
    name = "_native.state.state_table" if kind == "native" else "taskexecutor.state.table"
    return importlib.import_module(f"penstock.{name}").StateTable("timers", "timer")


times = st.integers(-3, 12) | st.sampled_from([-(2**63), 2**62, 2**63 - 1])
keys = st.integers(0, 4) | st.sampled_from(
    [2**40, -(2**70), "a", "b", b"x", None, True, ("a", 1), (1, None), 1.5]
)
namespaces = st.sampled_from([None, None, "w", 1, ("t", 4)])
timers = st.tuples(times, keys, namespaces)


class FlinkHeap:
    """The model: a transcript of HeapPriorityQueue, with HeapPriorityQueueSet's deduplication."""

    def __init__(self):
        self.queue = [None]

    def identity(self, timer):
        timestamp, key, namespace = timer
        return timestamp, repr(key), repr(namespace)

    def identities(self):
        return [self.identity(timer) for timer in self.queue[1:]]

    def add(self, timer):
        if self.identity(timer) in self.identities():
            return False
        self.queue.append(timer)
        self.sift_up(len(self.queue) - 1)
        return True

    def remove(self, timer):
        if self.identity(timer) not in self.identities():
            return False
        self.remove_at(1 + self.identities().index(self.identity(timer)))
        return True

    def poll(self):
        head = self.queue[1]
        self.remove_at(1)
        return head

    def remove_at(self, index):
        element = self.queue[-1]
        self.queue[index] = element
        self.queue.pop()
        if index < len(self.queue):
            self.sift_down(index)
            if self.queue[index] is element:
                self.sift_up(index)

    def sift_up(self, index):
        queue = self.queue
        while index > 1 and queue[index][0] < queue[index // 2][0]:
            queue[index], queue[index // 2] = queue[index // 2], queue[index]
            index //= 2

    def sift_down(self, index):
        queue = self.queue
        while True:
            children = [child for child in (2 * index, 2 * index + 1) if child < len(queue)]
            child = min(children, key=lambda at: queue[at][0], default=index)
            if queue[child][0] >= queue[index][0]:
                return
            queue[index], queue[child] = queue[child], queue[index]
            index = child


class QueueMachine(RuleBasedStateMachine):
    kind = ""

    def __init__(self):
        super().__init__()
        self.reader = key_reader(self.kind)
        self.table = table_of(self.kind)
        self.table.note_changes(None, MAX_PARALLELISM, ALL_GROUPS)
        self.queue = queues_of(self.kind).TimerQueue(self.table)
        self.model = FlinkHeap()

    def add(self, when, key, namespace):
        identity = self.reader.identity(key)
        assert self.queue.add(when, identity, namespace) == self.model.add(
            (when, identity, namespace)
        )

    def remove(self, when, key, namespace):
        identity = self.reader.identity(key)
        assert self.queue.remove(when, identity, namespace) == self.model.remove(
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

    @rule(data=st.data(), count=st.integers(1, 10))
    def delete_some(self, data, count):
        for _ in range(min(count, len(self.queue))):
            timer = data.draw(st.sampled_from(self.model.queue[1:]))
            assert self.queue.remove(*timer)
            assert self.model.remove(timer)

    @rule(limit=times, plans=st.lists(st.tuples(st.booleans(), timers), max_size=6))
    def fire(self, limit, plans):
        """Fire due timers; other operations happen between two timers."""
        while len(self.queue) > 0 and self.model.queue[1][0] <= limit:
            assert self.queue.take(limit)
            taken = self.queue.time, self.queue.key, self.queue.namespace
            assert self.model.identity(taken) == self.model.identity(self.model.poll())
            if plans:
                adds, timer = plans.pop()
                (self.add if adds else self.remove)(*timer)
        assert not self.queue.take(limit)

    @rule()
    def restore(self):
        """Continue with the content of the table's snapshot, in the order of reading."""
        snapshot = self.table.open_snapshot(None, MAX_PARALLELISM, ALL_GROUPS)
        assert snapshot.advance(FOREVER)
        self.table = table_of(self.kind)
        for group in snapshot.entries.key_groups():
            self.table.load(snapshot.entries.take(group), self.reader)
        self.queue = queues_of(self.kind).TimerQueue(self.table)
        self.queue.take_over()
        before = self.model
        self.model = FlinkHeap()
        for timer in self.entries():
            assert self.model.add(timer)
        assert sorted(self.model.identities()) == sorted(before.identities())

    def entries(self):
        for when, identity, _ in self.table:
            yield when, *(identity if type(identity) is tuple else (identity, None))

    @invariant()
    def is_the_model(self):
        assert len(self.queue) == len(self.model.queue) - 1
        found = [self.model.identity(timer) for timer in self.entries()]
        assert sorted(found) == sorted(self.model.identities())
        earliest = min((timer[0] for timer in self.model.queue[1:]), default=None)
        assert self.queue.earliest() == earliest


MACHINE_SETTINGS = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.parametrize("kind", RUNTIMES)
def test_queues_do_as_the_heap_of_flink(kind):
    class Machine(QueueMachine):
        pass

    Machine.kind = kind
    Machine.TestCase.settings = MACHINE_SETTINGS
    Machine.TestCase().runTest()


@pytest.mark.parametrize("kind", RUNTIMES)
def test_times_of_more_than_64_bits_are_refused(kind):
    queue = queues_of(kind).TimerQueue(table_of(kind))
    for when in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError):
            queue.add(when, "key", None)
    assert queue.earliest() is None


@pytest.mark.parametrize("kind", RUNTIMES)
def test_timers_of_one_time_fire_as_in_flink(kind):
    """The first timer, then the one that took its place: the last."""
    queue = queues_of(kind).TimerQueue(table_of(kind))
    for key in "abcdef":
        queue.add(5, key, None)
    assert queue.remove(5, "c", None)
    fired = []
    while queue.take(5):
        fired.append(queue.key)
    assert fired == ["a", "e", "d", "f", "b"]


@pytest.mark.parametrize("kind", RUNTIMES)
def test_entries_of_a_table_come_at_their_times(kind):
    table = table_of(kind)
    heap = queues_of(kind).TimerHeap(table)
    for when, key in ((2, "a"), (1, "b"), (2, "c"), (1, "d"), (3, "e"), (1, "f")):
        contents = table.map(when)
        contents.put(key, when * 10)
        heap.push(when, contents, key)
    assert list(heap.entries_until(1)) == [("b", 10), ("d", 10), ("f", 10)]
    assert list(heap.entries_until(9)) == [("a", 20), ("c", 20), ("e", 30)]
    assert len(heap) == 0
