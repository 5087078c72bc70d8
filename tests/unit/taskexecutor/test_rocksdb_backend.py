"""The RocksDB state backend: settings, files, snapshots, and leftovers.

Goal: snapshots move state from one backend to another, at any range of key groups, and no file is
left on disk.  Method: backends without a task.
"""

import errno
import importlib.util
import os

import pytest
from penstock.common.options import rocksdb
from penstock.common.options.check import check_options
from penstock.common.options.checkpointing import INCREMENTAL
from penstock.common.options.state import BACKEND
from penstock.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StreamExecutionEnvironment,
)
from penstock.errors import (
    ConfigurationError,
    StateBackendError,
)
from penstock.taskexecutor.rocksdb.row_store import StoredState
from penstock.taskexecutor.rocksdb.settings import RocksDBSettings, memory_of_slot
from penstock.taskexecutor.state.snapshots.snapshot import (
    OperatorSnapshot,
)
from support.full_disk import disk_for
from unit.taskexecutor.rocksdb_backends import (
    FOREVER,
    KEYS,
    PAIRS,
    Storage,
    canonical,
    content,
    filled,
    incremental,
    make,
    restored,
    snapshot_of,
)

__all__ = ["make"]


@pytest.mark.parametrize(("before", "after"), [
    ("rocksdb", "hashmap"), ("hashmap", "rocksdb"), ("rocksdb", "rocksdb"),
])  # fmt: skip
def test_a_canonical_snapshot_changes_the_backend(make, before, after):
    original = filled(make(before))
    assert content(restored(make(after), [canonical(original)])) == content(original)


def test_the_canonical_bytes_are_those_of_the_heap(make, tmp_path):
    """So that the same program can read both; entries may be in another order."""

    def sizes(backend):
        snapshot = canonical(backend)
        return {
            name: {group: len(data) for group, data in groups.items()}
            for name, (_, groups) in snapshot.keyed.items()
            if name != "elements"  # each namespace is written once for all its entries
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
    """The data in memory cannot be written when the database is closed; `make` checks that."""
    backend = filled(make())
    # More bytes than the files may hold.
    backend.current_key = KEYS.identity(0)
    for number in range(2000):
        backend.state(PAIRS).put(f"{number}", number)
    with disk_for(4096):
        backend.dispose()


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
    """Return a backend with a map of 20,000 pairs that cannot be read to its end."""
    backend = make()
    backend.current_key = KEYS.identity(1)
    for number in range(20_000):
        backend.state(PAIRS).put(f"{number:05}", number)
    # A checkpoint writes all of it to files.
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
    """RocksDB silently ends an iteration there: the pairs behind it would be lost."""
    backend = damaged(make, tmp_path)
    with pytest.raises(StateBackendError, match=f"RocksDB in {tmp_path}.*Corruption"):
        action(backend)


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


def test_failed_writes_leave_nothing(make, tmp_path):
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
        ("options-factory", "com.Factory", "names a Java class"),
    ],
)
def test_unavailable_settings_are_rejected(key, value, message):
    with pytest.raises(ConfigurationError, match=message):
        check_options({f"state.backend.rocksdb.{key}": value})


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'penstock-engine\[rocksdb\]'"):
        check_options({"state.backend.type": "rocksdb"})


def test_disposed_states_are_not_read(make, monkeypatch):
    """A scan of all rows takes seconds, and a failing one would leave the folder behind."""

    def refuse(store):
        raise OSError("the database cannot be read")

    backend = filled(make())
    monkeypatch.setattr(StoredState, "namespaces", refuse)
    backend.dispose()


def test_settings_of_an_environment_match_its_options():
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
    # Settings that a description leaves open remain.
    env.set_state_backend(EmbeddedRocksDBStateBackend())
    assert INCREMENTAL.read(settings) is True


@pytest.mark.parametrize(("size", "most"), [("8 mb", 300), ("0 b", 300), ("64 b", 8)])
def test_changed_rows_are_written_in_batches_of_the_size_that_is_set(make, size, most):
    """`write-batch-size` limits them; without it, all 300 keys would be one batch."""
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
