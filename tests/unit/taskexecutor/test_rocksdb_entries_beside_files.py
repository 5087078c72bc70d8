"""Changed entries are stored beside a checkpoint's files until most of the state is idle.

Method: backends without a task, compared with a dictionary.
"""

from pathlib import Path

from penstock.checkpoint_storage.handles import OperatorSubtaskState
from penstock.taskexecutor.rocksdb import restoring
from penstock.taskexecutor.state.snapshots.log_merging import merged
from penstock.taskexecutor.state.snapshots.snapshot_contents import entries_of
from unit.taskexecutor.rocksdb_backends import (
    ALL,
    FOREVER,
    KEYS,
    MAX_PARALLELISM,
    PAIRS,
    VALUE,
    Storage,
    content,
    filled,
    incremental,
    make,
    read,
    restored,
    snapshot_of,
)

__all__ = ["make"]


def test_entries_stay_beside_the_files_while_most_of_them_change(make, tmp_path):
    storage = Storage(tmp_path / "checkpoints")
    backend = make(**{"penstock.rocksdb.cache.size": "64 mb"})
    model = dict.fromkeys(range(300), 0)
    for key in model:
        backend.current_key = KEYS.identity(key)
        backend.state(VALUE).update(0)
    beside = []
    for checkpoint_id in range(1, 7):
        # Every key, later one in a hundred.
        for key in range(0, 300, 1 if checkpoint_id <= 2 else 100):
            backend.current_key = KEYS.identity(key)
            backend.state(VALUE).update(checkpoint_id)
            model[key] = checkpoint_id
        state, _ = storage.written(backend, checkpoint_id, base=incremental())
        storage.uploads.completed(checkpoint_id)
        again = restored(make(), [read(state)])
        assert {key: value for (_, key), value in content(again)[0].items()} == model
        # The restored backend's next checkpoint contains these entries as well.
        later = restored(make(), [read(storage.written(again, 1)[0])])
        assert {key: value for (_, key), value in content(later)[0].items()} == model
        segments = read(state).log
        beside.append(sum(map(len, [*entries(segments)])))
    # A snapshot reveals that few entries changed; their rows are written before the next one.
    assert beside == [300, 300, 300, 3, 3, 3]


def test_idle_entries_are_written_while_the_state_is_used_and_checkpointed(make, tmp_path):
    """Each checkpoint meanwhile is complete, though its files may belong to an earlier one.

    Method: 3,000 idle keys, with a checkpoint after each slice of one batch of rows; between them,
    some keys change, are removed, return, or are the first of a namespace.
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
    # These keys are not idle.
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
            # The namespace is cleared with its rows, and filled again.
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
    # Entries that equal their rows need not stay in memory.
    assert table.let_go(10_000) > 500
    assert content(backend)[0] == model
    # All rows are written: the entries beside the files have changed since.
    state, _ = storage.written(backend, checkpoint_id + 1, base=incremental())
    assert sum(map(len, entries(read(state).log))) < 100


def entries(segments):
    for segment in segments:
        for _, groups in segment.keyed.values():
            for data in groups.values():
                yield list(entries_of(data))


def test_files_are_linked_again_when_only_rows_have_changed(make, tmp_path):
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
    # A snapshot without entries beside its files writes the changed ones to its files.
    backend.state(VALUE).update(-2)
    third = folder_of(4, None)
    assert third not in (first, second)
    assert not Path(second).exists()
    assert not Path(third).exists()


def test_a_removed_entry_is_neither_beside_the_files_nor_in_them(make, tmp_path):
    storage = Storage(tmp_path / "checkpoints")
    backend = filled(make())
    storage.written(backend)
    for number in range(100):
        backend.current_key = KEYS.identity(number)
        backend.state(VALUE).update(-1)
    snapshot = snapshot_of(backend, 2, incremental())
    # Meanwhile some are removed, others set, and memory is freed.
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


def test_readers_of_a_checkpoint_see_the_entries_beside_its_files(make, tmp_path):
    """Keys that are equal although their bytes differ are one key."""
    storage = Storage(tmp_path / "checkpoints")
    backend = make()
    keys = {1: 1, "a": 2, (1, 2.0): 3, (1, float("nan")): 4}
    for key, value in keys.items():
        backend.current_key = KEYS.identity(key)
        backend.state(VALUE).update(-value)
    # Its cache has no keys in their written form.
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
