"""F15: the files that checkpoints of logged state write, and their fate."""

from pathlib import Path

import pytest
from penstock.errors import CheckpointStorageError
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.checkpointing.changelog_states import ChangelogStates
from penstock.taskexecutor.rocksdb import row_log
from penstock.taskexecutor.state.backends.changelog_keyed_state_backend import (
    ChangelogKeyedStateBackend,
)
from penstock.taskexecutor.state.heap import KeyContext
from support.changelog_subtasks import BACKENDS, FILES, KEYS, TIMERS, fill, group_of, names, taken


@pytest.mark.parametrize("backend", BACKENDS)
def test_operators_use_the_states_of_the_backend_that_is_logged(subtask, backend):
    """A record does not pass the backend of the log."""
    one = subtask(backend)
    assert type(one.keyed) is ChangelogKeyedStateBackend
    assert isinstance(one.backend, KeyContext)
    assert one.backend.states is one.backend
    assert one.keyed.is_unused
    fill(one, [7])
    assert not one.keyed.is_unused


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_checkpoint_writes_what_has_changed_and_refers_to_the_rest(subtask, backend):
    """Segments accumulate; a materialized state replaces all earlier ones."""
    one = subtask(backend)
    fill(one)
    whole = set(names(taken(one, 1)))
    assert {name.partition("/")[0] for name in whole} == {"1"}
    fill(one, [7])
    second = taken(one, 2)
    assert set(names(second)) == whole | {"2/log"}
    assert second.checkpointed_bytes == second.shared["2/log"].size < 100
    assert set(names(taken(one, 3))) == whole | {"2/log"}, "nothing has changed"
    write = one.begin_whole()
    fill(one, [8])
    assert set(names(taken(one, 4))) == whole | {"2/log", "4/log"}
    write()
    fifth = names(taken(one, 5))
    assert whole.isdisjoint(fifth)
    assert [name for name in fifth if "log" in name] == ["5/log"]
    fill(one, [9])
    assert set(names(taken(one, 6))) == {*fifth, "6/log"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_after_a_checkpoint_that_is_not_complete_a_segment_begins_earlier(subtask, backend):
    one = subtask(backend)
    fill(one)
    whole = set(names(taken(one, 1)))
    fill(one, [7])
    taken(one, 2, completes=False)
    fill(one, [8])
    beside = taken(one, 3, completes=False)
    assert set(names(beside)) == whole | {"3/log"}, "the second may not be complete"
    one.states.aborted(2)
    one.states.aborted(3)
    assert set(names(taken(one, 4))) == whole | {"4/log"}
    assert taken(one, 5, is_full=True).checkpointed_bytes > 1000
    assert not whole & set(names(taken(one, 6)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_removals_are_noted_from_the_first_snapshot_on(subtask, backend):
    """A job without checkpoints does not record removals."""
    one = subtask(backend)
    timers = one.backend.timer_table(TIMERS)
    tables = [timers] if backend == "rocksdb" else [timers, one.backend.table("value", "value")]
    fill(one, [7])
    timers.map(5).put(KEYS.identity(7), None)
    timers.map(5).remove(KEYS.identity(7))
    one.state("value", 7).clear()
    assert all(table.removals is None for table in tables)
    fill(one, [8])
    timers.map(5).put(KEYS.identity(8), None)
    taken(one, 1)
    timers.map(5).remove(KEYS.identity(8))
    one.state("value", 8).clear()
    assert "2/log" in names(taken(one, 2))
    assert all(table.removals is not None for table in tables)


def test_a_small_segment_of_a_slow_checkpoint_is_gone_on_from(subtask):
    """The segment starts before a large, complete one, and completes after it."""
    one = subtask()
    options = {**one.configuration, "execution.checkpointing.data-inline-threshold": "200 b"}
    one.states = ChangelogStates(FILES, options)
    fill(one)
    whole = set(names(taken(one, 1)))
    one.state("objects", 1).update(["x" * 1000])
    assert set(names(taken(one, 2, completes=False))) == whole | {"2/log"}
    one.state("objects", 1).clear()
    write = one.take(3)
    one.states.completed(2)
    one.take(4)()
    one.states.aborted(4)
    write()
    one.states.completed(3)
    fill(one, [7])
    assert set(names(taken(one, 5))) == whole | {"5/log"}, "it has what the third has"


def test_a_segment_without_a_file_is_written_with_the_next(subtask):
    one = subtask(storage="memory")
    one.states = ChangelogStates(
        FILES,
        {**one.configuration, "execution.checkpointing.data-inline-threshold": "60 b"},
    )
    fill(one)
    whole = names(taken(one, 1))
    for checkpoint_id in (2, 3):
        fill(one, [checkpoint_id])
        assert names(taken(one, checkpoint_id)) == [*whole, f"{checkpoint_id}/log"]
    fill(one, range(100))
    assert names(taken(one, 4)) == [*whole, "4/log"]
    fill(one, [5])
    assert names(taken(one, 5)) == [*whole, "4/log", "5/log"]


def test_a_log_in_memory_has_a_limit(subtask):
    one = subtask(storage="memory")
    fill(one)
    taken(one, 1)
    one.state("objects", 1).update(bytes(6 << 20))
    with pytest.raises(CheckpointStorageError, match=r"set state\.changelog\.storage to"):
        one.take(2)()


def test_a_database_whose_log_is_too_long_is_written_as_a_whole(subtask, monkeypatch):
    monkeypatch.setattr(row_log, "MOST_BYTES", 1000)
    one = subtask("rocksdb")
    fill(one)
    taken(one, 1)
    fill(one)
    second = names(taken(one, 2))
    assert {name.partition("/")[0] for name in second} == {"2"}
    assert "2/log" not in second
    fill(one, [1])
    assert "3/log" in names(taken(one, 3))


def test_a_log_is_compressed(subtask):
    sizes = {}
    for text in ("false", "true"):
        one = subtask(**{"dstl.dfs.compression.enabled": text})
        fill(one)
        taken(one, 1)
        one.state("objects", 1).update(bytes(100_000))
        sizes[text] = taken(one, 2).shared["2/log"].size
    assert sizes["true"] < 5000 < 100_000 < sizes["false"]


class Unreliable:
    """Opens streams of the log, the first of which cannot be written."""

    def __init__(self, subtask, failures):
        self.open_stream = subtask.open_stream
        self.failures = failures

    def __call__(self, is_shared=False, is_log=False):
        if is_log and self.failures:
            self.failures -= 1
            raise OSError(28, "No space left on device")
        return self.open_stream(is_shared, is_log)


@pytest.mark.parametrize(
    ("policy", "attempts", "failures", "pauses"),
    [
        ("fixed", "3", 2, [0.25, 0.25]),
        ("fixed", "3", 3, None),
        ("fixed", "1", 1, None),
        ("none", "3", 1, None),
    ],
)
def test_attempts_to_write_the_log(subtask, policy, attempts, failures, pauses):
    """After upload.max-attempts the checkpoint fails, and leaves no file."""
    one = subtask(
        **{
            "dstl.dfs.upload.retry-policy": policy,
            "dstl.dfs.upload.max-attempts": attempts,
            "dstl.dfs.upload.next-attempt-delay": "250 ms",
        }
    )
    slept = []
    one.states = ChangelogStates(FILES, one.configuration, sleep=slept.append)
    fill(one)
    taken(one, 1)
    there = set(one.folder.glob("*/*"))
    fill(one, [7])
    one.open_stream = Unreliable(one, failures)
    if pauses is None:
        with pytest.raises(OSError, match="No space left"):
            one.take(2)()
        assert set(one.folder.glob("*/*")) == there
        one.states.failed(2)
        one.states.aborted(2)
        assert "3/log" in names(taken(one, 3))
    else:
        assert "2/log" in names(taken(one, 2))
        assert slept == pauses


def test_the_bytes_of_a_log(subtask):
    """`docs/formats/checkpoint.md`."""
    one = subtask()
    fill(one, [1, 2, 3])
    taken(one, 1)
    one.state("value", 1).update(11)
    one.state("value", 2).clear()
    one.timer(5).put((KEYS.identity(3), "w"), 1)
    handle = taken(one, 2)
    description = TypeSerializer().deserialize(Path(handle.meta.path).read_bytes())
    groups = sorted(map(group_of, (1, 2, 3)))
    assert description["format"] == "changelog"
    assert description["version"] == 1
    [(whole, first, _)] = description["whole"]
    [(log, first_of_log, offsets)] = description["log"]
    assert (whole, log, first, first_of_log) == ("1/whole", "2/log", groups[0], groups[0])
    assert sorted(handle.shared) == ["1/whole", "2/log"]
    data = Path(handle.shared["2/log"].path).read_bytes()
    head = TypeSerializer().deserialize(data[5 : min(at for at in offsets if at >= 0)])
    assert data[0] == 2
    assert head == {"states": [("+value", "value"), ("-value", "value"), ("+0/event", "timer")]}
    entry = {1: "0001 00000000 00000003 01 c1 cb", 2: "0002 00000000 00000003 01 c2 00"}
    for key in (1, 2):
        begin = offsets[group_of(key) - groups[0]]
        expected = bytes.fromhex(entry[key]) + b"\0\0"
        assert data[begin : begin + len(expected)] == expected
