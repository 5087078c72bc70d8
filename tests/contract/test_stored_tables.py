"""Tables that cache a part of a database's rows contain what a dictionary would.

Goal: in both runtimes the cache of a few entries in front of RocksDB is invisible, whatever is
evicted when, and a snapshot has the content at its opening.  Method: random operations on tables
and on dictionaries; a snapshot is compared through a new database.
"""

import contextlib
import copy
import importlib
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from penstock.datastream.window import CountWindow, TimeWindow
from penstock.errors import SerializationError
from penstock.taskexecutor.rocksdb.database import Database, ReadOnlyDatabase
from penstock.taskexecutor.rocksdb.row_store import RowStore
from penstock.taskexecutor.rocksdb.settings import RocksDBSettings
from penstock.taskexecutor.rocksdb.stored_states import StateEntries, StoredKind
from penstock.taskexecutor.state.backends.keyed_state_backend import KeyGrouping

from contract.codecs import RUNTIMES

GROUPS = range(16)
#: Room for the smallest number of entries.
SMALLEST = 1


def module(kind, name):
    state, keys = {
        "native": ("_native.state", "_native.keys"),
        "pure": ("taskexecutor.state", "serialization.pure"),
    }[kind]
    return importlib.import_module(f"penstock.{keys if name == 'keys' else state}.{name}")


def table_class(kind):
    return module(kind, "state_table" if kind == "native" else "table").StateTable


def opened_store(kind, folder, cache_bytes=SMALLEST):
    rows = module(kind, "state_rows").StateRows(None, len(GROUPS), GROUPS)
    keys = module(kind, "keys").KeyReader(lambda key: key, -1, str, None)
    database = Database(folder, RocksDBSettings.of({}), None)
    return RowStore(database, rows, keys, GROUPS, cache_bytes, 8 << 20, table_class(kind))


@contextlib.contextmanager
def new_store(kind, cache_bytes=SMALLEST):
    with tempfile.TemporaryDirectory() as scratch:
        store = opened_store(kind, f"{scratch}/db", cache_bytes)
        yield store
        store.database.close()


@pytest.fixture(params=RUNTIMES)
def kind(request):
    return request.param


class Pair:
    """A value whose pickle depends on what its parts share."""

    def __init__(self, one, other):
        self.parts = (one, other)

    def __eq__(self, other):
        return isinstance(other, Pair) and self.parts == other.parts

    def __hash__(self):
        return hash(self.parts)


KEYS = [*range(30), *map(str, range(30)), True, 1.0, (1, 2.0), None, -1, 2**70, b"1"]
keys = st.sampled_from(KEYS)
namespaces = st.sampled_from(
    [None, None, "w", TimeWindow(-5, 5), TimeWindow(0, 10), CountWindow(3), ("pair", 1)]
)
values = (
    st.integers(-300, 2**40)
    | st.sampled_from(["text", 1.5, None, True, ("x", 1), 2**80])
    | st.lists(st.integers(0, 3), max_size=3)
)


class StoreMachine(RuleBasedStateMachine):
    """Two tables of one store, and dictionaries."""

    kind = ""

    def __init__(self):
        super().__init__()
        self.scratch = tempfile.mkdtemp()
        self.store = opened_store(self.kind, f"{self.scratch}/db")
        self.tables = [self.store.add("one", "value", 0), self.store.add("two", "value", 1)]
        self.models = [{}, {}]
        self.snapshots = 0
        self.beside = None
        self.resting = None

    def entry(self, which, namespace, key):
        identity = self.store.keys.identity(key)
        return (
            self.tables[which].map(namespace),
            identity,
            self.models[which],
            (namespace, identity),
        )

    @rule(which=st.integers(0, 1), namespace=namespaces, key=keys, value=values)
    def put(self, which, namespace, key, value):
        contents, identity, model, place = self.entry(which, namespace, key)
        contents.put(identity, value)
        model[place] = list(value) if type(value) is list else value

    @rule(which=st.integers(0, 1), namespace=namespaces, key=keys, value=values)
    def fold(self, which, namespace, key, value):
        """Fold a value; the state may be used between the look-up and the write."""
        contents, identity, model, place = self.entry(which, namespace, key)
        position = contents.find(identity)
        assert (position >= 0) == (place in model)
        if position >= 0:
            assert contents.at(position) == model[place]
        other = self.store.keys.identity(31)
        self.tables[1 - which].map(None).put(other, 0)
        self.models[1 - which][None, other] = 0
        contents.put_at(position, identity, value)
        model[place] = list(value) if type(value) is list else value

    @rule(which=st.integers(0, 1), namespace=namespaces, key=keys)
    def change_in_place(self, which, namespace, key):
        contents, identity, model, place = self.entry(which, namespace, key)
        value = contents.get(identity)
        assert value == model.get(place)
        if type(value) is list:
            value.append(7)
            model[place].append(7)

    @rule(which=st.integers(0, 1), namespace=namespaces, key=keys)
    def increase(self, which, namespace, key):
        contents, identity, model, place = self.entry(which, namespace, key)
        if contents.increase(identity, 5) is not None:
            model[place] += 5
        else:
            assert type(model.get(place)) is not int or abs(model[place]) >= 2**60

    @rule(which=st.integers(0, 1), namespace=namespaces, key=keys)
    def remove(self, which, namespace, key):
        contents, identity, model, place = self.entry(which, namespace, key)
        assert contents.remove(identity) == model.pop(place, None)

    @rule(which=st.integers(0, 1), namespace=namespaces)
    def clear(self, which, namespace):
        self.tables[which].map(namespace).clear()
        self.tables[which].drop_if_empty(namespace)
        for place in [place for place in self.models[which] if place[0] == namespace]:
            del self.models[which][place]

    @rule(which=st.integers(0, 1))
    def forget_empty_maps(self, which):
        for namespace in [None, "w", TimeWindow(0, 10)]:
            self.tables[which].drop_if_empty(namespace)

    @rule(which=st.integers(0, 1))
    def read_all(self, which):
        table = self.tables[which]
        assert {(n, k): v for n, k, v in table} == self.models[which]
        assert len(table) == len(self.models[which])

    @rule()
    def snapshot(self):
        """Return the files of a checkpoint as canonical entries."""
        self.snapshots += 1
        folder = f"{self.scratch}/snapshot-{self.snapshots}"
        self.store.write_back()
        self.store.database.checkpoint(folder)
        database = ReadOnlyDatabase(folder)
        for number, model in enumerate(self.models):
            entries = StateEntries(database, StoredKind("value", number, False), GROUPS)
            loaded = table_class(self.kind)("loaded", "value")
            for group in entries:
                loaded.load(entries[group], self.store.keys)
            assert {(n, k): v for n, k, v in loaded} == model
        database.close()
        shutil.rmtree(folder)

    @rule()
    def open_snapshot_beside(self):
        """Open a snapshot whose changed entries are not written: they are serialised later."""
        if self.beside is not None:
            return
        self.snapshots += 1
        folder = f"{self.scratch}/snapshot-{self.snapshots}"
        self.store.write_back(unwritten=False)
        self.store.database.checkpoint(folder)
        unwritten = self.store.open_unwritten(KeyGrouping(None, len(GROUPS), GROUPS))
        models = [{p: copy.copy(value) for p, value in model.items()} for model in self.models]
        self.beside = folder, unwritten, models

    @precondition(lambda self: self.beside is not None)
    @rule()
    def advance_snapshot_beside(self):
        for _, table in self.beside[1].values():
            table.advance(0, 3)

    @precondition(lambda self: self.beside is not None)
    @rule()
    def read_snapshot_beside(self):
        """Check that rows and the entries beside them are the content, whatever changed since."""
        folder, unwritten, models = self.beside
        self.beside = None
        parts = [table for _, table in unwritten.values()]
        for part in parts:
            assert part.advance((1 << 63) - 1)
        self.store.note_serialised(parts)
        database = ReadOnlyDatabase(folder)
        for number, (model, part) in enumerate(zip(models, parts, strict=True)):
            entries = StateEntries(database, StoredKind("value", number, False), GROUPS)
            loaded = table_class(self.kind)("loaded", "value")
            for group in entries:
                loaded.load(entries[group], self.store.keys)
            for group in part.entries.key_groups():
                loaded.load(part.entries.take(group), self.store.keys)
            assert {(n, k): v for n, k, v in loaded} == model
        database.close()
        shutil.rmtree(folder)
        if self.resting is None:
            tables = {name: table for name, (_, table) in unwritten.items()}
            self.resting = self.store.resting(tables, at_a_time=2)

    @precondition(lambda self: self.resting is not None)
    @rule()
    def write_resting(self):
        """Write some rows of entries that do not change any more, while others do."""
        if self.resting.advance(0):
            self.resting = None

    @rule()
    def restart(self):
        """Restart: the rows exist when other tables open them again."""
        self.beside = self.resting = None
        self.store.write_back()
        self.store.database.close()
        self.store = opened_store(self.kind, f"{self.scratch}/db")
        self.tables = [self.store.add("one", "value", 0), self.store.add("two", "value", 1)]

    @invariant()
    def memory_is_bounded(self):
        # Between two reads each table may get some more.
        assert self.store.num_cached <= 4 * self.store.most_cached

    def teardown(self):
        self.store.database.close()
        shutil.rmtree(self.scratch)


def test_a_store_holds_what_dictionaries_hold(kind):
    machine = type(f"{kind}Machine", (StoreMachine,), {"kind": kind})
    machine.TestCase.settings = settings(
        max_examples=12,
        stateful_step_count=50,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    machine.TestCase().runTest()


def test_state_larger_than_the_cache(kind):
    """Many keys, few of them in memory, keep their values."""
    with new_store(kind, 100 * 64) as store:
        contents = store.add("state", "value", 0).map(None)
        most = 0
        for number in range(3_000):
            contents.put(f"key {number}", "value" * 10)
            most = max(most, store.num_cached)
        assert most <= 116
        assert len(contents) == 3_000
        assert contents.get("key 0") == "value" * 10
        # Written rows tell how large entries are.
        assert store.most_cached < 50


def test_namespaces_in_memory_are_bounded(kind):
    """A namespace without entries in memory costs nothing, unless its map is referenced."""
    with new_store(kind, 100 * 64) as store:
        table = store.add("state", "value", 0)
        held = table.map(TimeWindow(0, 1))
        held.put("a", 0)
        for number in range(1, 2_000):
            table.map(TimeWindow(number, number + 1)).put("a", number)
        held.put("b", 1)
        assert table.map(TimeWindow(0, 1)) is held
        assert held.get("a") == 0
        assert table.map(TimeWindow(5, 6)).get("a") == 5
        assert len(table.namespaces()) == 2_001
        assert len(table) == 2_001


def test_equal_keys_of_any_kind_are_one_row(kind):
    """The canonical form decides: not the pickle, nor the order of a set."""
    with new_store(kind) as store:
        contents = store.add("state", "value", 0).map(None)
        identity = store.keys.identity
        shared = "x" * 40
        for number, key in enumerate(
            [
                Pair(shared, shared), Pair(shared, "".join(["x"] * 40)), 1, 1.0, True,
                float("nan"), float("-nan"), frozenset("ab"), frozenset("ba"), (1, 1.0),
            ]
        ):  # fmt: skip
            contents.put(identity(key), number)
            store.write_back()
            contents.table.let_go(100)
        found = sorted(value for _, value in contents)
        assert found == [1, 2, 3, 4, 6, 8, 9]


def test_a_value_that_cannot_be_serialised_is_named(kind):
    with new_store(kind) as store:
        contents = store.add("counts", "value", 0).map(None)
        contents.put("good", 1)
        contents.put("bad", (number for number in range(3)))
        with pytest.raises(SerializationError) as caught:
            store.write_back()
        assert "in the state 'counts'" in caught.value.__notes__
        # Nothing is lost.
        contents.remove("bad")
        assert contents.items() == [("good", 1)]
