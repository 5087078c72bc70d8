"""Files of RocksDB in checkpoints: which data is written, who reads it, and named errors.

Method: backends without a task, and snapshots that are written to a folder as a task does.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from penstock.checkpoint_storage.handles import OperatorSubtaskState
from penstock.common.typeinfo import Types
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import TimeWindow
from penstock.errors import (
    CheckpointStorageError,
    CorruptCheckpointError,
    InvalidProgramError,
    StateBackendError,
)
from penstock.serialization.former_layouts import takes_former_fields
from penstock.serialization.value_layouts import number_classes
from penstock.taskexecutor.checkpointing.snapshot_format import (
    OperatorSnapshotWriter,
)
from penstock.taskexecutor.rocksdb import restoring
from penstock.taskexecutor.state.backends.keyed_state_backend import (
    KeyGrouping,
)
from penstock.taskexecutor.state.snapshots.snapshot import (
    OperatorSnapshot,
)
from support.full_disk import disk_for
from unit.taskexecutor.rocksdb_backends import (
    ALL,
    ELEMENTS,
    FOREVER,
    KEYS,
    MAX_PARALLELISM,
    PAIRS,
    VALUE,
    Storage,
    canonical,
    content,
    filled,
    group_of,
    incremental,
    make,
    read,
    restored,
    snapshot_of,
)

__all__ = ["make"]


def test_files_of_a_checkpoint_for_which_there_is_no_room_are_named(make, tmp_path):
    state, _ = Storage(tmp_path / "checkpoints").written(filled(make()))
    words = "cannot be copied to .*/penstock-rocksdb-.*File too large; make room there"
    new = make()
    new.table("pairs", "map")  # Its own database exists already.
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
    # An aborted checkpoint is not referred to.
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
        # States that are opened before the restore may have other numbers.
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
    """Older releases wrote them like this, and operators that use the table still do."""
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
    """Although an operator that used the state wrote them as rows of elements."""
    storage = Storage(tmp_path / "checkpoints")
    original = filled(make())
    state, _ = storage.written(original)
    new = make()
    pairs = new.table("pairs", "map").map(None)
    restored(new, [read(state)])
    assert pairs.get(KEYS.identity(7)) == {"a": 7, "b": 1}
    assert content(new) == content(original)
    # The descriptor opens the same state.
    new.current_key = KEYS.identity(7)
    new.state(PAIRS).put("a", 8)
    assert pairs.get(KEYS.identity(7)) == {"a": 8, "b": 1}


def test_entries_appended_after_a_restore_come_last(make, tmp_path):
    """At any parallelism: the pieces of a list stay in the order of their writes."""
    storage = Storage(tmp_path / "checkpoints")
    parts = [make(key_groups=part) for part in (range(8), range(8, 16))]
    for number in range(40):
        backend = parts[group_of(number) >= 8]
        backend.current_key = KEYS.identity(number)
        for value in range(3):
            backend.state(ELEMENTS).add(value)
            # One row per value.
            snapshot_of(backend).close()
    states = [storage.written(backend)[0] for backend in parts]
    together = restored(make(), [read(*states)])
    for number in range(40):
        together.current_key = KEYS.identity(number)
        together.state(ELEMENTS).add(3)
    snapshot_of(together).close()
    assert set(map(tuple, content(together)[2].values())) == {(0, 1, 2, 3)}


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
    """Rows are decoded when they are read, and when they are serialised for a savepoint."""
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


def test_files_are_refused_by_another_backend(make, tmp_path):
    storage = Storage(tmp_path / "checkpoints")
    state, _ = storage.written(filled(make()))
    with pytest.raises(InvalidProgramError, match="take a savepoint"):
        restored(make("hashmap"), [read(state)])


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


def test_the_writer_takes_handles_that_are_written(make, tmp_path):
    """Only the rest of an incremental checkpoint is written as a stream."""
    storage = Storage(tmp_path / "checkpoints")
    state, _ = storage.written(filled(make()))
    writer = OperatorSnapshotWriter(storage.stream)
    assert writer.write(OperatorSnapshot(1), state.managed_keyed) == state
