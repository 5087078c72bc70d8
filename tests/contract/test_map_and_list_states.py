"""Map and list states of any backend and runtime contain what dictionaries and lists would.

Goal: with RocksDB each pair of a map and each piece of a list is a row, and the cache of a few
elements in front of it is invisible, whatever is evicted when; a snapshot, taken and restored at
any moment, by any backend, has the content at that moment.  Method: random operations on states of
several keys and namespaces, and on dictionaries; objects in the states are mutated in place, by
their readers and by later holders.
"""

import copy
import importlib
import shutil
import tempfile
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from penstock.datastream.window import TimeWindow
from penstock.errors import SerializationError
from penstock.taskexecutor.rocksdb.database import Database, ReadOnlyDatabase
from penstock.taskexecutor.rocksdb.row_store import RowStore
from penstock.taskexecutor.rocksdb.settings import RocksDBSettings
from penstock.taskexecutor.rocksdb.stored_states import StateEntries, StoredKind

from contract.codecs import RUNTIMES

GROUPS = range(8)
#: Room for the smallest number of elements.
SMALLEST = 1
FOREVER = (1 << 63) - 1


def module(runtime, name):
    if runtime == "native":
        packages = {"keys": "_native.keys"}
        name = {"table": "state_table"}.get(name, name)
    else:
        packages = {"keys": "serialization.pure", "element_states": "taskexecutor.rocksdb"}
    package = packages.get(name, "_native.state" if runtime == "native" else "taskexecutor.state")
    return importlib.import_module(f"penstock.{package}.{name}")


class Backend:
    """A map and a list state, and their snapshots."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.context = module(runtime, "heap_states").KeyContext()
        self.keys = module(runtime, "keys").KeyReader(lambda key: key, -1, str, None)

    def select(self, key, namespace):
        self.context.current_key = self.keys.identity(key)
        for state in (self.map_state, self.list_state):
            state.set_current_namespace(namespace)

    def lend(self):
        """Mark the states as used by functions."""
        self.map_state.lends = self.list_state.lends = True

    def load(self, snapshot):
        for table, groups in zip((self.map_table, self.list_table), snapshot, strict=True):
            for data in groups.values():
                table.load(data, self.keys)

    def content(self):
        return [{(n, k): v for n, k, v in table} for table in (self.map_table, self.list_table)]


class Heap(Backend):
    def __init__(self, runtime):
        super().__init__(runtime)
        tables, states = module(runtime, "table"), module(runtime, "heap_states")
        self.map_table = tables.StateTable("m", "map")
        self.list_table = tables.StateTable("l", "list")
        self.map_state = states.HeapMapState(self.context, self.map_table)
        self.list_state = states.HeapListState(self.context, self.list_table)
        self.lend()

    def snapshot(self, meanwhile=lambda: None):
        self.context.lent.settle()
        opened = [
            table.open_snapshot(None, len(GROUPS), GROUPS)
            for table in (self.map_table, self.list_table)
        ]
        self.context.lent.touch()
        meanwhile()
        found = []
        for snapshot in opened:
            assert snapshot.advance(FOREVER)
            entries = snapshot.entries
            found.append({group: entries.take(group) for group in entries.key_groups()})
        return found

    def restart(self):
        other = Heap(self.runtime)
        other.load(self.snapshot())
        return other

    def dispose(self):
        pass


class Rows(Backend):
    def __init__(self, runtime, scratch=None, cache_bytes=SMALLEST, sequence=0):
        super().__init__(runtime)
        self.scratch = scratch or tempfile.mkdtemp()
        self.store = RowStore(
            Database(f"{self.scratch}/db", RocksDBSettings.of({}), None),
            module(runtime, "state_rows").StateRows(None, len(GROUPS), GROUPS),
            self.keys,
            GROUPS,
            cache_bytes,
            8 << 20,
            module(runtime, "table").StateTable,
            lent=self.context.lent,
        )
        self.store.sequence = sequence
        self.map_table = self.store.add_elements("m", "map", 0)
        self.list_table = self.store.add_elements("l", "list", 1)
        states = module(runtime, "element_states")
        self.map_state = states.ElementMapState(self.context, self.map_table)
        self.list_state = states.ElementListState(self.context, self.list_table)
        self.lend()

    def snapshot(self, meanwhile=lambda: None):
        """Return the files of a checkpoint as canonical entries."""
        self.store.write_back()
        meanwhile()
        folder = f"{self.scratch}/snapshot"
        self.store.database.checkpoint(folder)
        database = ReadOnlyDatabase(folder)
        kinds = [StoredKind("map", 0, True), StoredKind("list", 1, True)]
        found = [dict(StateEntries(database, kind, GROUPS)) for kind in kinds]
        database.close()
        shutil.rmtree(folder)
        return found

    def restart(self):
        """Restart: the rows must exist when they are opened again."""
        self.store.write_back()
        self.store.database.close()
        return Rows(self.runtime, self.scratch, sequence=self.store.sequence)

    def dispose(self):
        self.store.database.close()
        shutil.rmtree(self.scratch)


BACKENDS = {"heap": Heap, "rocksdb": Rows}


class Pair:
    """A key that is identified only by its form."""

    def __init__(self, one, other):
        self.parts = (one, other)

    def __eq__(self, other):
        return isinstance(other, Pair) and self.parts == other.parts

    def __hash__(self):
        return hash(self.parts)


keys = st.sampled_from(["a", "b", 1, (1, 2.0), True, Pair(1, "x")])
namespaces = st.sampled_from([None, None, TimeWindow(0, 10), ("pair", 1.0)])
NAMES = [*range(40), *map(str, range(5)), None, 1.5, 2.0, True, (1, 2), (1.0, "x"), Pair(1, 2)]
names = st.sampled_from(NAMES)
values = st.integers(-300, 2**40) | st.sampled_from(["text", None, (1, "x")])
changeable = values | st.lists(st.integers(0, 3), max_size=3)


class StatesMachine(RuleBasedStateMachine):
    """A backend, and its expected content."""

    backend_class = Heap
    runtime = ""

    def __init__(self):
        super().__init__()
        self.backend = self.backend_class(self.runtime)
        self.maps = {}
        self.lists = {}
        self.held = []

    def select(self, key, namespace):
        self.backend.select(key, namespace)
        place = namespace, self.backend.context.current_key
        return self.backend.map_state, self.backend.list_state, place

    def holding(self, value):
        """Return an object that both the state and the model hold; lists are mutated later."""
        if type(value) is list:
            value = list(value)
            self.held.append(value)
        return value

    @rule(key=keys, namespace=namespaces, name=names, value=changeable)
    def put(self, key, namespace, name, value):
        state, _, place = self.select(key, namespace)
        value = self.holding(value)
        state.put(name, value)
        self.maps.setdefault(place, {})[name] = value

    @rule(position=st.integers(0, 20), number=st.integers(0, 3))
    def change_what_is_held(self, position, number):
        """Change a held object, at any later time, whether or not it is still in a state."""
        if position < len(self.held):
            self.held[position].append(number)

    @rule(count=st.integers(0, 20))
    def let_go(self, count):
        del self.held[:count]

    @rule(key=keys, namespace=namespaces)
    def hold_what_is_read(self, key, namespace):
        mapped, listed, place = self.select(key, namespace)
        for kept, found in (
            (self.maps.get(place, {}), dict(mapped.items())),
            (dict(enumerate(self.lists.get(place, []))), dict(enumerate(listed.get()))),
        ):
            assert found == kept
            for name, value in found.items():
                if type(value) is list:
                    # The state has read it again, or it is the model's object.
                    self.held.append(value)
                    if kept is self.maps.get(place):
                        kept[name] = value
                    else:
                        self.lists[place][name] = value

    @rule(key=keys, namespace=namespaces, numbers=st.sets(st.integers(0, 300), max_size=300))
    def put_many(self, key, namespace, numbers):
        state, _, place = self.select(key, namespace)
        state.put_all({number: -number for number in numbers})
        if numbers:
            self.maps.setdefault(place, {}).update({number: -number for number in numbers})

    @rule(key=keys, namespace=namespaces, name=names)
    def look_up(self, key, namespace, name):
        state, _, place = self.select(key, namespace)
        expected = self.maps.get(place, {})
        assert state.contains(name) == (name in expected)
        assert state.get(name) == expected.get(name)
        assert state.is_empty() == (not expected)

    @rule(key=keys, namespace=namespaces, name=names)
    def change_in_place(self, key, namespace, name):
        state, _, place = self.select(key, namespace)
        value = state.get(name)
        if type(value) is list:
            value.append(7)
            self.maps[place][name] = value

    @rule(key=keys, namespace=namespaces, name=names)
    def remove(self, key, namespace, name):
        state, _, place = self.select(key, namespace)
        state.remove(name)
        expected = self.maps.get(place, {})
        expected.pop(name, None)
        if not expected:
            self.maps.pop(place, None)

    @rule(key=keys, namespace=namespaces)
    def read_map(self, key, namespace):
        state, _, place = self.select(key, namespace)
        expected = self.maps.get(place, {})
        assert dict(state.items()) == expected
        assert len(list(state.keys())) == len(list(state.values())) == len(expected)

    @rule(key=keys, namespace=namespaces, is_removed=st.lists(st.booleans(), max_size=40))
    def remove_while_iterating(self, key, namespace, is_removed):
        """Each pair is returned once, whatever the iterator removes."""
        state, _, place = self.select(key, namespace)
        expected = self.maps.pop(place, {})
        seen = []
        iterator = state.items()
        for position, (name, value) in enumerate(iterator):
            assert expected[name] == value
            seen.append(name)
            if position < len(is_removed) and is_removed[position]:
                iterator.remove()
                del expected[name]
                assert not state.contains(name)
            elif type(value) is list:
                value.append(position)
                expected[name] = value
        assert len(set(seen)) == len(seen)
        assert set(seen) >= expected.keys()
        if expected:
            self.maps[place] = expected

    @rule(key=keys, namespace=namespaces, added=st.lists(changeable, max_size=4))
    def append(self, key, namespace, added):
        _, state, place = self.select(key, namespace)
        added = [self.holding(value) for value in added]
        state.add_all(added)
        if added:
            self.lists.setdefault(place, []).extend(added)

    @rule(key=keys, namespace=namespaces)
    def read_list(self, key, namespace):
        _, state, place = self.select(key, namespace)
        found = state.get()
        assert found == self.lists.get(place, [])
        for position, value in enumerate(found):
            if type(value) is list:
                value.append(8)
                self.lists[place][position] = value

    @rule(key=keys, namespace=namespaces, new=st.lists(values, max_size=3))
    def replace_list(self, key, namespace, new):
        _, state, place = self.select(key, namespace)
        state.update(new)
        self.lists.pop(place, None)
        if new:
            self.lists[place] = list(new)

    @rule(key=keys, source=namespaces, into=namespaces)
    def merge(self, key, source, into):
        _, state, place = self.select(key, into)
        if source == into:
            return
        state.merge_namespaces(into, [source])
        moved = self.lists.pop((source, place[1]), [])
        if moved:
            self.lists.setdefault(place, []).extend(moved)

    @rule(key=keys, namespace=namespaces)
    def clear(self, key, namespace):
        mapped, listed, place = self.select(key, namespace)
        mapped.clear()
        listed.clear()
        self.maps.pop(place, None)
        self.lists.pop(place, None)
        for table in (self.backend.map_table, self.backend.list_table):
            table.drop_if_empty(namespace)

    @rule()
    def read_all(self):
        assert self.backend.content() == [self.maps, self.lists]
        assert len(self.backend.map_table) == len(self.maps)
        assert len(self.backend.list_table) == len(self.lists)

    @rule()
    def snapshot(self):
        """Any backend has the same content after it, whatever changes while it is read."""
        expected = self.copies()
        snapshot = self.backend.snapshot(self.change_all)
        for other_class in BACKENDS.values():
            other = other_class(self.runtime)
            other.load(snapshot)
            assert other.content() == expected
            other.dispose()

    def copies(self):
        return [
            {at: copy.deepcopy(kept) for at, kept in c.items()} for c in (self.maps, self.lists)
        ]

    def change_all(self):
        for value in self.held:
            value.append(9)

    @rule()
    def restart(self):
        """Restart the backend: the states no longer hold earlier values and are read again."""
        self.maps, self.lists = self.copies()
        self.held.clear()
        self.backend = self.backend.restart()

    def teardown(self):
        self.backend.dispose()


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", BACKENDS)
def test_states_hold_what_dictionaries_and_lists_hold(name, runtime):
    of = {"backend_class": BACKENDS[name], "runtime": runtime}
    machine = type(f"{name}{runtime}Machine", (StatesMachine,), of)
    machine.TestCase.settings = settings(
        max_examples=15,
        stateful_step_count=50,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    machine.TestCase().runTest()


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", BACKENDS)
def test_the_internal_state_of_a_map_reads_and_writes_the_map(name, runtime):
    backend = BACKENDS[name](runtime)
    backend.select("a", None)
    internal = backend.map_state.get_internal_state()
    internal.put("x", 1)
    backend.map_state.put("y", 2)
    backend.select("b", None)
    assert internal.get("x") is None
    backend.select("a", None)
    assert sorted(internal.items()) == sorted(backend.map_state.items()) == [("x", 1), ("y", 2)]
    backend.dispose()


@pytest.fixture(params=RUNTIMES)
def rows(request):
    backend = Rows(request.param, cache_bytes=100 * 64)
    yield backend
    backend.dispose()


def test_an_entry_of_a_map_is_read_and_written_alone(rows, monkeypatch):
    """Other entries of the map are not accessed."""
    rows.select("a", None)
    rows.map_state.put_all({f"name {number}": "value" * 10 for number in range(500)})
    rows.store.write_back()
    written = []
    write = Database.write

    def noting(database, removed, batch, **how):
        batch = list(batch)
        written.append((list(removed), batch))
        write(database, removed, batch, **how)

    monkeypatch.setattr(Database, "write", noting)
    monkeypatch.setattr(Database, "items", lambda *_: pytest.fail("rows are read in order"))
    rows.map_table.let_go(1000)
    rows.map_table.let_go(1000)
    assert rows.map_state.get("name 7") == "value" * 10
    assert rows.map_state.contains("name 8")
    assert not rows.map_state.contains("another")
    rows.map_state.put("name 9", "new")
    rows.map_state.remove("name 10")
    assert rows.store.num_cached < 10
    rows.store.write_back()
    assert [len(removed) for removed, _ in written] == [1, 0]
    [(_, value)] = written[1][1]
    assert b"new" in value


def test_an_append_writes_only_the_new_elements(rows, monkeypatch):
    rows.select("a", None)
    rows.list_state.add_all(["value" * 10] * 500)
    rows.store.write_back()
    rows.list_table.let_go(10_000)
    rows.list_table.let_go(10_000)
    assert rows.list_table.num_cached == 0
    for name in ("get", "items"):
        monkeypatch.setattr(Database, name, lambda *_: pytest.fail("rows are read"))
    sizes = []
    write = Database.write

    def noting(database, removed, batch, **how):
        batch = list(batch)
        sizes.extend(len(value) for _, value in batch)
        write(database, removed, batch, **how)

    monkeypatch.setattr(Database, "write", noting)
    rows.list_state.add("new")
    rows.store.write_back()
    assert len(sizes) == 1
    assert sizes[0] < 10
    monkeypatch.undo()
    assert rows.list_state.get() == [*["value" * 10] * 500, "new"]


def test_a_list_of_many_pieces_becomes_one(rows):
    rows.select("a", None)
    for number in range(20):
        rows.list_state.add(number)
        rows.store.write_back()
        rows.list_table.let_go(100)
        rows.list_table.let_go(100)
    assert rows.list_state.get() == list(range(20))
    rows.store.write_back()
    assert len(list(rows.store.database.items(b""))) == 1
    assert rows.restart().content()[1] == {(None, "a"): list(range(20))}


def test_an_entry_that_came_and_went_makes_room(rows):
    rows.select("a", None)
    rows.map_state.put("name", 0)
    rows.map_state.remove("name")
    rows.select("b", None)
    for number in range(2000):
        rows.map_state.put(number, -number)
    rows.select("a", None)
    assert rows.map_state.is_empty()
    rows.select("b", None)
    assert rows.map_state.get(7) == -7


def test_a_namespace_that_was_released_is_forgotten(rows):
    """Once its removals are written to the database, too."""
    for number in range(300):
        window = TimeWindow(number, number + 1)
        rows.select("a", window)
        rows.map_state.put("name", number)
        rows.list_state.add(number)
        if number % 2:
            rows.store.write_back()
        rows.map_state.clear()
        rows.list_state.clear()
        for table in (rows.map_table, rows.list_table):
            table.drop_if_empty(window)
    rows.store.write_back()
    for table in (rows.map_table, rows.list_table):
        assert [contents.namespace for contents in table.namespaces()] == [None]
        assert table.num_cached == 0


def test_numbers_that_are_equal_are_one_key_of_a_map(rows):
    rows.select("a", None)
    for name in (1, 1.0, True, Decimal(1), (1, 1.0), (1.0, True), float("nan"), -float("nan"), 0.5):
        rows.map_state.put(name, name)
        rows.store.write_back()
    assert rows.map_state.get(Decimal("0.5")) == 0.5
    assert len(list(rows.map_state.keys())) == 4


def test_maps_have_more_and_longer_keys_than_are_remembered(rows):
    rows.select("a", None)
    keys = [*range(5000), *("x" * length for length in (0, 62, 63, 64, 10_000)), 1 << 70]
    for round_ in range(2):
        for key in keys:
            rows.map_state.put(key, (rows.map_state.get(key) or 0) + 1)
            rows.map_state.put(True, 7)
        assert all(rows.map_state.get(key) == round_ + 1 for key in keys if key != 1)
    assert rows.map_state.get(1) == rows.map_state.get(1.0) == 7
    rows.map_state.remove(1)
    assert not rows.map_state.contains(True)


def test_a_value_that_cannot_be_serialised_is_named(rows):
    rows.select("a", None)
    rows.list_state.add("good")
    rows.map_state.put("good", 1)
    rows.map_state.put("bad", (number for number in range(3)))
    for _ in range(2):
        with pytest.raises(SerializationError) as caught:
            rows.store.write_back()
        assert "in the state 'm'" in caught.value.__notes__
    # Nothing is lost or duplicated.
    rows.map_state.remove("bad")
    assert dict(rows.map_state.items()) == {"good": 1}
    assert rows.restart().content() == [{(None, "a"): {"good": 1}}, {(None, "a"): ["good"]}]
