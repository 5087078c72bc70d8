"""Snapshots of a state table while it changes, in both runtimes (M58).

Goal: a snapshot serialises the table's content at its opening, whatever is done to the table and
whenever its slices are read; several may be open.  Method: random operations on a table and on a
dictionary, of which each snapshot has a deep copy.
"""

import copy
import importlib

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from penstock.errors import CorruptStreamError, IllegalStateError
from penstock.graph.key_groups import key_group
from penstock.serialization.pure.key_hash import key_hash
from penstock.taskexecutor.state.removals import RemovalsSnapshot

from contract.codecs import RUNTIMES

MAX_PARALLELISM = 16
ALL_GROUPS = range(MAX_PARALLELISM)
FOREVER = 2**62


def modules(kind):
    """Return the modules of the table and the keys of a runtime."""
    if kind == "native":
        names = "penstock._native.state.state_table", "penstock._native.keys.keys"
    else:
        names = "penstock.taskexecutor.state.table", "penstock.serialization.pure.keys"
    return [importlib.import_module(name) for name in names]


def entries_module(kind):
    """Return the module of serialised entries of a runtime."""
    room = "_native.state" if kind == "native" else "taskexecutor.state"
    return importlib.import_module(f"penstock.{room}.key_group_entries")


def key_reader(kind):
    return modules(kind)[1].KeyReader(lambda key: key, -1, str, None)


def new_table(kind, state_kind="value"):
    return modules(kind)[0].StateTable("state", state_kind)


def content(table):
    return {(namespace, key): value for namespace, key, value in table}


def loaded(kind, entries, state_kind="value"):
    """Return a new table with the serialised entries; check that every key is in its group."""
    table = new_table(kind, state_kind)
    for group in entries.key_groups():
        before = set(content(table))
        table.load(entries.take(group), key_reader(kind))
        for _, identity in set(content(table)) - before:
            is_pair = state_kind == "timer" and type(identity) is tuple
            key = identity[0] if is_pair else identity
            key = modules(kind)[1].key_of(key)
            assert key_group(key_hash(None)(key), MAX_PARALLELISM) == group
    return content(table)


keys = st.integers(0, 25) | st.sampled_from(
    [2**40, -(2**70), "a", "b", "\u00e9", b"x", None, 0.5, 1.0, True, ("a", 1), (1, (2, "x"))]
)
namespaces = st.sampled_from([None, "w", 3, ("t", 4)])
values = (
    st.integers(-300, 2**40)
    | st.sampled_from(["text", 1.5, None, True, ("x", 1), 2**80])
    | st.lists(st.integers(0, 3), max_size=3)
    | st.builds(lambda numbers: ("in a tuple", numbers), st.lists(st.integers(0, 3), max_size=2))
)


class Log:
    """The changes of a table since a snapshot, and the contents of the snapshot."""

    def __init__(self, kind, table, base):
        since, self.before = base
        self.changed = table.open_snapshot(None, MAX_PARALLELISM, ALL_GROUPS, (), since)
        removed = entries_module(kind).KeyGroupEntries(None, MAX_PARALLELISM, ALL_GROUPS, False)
        self.removed = RemovalsSnapshot(table.removals.since(since), removed)
        self.epoch = self.changed.epoch

    def advance(self, deadline, *steps):
        return self.removed.advance(deadline) and self.changed.advance(deadline, *steps)

    def close(self):
        self.removed.close()
        self.changed.close()

    def replayed(self, kind):
        """Return the table's contents when the log was cut, from its contents before."""
        gone = loaded(kind, self.removed.entries)
        assert set(gone.values()) <= {None}
        changed = loaded(kind, self.changed.entries)
        return {at: v for at, v in self.before.items() if at not in gone} | changed


class TableMachine(RuleBasedStateMachine):
    """A table, a dictionary, and open snapshots with copies of the dictionary."""

    kind = ""

    def __init__(self):
        super().__init__()
        self.table = new_table(self.kind)
        self.identity_of = key_reader(self.kind).identity
        self.table.note_changes(None, MAX_PARALLELISM, ALL_GROUPS)
        self.table.note_removals()
        self.model = {}
        self.open = []
        #: Epochs of earlier snapshots, and their contents.
        self.bases = []

    @rule(namespace=namespaces, key=keys, value=values)
    def put(self, namespace, key, value):
        key = self.identity_of(key)
        self.table.map(namespace).put(key, value)
        self.model[namespace, key] = copy.deepcopy(value)

    @rule(namespace=namespaces, numbers=st.sets(st.integers(100, 160)))
    def put_many(self, namespace, numbers):
        contents = self.table.map(namespace)
        for number in numbers:
            contents.put(number, number)
            self.model[namespace, number] = number

    @rule(namespace=namespaces, key=keys, value=values)
    def put_at(self, namespace, key, value):
        key = self.identity_of(key)
        contents = self.table.map(namespace)
        contents.put_at(contents.find(key), key, value)
        self.model[namespace, key] = copy.deepcopy(value)

    @rule(namespace=namespaces, key=keys, number=st.integers(-(2**61), 2**61))
    def increase(self, namespace, key, number):
        key = self.identity_of(key)
        total = self.table.map(namespace).increase(key, number)
        if total is not None:
            self.model[namespace, key] += number
            assert total == self.model[namespace, key]

    @rule(namespace=namespaces, key=keys)
    def remove(self, namespace, key):
        key = self.identity_of(key)
        assert self.table.map(namespace).remove(key) == self.model.pop((namespace, key), None)

    @rule(namespace=namespaces, key=keys, by_position=st.booleans())
    def change_in_place(self, namespace, key, by_position):
        key = self.identity_of(key)
        contents = self.table.map(namespace)
        if (position := contents.find(key)) >= 0:
            self.change(contents.at(position) if by_position else contents.get(key))
            self.change(self.model[namespace, key])

    @rule(namespace=namespaces, how=st.sampled_from(["__iter__", "items", "values"]))
    def change_all_in_place(self, namespace, how):
        for found in getattr(self.table.map(namespace), how)():
            self.change(found if how == "values" else found[1])
        for (of, _), value in self.model.items():
            if of == namespace:
                self.change(value)

    @staticmethod
    def change(value):
        if isinstance(value, tuple):
            value = value[1]
        if isinstance(value, list):
            value.append(7)

    @rule(namespace=namespaces, drop=st.booleans())
    def clear(self, namespace, drop):
        self.table.map(namespace).clear()
        if drop:
            self.table.drop_if_empty(namespace)
        self.model = {at: value for at, value in self.model.items() if at[0] != namespace}

    @rule()
    def open_snapshot(self):
        self.open.append(self.opened())

    @rule(data=st.data())
    def open_based_snapshot(self, data):
        """Open a snapshot without the groups unchanged since an earlier, perhaps open one."""
        if self.bases:
            self.open.append(self.opened(data.draw(st.sampled_from(self.bases))))

    @rule(data=st.data())
    def open_log(self, data):
        """Open a log of the changes since an earlier snapshot or log, which may still be open."""
        if self.bases:
            log = Log(self.kind, self.table, data.draw(st.sampled_from(self.bases)))
            model = {at: copy.deepcopy(value) for at, value in self.model.items()}
            self.bases.append((log.epoch, model))
            self.open.append((log, model))

    def opened(self, base=None):
        since, of_base = base or (0, {})
        kept = set(ALL_GROUPS) - set(self.table.changed_groups(since))
        model = {at: copy.deepcopy(value) for at, value in self.model.items()}
        for at in model.keys() | of_base.keys():
            if self.group_of(at[1]) in kept:
                assert model[at] == of_base[at]
        snapshot = self.table.open_snapshot(None, MAX_PARALLELISM, ALL_GROUPS, kept)
        self.bases.append((snapshot.epoch, model))
        return snapshot, {at: v for at, v in model.items() if self.group_of(at[1]) not in kept}

    def group_of(self, identity):
        return key_group(key_hash(None)(modules(self.kind)[1].key_of(identity)), MAX_PARALLELISM)

    def check(self, snapshot, model):
        if isinstance(snapshot, Log):
            assert snapshot.replayed(self.kind) == model
        else:
            assert loaded(self.kind, snapshot.entries) == model

    @precondition(lambda self: self.open)
    @rule(data=st.data(), steps=st.integers(1, 20))
    def read_slice(self, data, steps):
        index = data.draw(st.integers(0, len(self.open) - 1))
        if self.open[index][0].advance(0, steps):
            self.check(*self.open.pop(index))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def give_up(self, data):
        self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))[0].close()

    @invariant()
    def it_holds_what_the_dictionary_holds(self):
        assert len(self.table) == len(self.model)
        for (namespace, key), value in self.model.items():
            if not isinstance(value, (list, tuple)):
                assert self.table.map(namespace).get(key) == value

    def teardown(self):
        for snapshot, model in self.open:
            assert snapshot.advance(FOREVER)
            self.check(snapshot, model)


class NativeTableMachine(TableMachine):
    kind = "native"


class PureTableMachine(TableMachine):
    kind = "pure"


class TestNativeTable(NativeTableMachine.TestCase):
    settings = settings(max_examples=120, stateful_step_count=40, deadline=None)


class TestPureTable(PureTableMachine.TestCase):
    settings = settings(
        max_examples=60,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


@pytest.fixture(params=RUNTIMES)
def kind(request):
    """Return a runtime."""
    return request.param


def opened(table):
    return table.open_snapshot(None, MAX_PARALLELISM, ALL_GROUPS)


def test_runtimes_serialise_the_same_bytes():
    """A worker of one runtime restores what one of the other wrote."""
    taken = []
    for kind in RUNTIMES:
        table = new_table(kind)
        for number in range(200):
            table.map(None).put(number, number * 1000)
        table.map("w").put("key", [1, "x"])
        snapshot = opened(table)
        assert snapshot.advance(FOREVER)
        taken.append({g: snapshot.entries.take(g) for g in snapshot.entries.key_groups()})
    assert taken[0] == taken[1]


def test_an_entry_of_two_integers_takes_at_most_twelve_bytes(kind):
    table = new_table(kind)
    for number in range(1000):
        table.map(None).put(2**31 - 1 - number, 2**31 - 1)
    snapshot = opened(table)
    snapshot.advance(FOREVER)
    taken = [snapshot.entries.take(group) for group in snapshot.entries.key_groups()]
    assert sum(map(len, taken)) <= 12 * 1000


def test_a_cleared_namespace_is_serialised_later(kind):
    """A window that fires empties its namespace at once, however many keys it has."""
    table = new_table(kind)
    contents = table.map("window")
    for number in range(1000):
        contents.put(number, str(number))
    snapshot = opened(table)
    assert not snapshot.advance(0, 10)
    contents.clear()
    table.drop_if_empty("window")
    assert snapshot.entries.key_groups(), "the slice has serialised some"
    table.map("another").put(1, 1)
    assert snapshot.advance(FOREVER)
    expected = {("window", number): str(number) for number in range(1000)}
    assert loaded(kind, snapshot.entries) == expected


def test_timers_keep_key_and_namespace(kind):
    table = new_table(kind, "timer")
    canonical = key_reader(kind).identity(True)
    table.map(10).put((canonical, "w"), 1)
    table.map(20).put("key", 1)
    table.map(20).put((("a", "tuple"), None), 1)
    snapshot = opened(table)
    table.map(10).remove((canonical, "w"))
    table.map(30).put("key", 1)
    assert snapshot.advance(FOREVER)
    expected = {(10, (canonical, "w")): 1, (20, "key"): 1, (20, (("a", "tuple"), None)): 1}
    assert loaded(kind, snapshot.entries, "timer") == expected


class Unwritable:
    def __reduce__(self):
        raise ValueError("cannot be written")


def test_a_value_that_cannot_be_serialised_fails_only_the_snapshot(kind):
    table = new_table(kind)
    table.map(None).put(1, [Unwritable()])
    first, second = opened(table), opened(table)
    with pytest.raises(Exception, match="cannot be written"):
        first.advance(FOREVER)
    assert table.map(None).remove(1), "the table goes on"
    with pytest.raises(Exception, match="cannot be written"):
        second.advance(FOREVER)
    assert table.map(None).get(1) is None
    assert opened(table).advance(FOREVER)


def test_a_key_of_another_subtask_is_refused(kind):
    table = new_table(kind)
    table.map(None).put(1, 1)
    with pytest.raises(IllegalStateError, match="has the groups 0 to 0"):
        for key in range(50):
            table.map(None).put(key, 1)
        table.open_snapshot(None, MAX_PARALLELISM, range(1)).advance(FOREVER)


def test_other_bytes_are_refused(kind):
    with pytest.raises(CorruptStreamError, match="0x07"):
        new_table(kind).load(b"\x07", key_reader(kind))
    with pytest.raises(CorruptStreamError):
        new_table(kind).load(b"\x01\xc1", key_reader(kind))


def group_of(key):
    return key_group(key_hash(None)(key), MAX_PARALLELISM)


def test_groups_without_changes_are_known(kind):
    """An incremental checkpoint omits unchanged groups (M61)."""
    table = new_table(kind)
    with pytest.raises(IllegalStateError, match="does not note"):
        table.changed_groups(0)
    table.note_changes(None, MAX_PARALLELISM, ALL_GROUPS)
    contents = table.map(None)
    for number in range(500):
        contents.put(number, number if number else [0])
    assert table.changed_groups(0) == list(ALL_GROUPS)
    first = opened(table)
    first.advance(FOREVER)

    assert contents.get(3) == 3
    assert table.changed_groups(first.epoch) == []
    contents.put(3, 4)
    assert table.changed_groups(first.epoch) == [group_of(3)]
    contents.remove(7)
    contents.put(1000, 1)
    assert table.changed_groups(first.epoch) == sorted({group_of(3), group_of(7), group_of(1000)})
    second = opened(table)
    assert contents.get(0) == [0], "whoever has it may change it"
    assert table.changed_groups(second.epoch) == [group_of(0)]
    contents.clear()
    assert table.changed_groups(second.epoch) == list(ALL_GROUPS)


def test_groups_that_are_kept_are_not_serialised(kind):
    """Neither by the cursor nor before they change."""
    table = new_table(kind)
    contents = table.map(None)
    unwritable = next(key for key in range(500) if group_of(key) == 0)
    for number in range(500):
        contents.put(number, number)
    contents.put(unwritable, Unwritable())
    kept = {0, 3}
    snapshot = table.open_snapshot(None, MAX_PARALLELISM, ALL_GROUPS, kept)
    for number in range(500):
        contents.put(number, -1)
    assert snapshot.advance(FOREVER)
    expected = {(None, n): n for n in range(500) if group_of(n) not in kept}
    assert loaded(kind, snapshot.entries) == expected


def test_a_snapshot_that_keeps_all_groups_reads_no_entry(kind):
    table = new_table(kind)
    for number in range(10_000):
        table.map(None).put(number, number)
    snapshot = table.open_snapshot(None, MAX_PARALLELISM, ALL_GROUPS, ALL_GROUPS)
    assert snapshot.advance(0, 1), "one step is enough"
    assert snapshot.entries.key_groups() == []


@pytest.mark.parametrize("kind", RUNTIMES)
def test_a_filter_says_what_a_snapshot_keeps_of_a_value(kind):
    """Also for entries that change meanwhile."""
    table = new_table(kind)
    table.snapshot_filter = lambda value: None if value < 0 else value * 10
    for key in range(20):
        table.map(None).put(key, key if key % 2 else -1)
    first = table.open_snapshot(None, MAX_PARALLELISM, ALL_GROUPS)
    table.map(None).put(0, 5)
    table.map(None).put(1, -5)
    assert first.advance(FOREVER)
    assert loaded(kind, first.entries) == {(None, key): key * 10 for key in range(1, 20, 2)}


@pytest.mark.parametrize("kind", RUNTIMES)
def test_a_peek_is_no_change(kind):
    """Lists that a peek shows are not serialised for it, and their groups stay unchanged."""
    table = new_table(kind)
    table.note_changes(None, MAX_PARALLELISM, ALL_GROUPS)
    for key in range(20):
        table.map(None).put(key, [key])
    first = opened(table)
    assert first.advance(FOREVER)
    table.peek(0, 0, 100)
    assert table.changed_groups(first.epoch) == []


@pytest.mark.parametrize("kind", RUNTIMES)
def test_a_log_has_what_has_changed_and_what_is_gone(kind):
    """A key that was removed and set again is in both; earlier removals are forgotten."""
    table = new_table(kind)
    table.note_removals()
    contents = table.map(None)
    for number in range(10):
        contents.put(number, number)
    contents.remove(9)
    first = opened(table)
    contents.put(1, -1)
    contents.remove(2)
    contents.remove(3)
    contents.put(3, -3)
    table.map("w").put(4, 4)
    table.map("w").clear()
    log = Log(kind, table, (first.epoch, {}))
    contents.put(5, -5)
    contents.remove(6)
    assert first.advance(FOREVER)
    assert log.advance(FOREVER)
    assert loaded(kind, log.changed.entries) == {(None, 1): -1, (None, 3): -3}
    assert loaded(kind, log.removed.entries) == dict.fromkeys([(None, 2), (None, 3), ("w", 4)])
    later = Log(kind, table, (log.epoch, {}))
    table.removals.forget(later.epoch)
    assert later.advance(FOREVER)
    assert loaded(kind, later.changed.entries) == {(None, 5): -5}
    assert loaded(kind, later.removed.entries) == {(None, 6): None}
    assert table.removals.since(0) == []


@pytest.mark.parametrize("kind", RUNTIMES)
def test_a_log_of_timers_names_those_that_are_gone(kind):
    table = new_table(kind, "timer")
    table.note_removals()
    for identity in ("a", ("b", "w")):
        table.map(5).put(identity, 1)
    first = opened(table)
    for identity in ("a", ("b", "w")):
        table.map(5).remove(identity)
    entries = entries_module(kind).KeyGroupEntries(None, MAX_PARALLELISM, ALL_GROUPS, True)
    second = opened(table)
    removed = RemovalsSnapshot(table.removals.since(first.epoch), entries)
    assert removed.advance(FOREVER)
    assert set(loaded(kind, removed.entries, "timer")) == {(5, "a"), (5, ("b", "w"))}
    assert second.advance(FOREVER)
    assert loaded(kind, second.entries, "timer") == {}
