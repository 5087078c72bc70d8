"""The RocksDB state backend: settings, files, snapshots, and what it leaves behind.

Goal: state goes from one backend to another through snapshots, at any range of key groups, and
nothing stays on disk.  Method: backends without a task.
"""

import copy
import errno
import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from penstock import network
from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.checkpoint_storage.handles import OperatorSubtaskState
from penstock.checkpoint_storage.streams import StateOutputStream
from penstock.common.options import rocksdb
from penstock.common.options.check import check_options
from penstock.common.options.checkpointing import INCREMENTAL
from penstock.common.options.state import BACKEND
from penstock.common.typeinfo import Types
from penstock.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import TimeWindow
from penstock.errors import (
    CheckpointStorageError,
    ConfigurationError,
    CorruptCheckpointError,
    InvalidProgramError,
    StateBackendError,
)
from penstock.expressions.evaluation import Evaluation
from penstock.graph.key_groups import key_group
from penstock.serialization.former_layouts import takes_former_fields
from penstock.serialization.pure.key_hash import key_hash
from penstock.serialization.value_layouts import number_classes
from penstock.taskexecutor.checkpointing.incremental_states import IncrementalBases
from penstock.taskexecutor.checkpointing.snapshot_format import (
    OperatorSnapshotReader,
    OperatorSnapshotWriter,
)
from penstock.taskexecutor.checkpointing.uploaded_files import UploadedFiles
from penstock.taskexecutor.rocksdb import restoring
from penstock.taskexecutor.rocksdb.row_store import StoredState
from penstock.taskexecutor.rocksdb.settings import RocksDBSettings, memory_of_slot
from penstock.taskexecutor.state.keyed_state_backend import (
    BackendSurroundings,
    KeyGrouping,
    create_keyed_state_backend,
)
from penstock.taskexecutor.state.log_merging import merged
from penstock.taskexecutor.state.operator_backend import OperatorStateBackend
from penstock.taskexecutor.state.snapshot import (
    OperatorSnapshot,
    RunningSnapshot,
    entries_of,
    serialised,
)
from support.full_disk import disk_for

MAX_PARALLELISM = 16
FOREVER = (1 << 63) - 1
VALUE = ValueStateDescriptor("value", Types.LONG())
ELEMENTS = ListStateDescriptor("elements", Types.LONG())
PAIRS = MapStateDescriptor("pairs", Types.STRING(), Types.LONG())
KEYS = network.KeyReader(lambda key: key, -1, str, None)
ALL = range(MAX_PARALLELISM)
FILES = FileSystems({})


@pytest.fixture
def make(tmp_path):
    """Makes backends, which are disposed of; nothing is left then."""
    made = []

    def new(kind="rocksdb", key_groups=ALL, **options):
        configuration = {
            "state.backend.type": kind,
            "penstock.rocksdb.cache.size": "64 kb",
            "state.backend.rocksdb.localdir": str(tmp_path / "local"),
            **{key.replace("_", "."): value for key, value in options.items()},
        }
        backend = create_keyed_state_backend(
            BackendSurroundings(
                configuration,
                lambda: 0,
                Evaluation(enabled=False),
                lambda: KeyGrouping(None, MAX_PARALLELISM, key_groups),
                lambda: KEYS,
                lambda: str(tmp_path / "task"),
                bytes(16),
                0,
            )
        )
        made.append(backend)
        return backend

    yield new
    for backend in made:
        backend.dispose()
    assert not list(tmp_path.glob("local/penstock-rocksdb-*"))


def filled(backend, keys=range(300), factor=1):
    """A backend with some state of every kind for each key that it owns."""
    groups = (
        backend._surroundings.grouping().key_groups if hasattr(backend, "_surroundings") else ALL
    )
    for number in keys:
        if group_of(number) in groups:
            backend.current_key = KEYS.identity(number)
            backend.state(VALUE).update(number * factor)
            pairs = backend.state(PAIRS)
            pairs.put("a", number)
            pairs.put("b", factor)
            elements = backend.state(ELEMENTS)
            elements.set_current_namespace(TimeWindow(number % 3, 10))
            elements.add(number)
            elements.add(factor)
            backend.timer_table("0/event").map(number).put((number, "w"), 1)
    return backend


def group_of(number):
    return key_group(key_hash(None)(number), MAX_PARALLELISM)


def content(backend):
    tables = [backend.table(*named) for named in (("value", "value"), ("pairs", "map"))]
    tables += [backend.table("elements", "list"), backend.timer_table("0/event")]
    return [copy.deepcopy({(n, k): v for n, k, v in table}) for table in tables]


def snapshot_of(backend, checkpoint_id=1, base=None):
    grouping = KeyGrouping(None, MAX_PARALLELISM, ALL)
    return backend.open_snapshot(grouping, checkpoint_id, base)


def incremental():
    """What a snapshot is given that may have entries beside the files."""
    return IncrementalBases(0, {}).of(b"operator")


def canonical(backend):
    states = OperatorStateBackend().open_snapshot()
    return serialised(RunningSnapshot(OperatorSnapshot(1), snapshot_of(backend), states))


def restored(backend, snapshots, key_groups=ALL):
    for snapshot in snapshots:
        backend.restore(
            snapshot.keyed, snapshot.timers, key_groups, KEYS, snapshot.files, snapshot.log
        )
    return backend


class Storage:
    """Writes incremental snapshots to a folder, as a task does."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.uploads = UploadedFiles(FILES, 2)

    def stream(self, is_shared=False):
        del is_shared
        return StateOutputStream(LocalFileSystem(), str(self.folder), 0)

    def written(self, backend, checkpoint_id=1, *, is_full=False, base=None):
        """The handles of a snapshot, and the bytes that were referred to."""
        snapshot = snapshot_of(backend, checkpoint_id, base)
        assert snapshot.advance(FOREVER)
        follow_up = snapshot.follow_up()
        folder = snapshot.database_files()
        keyed, referred = self.uploads.write(
            checkpoint_id, b"operator", folder, self.stream, is_full=is_full
        )
        snapshot.release()
        while follow_up is not None and not follow_up.advance(0):
            pass
        return OperatorSubtaskState(managed_keyed=keyed), referred


def read(*states, key_groups=ALL):
    handles = tuple(handle for state in states for handle in state.managed_keyed)
    state = OperatorSubtaskState(managed_keyed=handles)
    return OperatorSnapshotReader(key_groups, FILES).read(1, state)


@pytest.mark.parametrize(("before", "after"), [
    ("rocksdb", "hashmap"), ("hashmap", "rocksdb"), ("rocksdb", "rocksdb"),
])  # fmt: skip
def test_a_canonical_snapshot_changes_the_backend(make, before, after):
    original = filled(make(before))
    assert content(restored(make(after), [canonical(original)])) == content(original)


def test_the_canonical_bytes_are_those_of_the_heap(make, tmp_path):
    """So that both may be read by the same program; entries may be in another order."""

    def sizes(backend):
        snapshot = canonical(backend)
        return {
            name: {group: len(data) for group, data in groups.items()}
            for name, (_, groups) in snapshot.keyed.items()
            if name != "elements"  # namespaces are written once for their entries
        }

    assert sizes(filled(make())) == sizes(filled(make("hashmap")))


def test_a_snapshot_is_not_changed_by_what_comes_later(make):
    backend = filled(make())
    before = content(backend)
    snapshot = snapshot_of(backend)
    filled(backend, range(600), factor=7)
    assert snapshot.advance(FOREVER)
    keyed, timers = snapshot.states()
    later = restored(make("hashmap"), [OperatorSnapshot(1, keyed, timers)])
    snapshot.release()
    assert content(later) == before


def test_a_backend_on_a_full_disk_leaves_nothing(make):
    """What is in memory cannot be written when the database is closed; `make` looks."""
    backend = filled(make())
    # More than the files may have.
    backend.current_key = KEYS.identity(0)
    for number in range(2000):
        backend.state(PAIRS).put(f"{number}", number)
    with disk_for(4096):
        backend.dispose()


def test_files_of_a_checkpoint_for_which_there_is_no_room_are_named(make, tmp_path):
    state, _ = Storage(tmp_path / "checkpoints").written(filled(make()))
    words = "cannot be brought to .*/penstock-rocksdb-.*File too large; make room there"
    new = make()
    new.table("pairs", "map")  # Its own database is there before.
    with pytest.raises(StateBackendError, match=words), disk_for(16):
        restored(new, [read(state)])


def test_a_file_of_a_checkpoint_that_cannot_be_read_is_named(make, tmp_path):
    state, _ = Storage(tmp_path / "checkpoints").written(filled(make()))
    largest = max((tmp_path / "checkpoints").iterdir(), key=lambda path: path.stat().st_size)
    snapshot = read(state)
    largest.unlink()
    largest.mkdir()
    with pytest.raises(CheckpointStorageError, match=f"{largest}.*cannot be read: Is a directory"):
        restored(make(), [snapshot])


def test_a_folder_that_cannot_be_made_is_named_with_its_option(make, tmp_path):
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "below"
    backend = make(**{"state.backend.rocksdb.localdir": str(below)})
    with pytest.raises(ConfigurationError, match=r"Not a directory; state\.backend\.rocksdb"):
        filled(backend)


def test_a_disk_without_room_for_a_database_may_have_some_after_a_restart(
    make, tmp_path, monkeypatch
):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    backend = make(**{"state.backend.rocksdb.localdir": str(tmp_path / "local")})
    monkeypatch.setattr("tempfile.mkstemp", full)
    with pytest.raises(StateBackendError, match=r"No space left on device; state\.backend"):
        filled(backend)


def damaged(make, tmp_path):
    """A backend of which a map of 20,000 pairs cannot be read to its end."""
    backend = make()
    backend.current_key = KEYS.identity(1)
    for number in range(20_000):
        backend.state(PAIRS).put(f"{number:05}", number)
    # A checkpoint has all of it written to files.
    snapshot_of(backend).release()
    [largest] = sorted(tmp_path.rglob("*.sst"), key=lambda path: path.stat().st_size)[-1:]
    with largest.open("r+b") as file:
        file.seek(largest.stat().st_size // 2)
        file.write(b"\xff" * 8192)
    return backend


@pytest.mark.parametrize(
    "action",
    [
        lambda backend: list(backend.state(PAIRS).items()),
        lambda backend: [backend.state(PAIRS).get(f"{number:05}") for number in range(20_000)],
        canonical,
        lambda backend: sum(1 for _ in backend.table("pairs", "map")),
    ],
    ids=["pairs", "each pair", "snapshot", "table"],
)
def test_state_that_cannot_be_read_is_an_error(make, tmp_path, action):
    """RocksDB ends an iteration there without a word: what follows would be lost."""
    backend = damaged(make, tmp_path)
    with pytest.raises(StateBackendError, match=f"RocksDB in {tmp_path}.*Corruption"):
        action(backend)


def test_a_second_checkpoint_writes_what_is_new(make, tmp_path):
    storage = Storage(tmp_path / "checkpoints")
    backend = filled(make())
    _, referred = storage.written(backend, 1)
    assert referred == 0
    storage.uploads.completed(1)
    backend.current_key = KEYS.identity(1)
    backend.state(VALUE).update(-1)
    second, referred = storage.written(backend, 2)
    handle = second.managed_keyed[0]
    assert referred > handle.checkpointed_bytes > 0
    assert {name.partition("/")[0] for name in handle.shared} == {"1", "2"}
    full, referred = storage.written(backend, 3, is_full=True)
    assert referred == 0
    assert {name.partition("/")[0] for name in full.managed_keyed[0].shared} == {"3"}
    # An aborted one is not referred to.
    storage.uploads.aborted(2)
    third, _ = storage.written(backend, 3)
    assert {name.partition("/")[0] for name in third.managed_keyed[0].shared} == {"1", "3"}
    again = restored(make(), [read(third)])
    assert content(again) == content(backend)


@pytest.mark.parametrize("base", [None, incremental()], ids=["rows", "entries beside"])
def test_files_are_restored_at_any_parallelism(make, tmp_path, base):
    storage = Storage(tmp_path / "checkpoints")
    halves = [filled(make(key_groups=part)) for part in (range(8), range(8, 16))]
    states = []
    for half, part in zip(halves, (range(8), range(8, 16)), strict=True):
        snapshot = half.open_snapshot(KeyGrouping(None, MAX_PARALLELISM, part), 1, base)
        assert snapshot.advance(FOREVER)
        keyed, _ = storage.uploads.write(1, b"o", snapshot.database_files(), storage.stream)
        snapshot.release()
        states.append(OperatorSubtaskState(managed_keyed=keyed))
    whole = [one | other for one, other in zip(*map(content, halves), strict=True)]
    together = restored(make(), [read(*states)])
    assert content(together) == whole
    parts = []
    for part in (range(5), range(5, 10), range(10, 16)):
        backend = make(key_groups=part)
        # States that are opened before they are restored may have other numbers.
        backend.state(PAIRS)
        parts.append(content(restored(backend, [read(*states, key_groups=part)], part)))
    for number, expected in enumerate(whole):
        joined = {}
        for part in parts:
            assert not joined.keys() & part[number].keys()
            joined |= part[number]
        assert joined == expected


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_with_maps_and_lists_as_single_rows_are_taken_over(make, tmp_path, version):
    """As they were written before, and as operators keep them that use their table."""
    old = make()
    for number in range(300):
        old.current_key = KEYS.identity(number)
        old.state(VALUE).update(number)
        old.table("pairs", "map").map(None).put(old.current_key, {"a": number, "b": -number})
        window = TimeWindow(number % 3, 10)
        old.table("elements", "list").map(window).put(old.current_key, [number, 1])
    storage = Storage(tmp_path / "checkpoints")
    state, _ = storage.written(old)
    [files] = read(state).files
    if version == 1:
        states = [row[:3] for row in files.meta["states"]]
        files = replace(files, meta={"format": "rocksdb", "version": 1, "states": states})
    elif version == 2:
        meta = {key: value for key, value in files.meta.items() if key != "changed"}
        files = replace(files, meta={**meta, "version": 2})
    new = make()
    new.restore({}, {}, ALL, KEYS, (files,))
    assert content(new)[:3] == content(old)[:3]
    new.current_key = KEYS.identity(7)
    new.state(PAIRS).put("c", 3)
    assert dict(new.state(PAIRS).items()) == {"a": 7, "b": -7, "c": 3}
    new.state(ELEMENTS).set_current_namespace(TimeWindow(1, 10))
    new.state(ELEMENTS).add(2)
    again, _ = Storage(tmp_path / "again").written(new)
    assert content(restored(make(), [read(again)])) == content(new)


def test_an_operator_that_uses_a_table_gets_its_entries(make, tmp_path):
    """Although they were written as rows of elements, by one that used the state."""
    storage = Storage(tmp_path / "checkpoints")
    original = filled(make())
    state, _ = storage.written(original)
    new = make()
    pairs = new.table("pairs", "map").map(None)
    restored(new, [read(state)])
    assert pairs.get(KEYS.identity(7)) == {"a": 7, "b": 1}
    assert content(new) == content(original)
    # By its descriptor it is the same state.
    new.current_key = KEYS.identity(7)
    new.state(PAIRS).put("a", 8)
    assert pairs.get(KEYS.identity(7)) == {"a": 8, "b": 1}


def test_what_is_appended_after_a_restore_comes_last(make, tmp_path):
    """At any parallelism: pieces of a list are in the order in which they were written."""
    storage = Storage(tmp_path / "checkpoints")
    parts = [make(key_groups=part) for part in (range(8), range(8, 16))]
    for number in range(40):
        backend = parts[group_of(number) >= 8]
        backend.current_key = KEYS.identity(number)
        for value in range(3):
            backend.state(ELEMENTS).add(value)
            # A row for each.
            snapshot_of(backend).close()
    states = [storage.written(backend)[0] for backend in parts]
    together = restored(make(), [read(*states)])
    for number in range(40):
        together.current_key = KEYS.identity(number)
        together.state(ELEMENTS).add(3)
    snapshot_of(together).close()
    assert set(map(tuple, content(together)[2].values())) == {(0, 1, 2, 3)}


def test_a_map_of_one_key_that_is_larger_than_the_cache(make):
    backend = make()
    backend.current_key = KEYS.identity("a")
    pairs = backend.state(PAIRS)
    most = 0
    for number in range(100_000):
        pairs.put(f"name {number}", number)
        most = max(most, backend.num_cached)
    assert most <= 1100
    assert pairs.get("name 7") == 7
    assert sum(pairs.values()) == sum(range(100_000))
    names = pairs.keys()
    for _ in range(50_000):
        next(names)
        names.remove()
    assert len(list(names)) == 50_000
    assert backend.num_cached <= 1100
    pairs.clear()
    assert pairs.is_empty()


def test_a_torn_file_of_a_checkpoint_is_named(make, tmp_path):
    storage = Storage(tmp_path / "checkpoints")
    state, _ = storage.written(filled(make()))
    [file] = [handle.path for handle in state.managed_keyed[0].shared.values()]
    Path(file).write_bytes(Path(file).read_bytes()[:-1])
    with pytest.raises(CorruptCheckpointError, match=file):
        restored(make(), [read(state)])


class Place(NamedTuple):
    x: int
    y: int


class PlaceLater(NamedTuple):
    y: int
    name: str = "none"


PLACE = ValueStateDescriptor("place", Types.PICKLED_BYTE_ARRAY())
PLACES = ListStateDescriptor("places", Types.PICKLED_BYTE_ARRAY())
PLACES_BY_NAME = MapStateDescriptor("by name", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


@pytest.mark.parametrize("base", [None, incremental()], ids=["rows", "entries beside"])
def test_a_class_may_have_had_other_fields_when_a_row_of_a_file_was_written(
    make, tmp_path, monkeypatch, base
):
    """Rows are read when they are asked for, and when they are serialised for a savepoint."""
    storage = Storage(tmp_path / "checkpoints")
    backend = make()
    for number in range(5):
        backend.current_key = KEYS.identity(number)
        backend.state(PLACE).update(Place(number, number + 1))
        backend.state(PLACES).add_all([Place(number, 7), Place(number, 8)])
        backend.state(PLACES_BY_NAME).put("a", Place(number, 9))
    state, _ = storage.written(backend, base=base)
    PlaceLater.__qualname__ = PlaceLater.__name__ = "Place"
    monkeypatch.setitem(globals(), "Place", PlaceLater)
    number_classes([(None, PlaceLater)])
    snapshot = read(state)
    again = restored(make(), [snapshot])
    other = restored(make(), [snapshot])
    later = restored(make(), [canonical(other)])
    for one in (again, later):
        for number in range(5):
            one.current_key = KEYS.identity(number)
            assert one.state(PLACE).value() == PlaceLater(number + 1)
            assert list(one.state(PLACES)) == [PlaceLater(7), PlaceLater(8)]
            assert one.state(PLACES_BY_NAME).get("a") == PlaceLater(9)
    for one in (again, other, later):
        one.dispose()
    assert not takes_former_fields()


def test_entries_are_beside_the_files_until_most_of_them_rest(make, tmp_path):
    storage = Storage(tmp_path / "checkpoints")
    backend = make(**{"penstock.rocksdb.cache.size": "64 mb"})
    model = dict.fromkeys(range(300), 0)
    for key in model:
        backend.current_key = KEYS.identity(key)
        backend.state(VALUE).update(0)
    beside = []
    for checkpoint_id in range(1, 7):
        # Every key, then one in a hundred.
        for key in range(0, 300, 1 if checkpoint_id <= 2 else 100):
            backend.current_key = KEYS.identity(key)
            backend.state(VALUE).update(checkpoint_id)
            model[key] = checkpoint_id
        state, _ = storage.written(backend, checkpoint_id, base=incremental())
        storage.uploads.completed(checkpoint_id)
        again = restored(make(), [read(state)])
        assert {key: value for (_, key), value in content(again)[0].items()} == model
        # And those are in the next one that is taken of it.
        later = restored(make(), [read(storage.written(again, 1)[0])])
        assert {key: value for (_, key), value in content(later)[0].items()} == model
        segments = read(state).log
        beside.append(sum(map(len, [*entries(segments)])))
    # That few have changed is seen when a snapshot has been taken, and written before the next.
    assert beside == [300, 300, 300, 3, 3, 3]


def test_what_rests_is_written_while_the_state_is_used_and_checkpointed(make, tmp_path):
    """Each checkpoint meanwhile has everything, though its files may be those of an earlier one.

    Method: 3,000 keys that rest, with a checkpoint after each slice of one batch of rows, between
    which some of them change, go, come back, or are the first of a namespace.
    """
    storage = Storage(tmp_path / "checkpoints")
    backend = make(**{"penstock.rocksdb.cache.size": "64 mb"})
    table = backend.table("value", "value")
    model = {}

    def put(key, value, namespace=None):
        table.map(namespace).put(KEYS.identity(key), value)
        model[namespace, key] = value

    for key in range(3_000):
        put(key, 0, "w" if key % 3 else None)
    for key in range(20):
        put(key, 0, "rests")
    storage.written(backend, 1, base=incremental())
    # Those do not rest.
    for key in range(9, 3_000, 300):
        put(key, 1)
    snapshot = snapshot_of(backend, 2, incremental())
    assert snapshot.advance(FOREVER)
    follow_up = snapshot.follow_up()
    snapshot.database_files()
    snapshot.release()
    checkpoint_id, is_done = 2, False
    while not is_done:
        is_done = follow_up.advance(0)
        for key in range(checkpoint_id, 3_000, 500):
            namespace = "w" if key % 3 else None
            table.map(namespace).remove(KEYS.identity(key))
            model.pop((namespace, key), None)
            put(key + 1, checkpoint_id, "w" if (key + 1) % 3 else None)
        if checkpoint_id == 4:
            # It is cleared with its rows, and begins anew.
            table.map("w").clear()
            model = {place: value for place, value in model.items() if place[0] != "w"}
        put("new", checkpoint_id, f"w{checkpoint_id}")
        checkpoint_id += 1
        state, _ = storage.written(backend, checkpoint_id, base=incremental())
        storage.uploads.completed(checkpoint_id)
        again = restored(make(), [read(state)])
        assert content(again)[0] == model
        # Also at another parallelism.
        halves = [
            restored(make(key_groups=part), [read(state, key_groups=part)], part)
            for part in (range(5), range(5, MAX_PARALLELISM))
        ]
        assert content(halves[0])[0] | content(halves[1])[0] == model
    assert checkpoint_id > 4
    # What is as in its row need not be in memory.
    assert table.let_go(10_000) > 500
    assert content(backend)[0] == model
    # Its rows are all there: what is beside the files has changed since.
    state, _ = storage.written(backend, checkpoint_id + 1, base=incremental())
    assert sum(map(len, entries(read(state).log))) < 100


def entries(segments):
    for segment in segments:
        for _, groups in segment.keyed.values():
            for data in groups.values():
                yield list(entries_of(data))


def test_files_are_linked_anew_when_rows_have_changed_alone(make, tmp_path):
    backend = filled(make(**{"penstock.rocksdb.cache.size": "64 mb"}))

    def folder_of(checkpoint_id, base):
        snapshot = snapshot_of(backend, checkpoint_id, base)
        assert snapshot.advance(FOREVER)
        path = snapshot.database_files().path
        assert Path(path, "CURRENT").exists()
        snapshot.release()
        return path

    first = folder_of(1, incremental())
    backend.current_key = KEYS.identity(1)
    backend.state(VALUE).update(-1)
    assert folder_of(2, incremental()) == first
    backend.state(PAIRS).put("a", -1)
    second = folder_of(3, incremental())
    assert second != first
    assert not Path(first).exists()
    # What is to have no entries beside its files has written those that have changed.
    backend.state(VALUE).update(-2)
    third = folder_of(4, None)
    assert third not in (first, second)
    assert not Path(second).exists()
    assert not Path(third).exists()


def test_an_entry_that_has_gone_is_neither_beside_the_files_nor_in_them(make, tmp_path):
    storage = Storage(tmp_path / "checkpoints")
    backend = filled(make())
    storage.written(backend)
    for number in range(100):
        backend.current_key = KEYS.identity(number)
        backend.state(VALUE).update(-1)
    snapshot = snapshot_of(backend, 2, incremental())
    # Meanwhile some are removed, others set, and memory is made free.
    for number in range(50):
        backend.current_key = KEYS.identity(number)
        backend.state(VALUE).clear()
    filled(backend, range(1000, 6000))
    assert snapshot.advance(FOREVER)
    keyed, _ = storage.uploads.write(2, b"o", snapshot.database_files(), storage.stream)
    snapshot.release()
    again = restored(make(), [read(OperatorSubtaskState(managed_keyed=keyed))])
    values = {key: value for (_, key), value in content(again)[0].items()}
    assert values == {number: -1 if number < 100 else number for number in range(300)}
    third, _ = storage.written(backend, 3, base=incremental())
    values = {k: v for (_, k), v in content(restored(make(), [read(third)]))[0].items()}
    expected = {number: -1 if number < 100 else number for number in range(50, 300)}
    assert values == expected | {number: number for number in range(1000, 6000)}


def test_who_looks_into_a_checkpoint_sees_the_entries_beside_its_files(make, tmp_path):
    """Keys that are equal though their bytes differ are one, too."""
    storage = Storage(tmp_path / "checkpoints")
    backend = make()
    keys = {1: 1, "a": 2, (1, 2.0): 3, (1, float("nan")): 4}
    for key, value in keys.items():
        backend.current_key = KEYS.identity(key)
        backend.state(VALUE).update(-value)
    # Its cache has no keys as they were written.
    backend = restored(make(), [read(storage.written(backend)[0])])
    for key, value in reversed([*keys.items()]):
        backend.current_key = KEYS.identity((1, float("-nan")) if value == 4 else key)
        backend.state(VALUE).update(value)
    state, _ = storage.written(backend, 2, base=incremental())
    snapshot = read(state)
    [files] = snapshot.files
    states = restoring.states_of_files(files, snapshot.log, str(tmp_path / "seen"), ALL)
    found = merged(states, [segment.keyed for segment in snapshot.log])
    seen = [entry for data in found["value"][1].values() for entry in entries_of(data)]
    assert sorted(value for _, _, value in seen) == [1, 2, 3, 4]


def test_files_are_refused_by_another_backend(make, tmp_path):
    storage = Storage(tmp_path / "checkpoints")
    state, _ = storage.written(filled(make()))
    with pytest.raises(InvalidProgramError, match="take a savepoint"):
        restored(make("hashmap"), [read(state)])


def test_what_cannot_be_written_leaves_nothing(make, tmp_path):
    storage = Storage(tmp_path / "checkpoints")
    snapshot = snapshot_of(filled(make()))
    assert snapshot.advance(FOREVER)
    streams = []

    def failing(is_shared):
        if len(streams) >= 2:
            raise OSError("no space left")
        streams.append(storage.stream(is_shared))
        return streams[-1]

    with pytest.raises(OSError, match="no space left"):
        storage.uploads.write(1, b"o", snapshot.database_files(), failing)
    snapshot.release()
    assert list(storage.folder.iterdir()) == []


def test_a_snapshot_that_is_given_up_leaves_nothing(make, tmp_path):
    backend = filled(make())
    snapshot = snapshot_of(backend)
    assert list(tmp_path.glob("local/penstock-rocksdb-*/snapshot-*"))
    snapshot.close()
    assert not list(tmp_path.glob("local/penstock-rocksdb-*/snapshot-*"))


@pytest.mark.parametrize("base", [None, incremental()], ids=["rows", "entries beside"])
def test_a_value_that_cannot_be_serialised_fails_the_snapshot_alone(make, base):
    backend = make()
    backend.current_key = KEYS.identity("a")
    backend.table("any", "value").map(None).put("a", (number for number in range(3)))
    snapshot = snapshot_of(backend, base=base)
    with pytest.raises(Exception, match="generator"):
        snapshot.advance(FOREVER)
    backend.table("any", "value").map(None).put("a", 1)
    assert snapshot_of(backend, base=base).advance(FOREVER)


def test_files_are_fetched_by_as_many_threads_as_are_set(make, tmp_path, monkeypatch):
    pools = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, threads, name):
            pools.append(threads)
            super().__init__(threads, name)

    monkeypatch.setattr(restoring, "ThreadPoolExecutor", Pool)
    storage = Storage(tmp_path / "checkpoints")
    state, _ = storage.written(filled(make()))
    option = {"state.backend.rocksdb.checkpoint.transfer.thread.num": "3"}
    restored(make(**option), [read(state)])
    assert pools == [3]


def test_options_that_are_set_count_more_than_predefined_ones():
    configuration = {
        "state.backend.rocksdb.predefined-options": "spinning-disk-optimized-high-mem",
        "state.backend.rocksdb.block.blocksize": "8 kb",
        "state.backend.rocksdb.compression.per.level": "NO_COMPRESSION;LZ4_COMPRESSION",
    }
    settings = RocksDBSettings.of(configuration)
    assert settings.level_bytes == 1 << 30
    assert settings.block_bytes == 8 << 10
    assert settings.compressions == ("NO_COMPRESSION", "LZ4_COMPRESSION")
    settings.options(None)


def test_the_databases_of_a_slot_share_their_memory():
    one = memory_of_slot({}, b"job", 0)
    assert memory_of_slot({}, b"job", 0) is one
    assert memory_of_slot({}, b"job", 1) is not one
    assert memory_of_slot({"state.backend.rocksdb.memory.managed": "false"}, b"job", 0) is None
    assert one.limit_bytes == 128 << 20


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("timer-service.factory", "ROCKSDB", "timers are kept in memory"),
        ("compaction.style", "FIFO", "forgets state"),
        ("compression.per.level", "SHRINK", "must be a list of NO_COMPRESSION"),
        ("options-factory", "com.Factory", "names a class of Java"),
    ],
)
def test_what_cannot_be_had_is_refused(key, value, message):
    with pytest.raises(ConfigurationError, match=message):
        check_options({f"state.backend.rocksdb.{key}": value})


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'penstock\[rocksdb\]'"):
        check_options({"state.backend.type": "rocksdb"})


def test_what_is_disposed_of_is_not_read(make, monkeypatch):
    """A scan of all rows takes seconds, and one that fails would leave the folder behind."""

    def refuse(store):
        raise OSError("the database cannot be read")

    backend = filled(make())
    monkeypatch.setattr(StoredState, "namespaces", refuse)
    backend.dispose()


def test_the_writer_takes_handles_that_are_written(make, tmp_path):
    """Of an incremental checkpoint only the rest is written as a stream."""
    storage = Storage(tmp_path / "checkpoints")
    state, _ = storage.written(filled(make()))
    writer = OperatorSnapshotWriter(storage.stream)
    assert writer.write(OperatorSnapshot(1), state.managed_keyed) == state


def test_what_an_environment_is_told_is_what_its_options_say():
    env = StreamExecutionEnvironment.get_execution_environment()
    backend = EmbeddedRocksDBStateBackend(True)
    backend.set_db_storage_paths("/one", "/two")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_number_of_transfer_threads(2)
    env.set_state_backend(backend)
    settings = env.get_configuration()
    assert [option.read(settings) for option in (BACKEND, INCREMENTAL)] == ["rocksdb", True]
    assert rocksdb.LOCAL_FOLDERS.read(settings) == ("/one", "/two")
    assert rocksdb.TRANSFER_THREADS.read(settings) == 2
    assert RocksDBSettings.of(settings.to_dict()).threads == 4
    env.set_state_backend(HashMapStateBackend())
    assert BACKEND.read(settings) == "hashmap"
    # What a description leaves open stays as it was set.
    env.set_state_backend(EmbeddedRocksDBStateBackend())
    assert INCREMENTAL.read(settings) is True


@pytest.mark.parametrize(("size", "most"), [("8 mb", 300), ("0 b", 300), ("64 b", 8)])
def test_changed_rows_are_written_in_batches_of_the_size_that_is_set(make, size, most):
    """That is `write-batch-size`; without it all 300 keys would go at once."""
    options = {
        "state_backend_rocksdb_write-batch-size": size,
        "penstock_rocksdb_cache_size": "8 mb",
    }
    backend = make(**options)
    filled(backend)
    database, sizes = backend._store.database, []
    write = database.write

    def counted(removed, rows, **how):
        sizes.append(len(rows))
        write(removed, rows, **how)

    database.write = counted
    snapshot_of(backend).close()
    assert sum(sizes) >= 300
    assert max(sizes) <= most if most < 300 else max(sizes) >= most
