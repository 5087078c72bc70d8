"""F15: a checkpoint is what was written as a whole, and the log of what has changed since.

Goal: what is restored of a checkpoint, at any parallelism, is what the backends held when it was
taken, whatever was written as a whole meanwhile, aborted or subsumed; and a file goes when nobody
uses it.  Method: random changes of states of all kinds and of timers, against dictionaries.
"""

import copy
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from penstock import network
from penstock.checkpoint_storage.disposal import discard_streams, discard_task_state
from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.checkpoint_storage.handles import (
    FileHandle,
    OperatorSubtaskState,
    TaskStateSnapshot,
)
from penstock.checkpoint_storage.streams import TOO_LONG_LOG, DriverStateStream, StateOutputStream
from penstock.common import Time, Types
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.errors import CheckpointStorageError, StateBackendError
from penstock.expressions.evaluation import Evaluation
from penstock.graph.key_groups import key_group, key_group_range
from penstock.jobmaster.checkpointing.shared_state_registry import SharedStateRegistry
from penstock.serialization.pure.key_hash import key_hash
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.checkpointing.changelog_states import ChangelogStates
from penstock.taskexecutor.checkpointing.materialization import PeriodicMaterialization
from penstock.taskexecutor.checkpointing.snapshot_format import OperatorSnapshotReader
from penstock.taskexecutor.checkpointing.snapshot_slices import SnapshotSlices
from penstock.taskexecutor.rocksdb import row_log
from penstock.taskexecutor.state.keyed_state_backend import (
    BackendSurroundings,
    KeyGrouping,
    create_keyed_state_backend,
)
from penstock.taskexecutor.state.log_merging import with_log
from penstock.taskexecutor.state.operator_backend import OperatorStateBackend
from penstock.taskexecutor.state.snapshot import (
    OperatorSnapshot,
    RunningSnapshot,
    entries_of,
)
from penstock.taskexecutor.task.mailbox import SLICES, Mailbox

OPERATOR = b"o" * 16
FILES = FileSystems({})
GROUPS = 8
ALL = range(GROUPS)
FOREVER = (1 << 63) - 1
KEYS = network.KeyReader(lambda key: key, -1, str, None)
TIMERS = "0/event"
LONG_AGO = 1 << 40


class Longest(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return max(value, accumulator)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return max(one, other)


def expiring():
    descriptor = ValueStateDescriptor("expiring", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(LONG_AGO)).build())
    return descriptor


STATES = {
    "value": ValueStateDescriptor("value", Types.LONG()),
    "objects": ValueStateDescriptor("objects", Types.PICKLED_BYTE_ARRAY()),
    "list": ListStateDescriptor("list", Types.LONG()),
    "map": MapStateDescriptor("map", Types.STRING(), Types.LONG()),
    "reducing": ReducingStateDescriptor("reducing", lambda a, b: a + b, Types.LONG()),
    "aggregating": AggregatingStateDescriptor("aggregating", Longest(), Types.LONG()),
    "expiring": expiring(),
}
KINDS = {"objects": "value", "expiring": "value"}


def change(name, state, number):
    if name in ("value", "expiring"):
        state.update(number)
    elif name == "objects":
        held = state.value()
        if held is None:
            state.update([number])
        else:
            # In place, and then said to be changed.
            held.append(number)
            state.update(held)
    elif name == "map":
        state.put("ab"[number % 2], number)
    else:
        state.add(number)


def group_of(key):
    return key_group(key_hash(None)(key), GROUPS)


def content(backend):
    found = {}
    for name, descriptor in STATES.items():
        backend.state(descriptor)  # as all subtasks of an operator open it
        for namespace, key, value in backend.table(name, KINDS.get(name, name)):
            found[name, namespace, key] = copy.deepcopy(getattr(value, "value", value))
    for namespace, key, _ in backend.timer_table(TIMERS):
        found[TIMERS, namespace, key] = None
    return found


keys = st.integers(0, 9) | st.sampled_from(["x", "y", 2**40])


class Subtask:
    """A backend and what its task has written."""

    def __init__(self, world, index, parallelism):
        first, last = key_group_range(GROUPS, parallelism, index)
        self.groups = range(first, last + 1)
        self.folder = world.folder
        self.configuration = world.configuration
        self.backend = create_keyed_state_backend(
            BackendSurroundings(
                self.configuration,
                lambda: 0,
                Evaluation(enabled=False),
                lambda: self.grouping,
                lambda: KEYS,
                lambda: str(self.folder),
                bytes(16),
                index,
            )
        )
        self.grouping = KeyGrouping(None, GROUPS, self.groups)
        self.states = ChangelogStates(FILES, self.configuration)
        self.wholes = 0

    def state(self, name, key, namespace=None):
        self.backend.current_key = KEYS.identity(key)
        state = self.backend.state(STATES[name])
        state.set_current_namespace(namespace)
        return state

    def timer(self, time):
        return self.backend.timer_table(TIMERS).map(time)

    def open_stream(self, is_shared=False, is_log=False):
        if is_log and self.configuration["state.changelog.storage"] == "memory":
            return DriverStateStream(TOO_LONG_LOG)
        folder = self.folder / ("shared" if is_shared else "own")
        folder.mkdir(exist_ok=True)
        return StateOutputStream(LocalFileSystem(), str(folder), inline_threshold_bytes=0)

    def running(self, snapshot):
        states = OperatorStateBackend().open_snapshot()
        return RunningSnapshot(OperatorSnapshot(snapshot), self.opened, states)

    def take(self, checkpoint_id, *, is_full=False):
        base = self.states.begin(checkpoint_id, is_full=is_full).get(OPERATOR)
        self.opened = self.backend.open_snapshot(self.grouping, checkpoint_id, base)
        running = self.running(checkpoint_id)
        return lambda: self.written(running, base)

    def written(self, running, base):
        while not running.advance(FOREVER):
            pass
        folder = running.database_files()
        snapshot = running.finished()
        handles, _ = self.states.write(OPERATOR, snapshot, folder, base, self.open_stream)
        running.release()
        return OperatorSubtaskState(handles)

    def begin_whole(self):
        self.wholes -= 1
        snapshot_id = self.wholes - 1
        self.states.begin_whole(snapshot_id)
        self.opened = self.backend.open_snapshot(self.grouping, snapshot_id)
        running = self.running(snapshot_id)

        def write():
            while not running.advance(FOREVER):
                pass
            folder = running.database_files()
            snapshot = running.finished()
            whole = self.states.write_whole(snapshot, folder, lambda: self.open_stream(True))
            running.release()
            self.states.end_whole({OPERATOR: whole})

        return write


class World(RuleBasedStateMachine):
    """An operator, its checkpoints in a folder, and the JobMaster's registry."""

    backend = ""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.registry = SharedStateRegistry()
        self.next_id = 0
        self.subtasks = []
        #: What is not complete yet: states of subtasks, and what is expected.
        self.pending = {}
        self.complete = None
        #: What is being written as a whole, by subtask.
        self.writing = {}

    @initialize(
        parallelism=st.integers(1, 2),
        storage=st.sampled_from(["memory", "filesystem"]),
        few=st.sampled_from(["0 b", "100 b"]),
        compression=st.booleans(),
    )
    def start(self, parallelism, storage, few, compression):
        self.configuration = {
            "state.backend.type": self.backend,
            "penstock.rocksdb.cache.size": "64 kb",
            "state.changelog.enabled": "true",
            "state.changelog.storage": storage,
            "state.changelog.dstl.dfs.compression.enabled": str(compression).lower(),
            "execution.checkpointing.data-inline-threshold": few,
        }
        self.subtasks = self.new_subtasks(parallelism)

    def new_subtasks(self, parallelism):
        return [Subtask(self, index, parallelism) for index in range(parallelism)]

    def of(self, key):
        [owner] = [subtask for subtask in self.subtasks if group_of(key) in subtask.groups]
        return owner

    @rule(
        name=st.sampled_from(list(STATES)),
        keys=st.sets(keys, min_size=1),
        namespace=st.sampled_from([None, "w", ("t", 1)]),
        number=st.integers(-5, 2**40),
    )
    def change(self, name, keys, namespace, number):
        for key in keys:
            change(name, self.of(key).state(name, key, namespace), number)

    @rule(data=st.data(), times=st.integers(1, 4))
    def remove(self, data, times):
        """Something that is there."""
        for _ in range(times):
            if there := sorted(self.content(), key=repr):
                name, namespace, identity = data.draw(st.sampled_from(there))
                key = identity[0] if isinstance(identity, tuple) else identity
                if name == TIMERS:
                    self.of(key).timer(namespace).remove(identity)
                else:
                    self.of(key).state(name, key, namespace).clear()

    @rule(key=keys, time=st.integers(0, 3), of=st.sampled_from([None, "w"]))
    def register_timer(self, key, time, of):
        identity = KEYS.identity(key)
        self.of(key).timer(time).put(identity if of is None else (identity, of), 1)

    @rule(is_full=st.booleans(), later=st.booleans(), key=keys)
    def take(self, is_full, later, key):
        """A checkpoint, while elements go on."""
        if len(self.pending) > 2:
            return
        self.next_id += 1
        expected = self.content()
        writes = [
            subtask.take(self.next_id, is_full=is_full and self.next_id % 4 == 0)
            for subtask in self.subtasks
        ]
        if later:
            self.change("objects", {key}, None, 1)
            self.of(key).state("value", key).clear()
            self.of(key).timer(1).remove(KEYS.identity(key))
        states = [write() for write in writes]
        self.pending[self.next_id] = states, len(self.subtasks), expected
        for state in states:
            if self.registry.report(self.next_id, TaskStateSnapshot({OPERATOR: state})):
                # Of one that a later complete one has no use for.
                self.abort(self.next_id)
                return

    @rule(later=st.booleans(), key=keys)
    def take_and_complete(self, later, key):
        self.take(False, later, key)
        if self.pending:
            self.complete_last(max(self.pending))

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def complete_one(self, data):
        self.complete_last(data.draw(st.sampled_from(sorted(self.pending))))

    def complete_last(self, checkpoint_id):
        for earlier in [id_ for id_ in self.pending if id_ < checkpoint_id]:
            self.abort(earlier)
        former, self.complete = self.complete, (checkpoint_id, *self.pending.pop(checkpoint_id))
        if former is not None:
            self.discard(former[0], former[1])
        for subtask in self.subtasks:
            subtask.states.completed(checkpoint_id)
        self.check()

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def abort_one(self, data):
        self.abort(data.draw(st.sampled_from(sorted(self.pending))))

    def abort(self, checkpoint_id):
        states = self.pending.pop(checkpoint_id)[0]
        unused = self.registry.unregister(checkpoint_id)
        for state in states:
            discard_task_state(TaskStateSnapshot({OPERATOR: state}), FILES)
        discard_streams(unused, FILES)
        for subtask in self.subtasks:
            subtask.states.aborted(checkpoint_id)

    def discard(self, checkpoint_id, states):
        for state in states:
            discard_streams([handle.meta for handle in state.managed_keyed], FILES)
        discard_streams(self.registry.unregister(checkpoint_id), FILES)

    @rule(data=st.data())
    def begin_whole(self, data):
        index = data.draw(st.integers(0, len(self.subtasks) - 1))
        subtask = self.subtasks[index]
        if index not in self.writing and subtask.states.is_whole_wanted:
            self.writing[index] = subtask.begin_whole()

    @precondition(lambda self: self.writing)
    @rule(data=st.data(), fails=st.booleans())
    def end_whole(self, data, fails):
        index = data.draw(st.sampled_from(sorted(self.writing)))
        write = self.writing.pop(index)
        if fails:
            self.subtasks[index].opened.close()
            self.subtasks[index].states.end_whole({})
        else:
            write()

    @rule(parallelism=st.integers(1, 3))
    def restart(self, parallelism):
        """From the last complete checkpoint, with other subtasks."""
        for index in list(self.writing):
            self.end_whole_now(index)
        for checkpoint_id in list(self.pending):
            self.abort(checkpoint_id)
        self.end_subtasks()
        self.subtasks = self.new_subtasks(parallelism)
        if self.complete is not None:
            checkpoint_id, states, _, expected = self.complete
            self.restore(self.subtasks, checkpoint_id, states)
            assert self.content() == expected

    def end_whole_now(self, index):
        self.writing.pop(index)()

    def end_subtasks(self):
        for subtask in self.subtasks:
            subtask.states.close()
            subtask.backend.dispose()

    def restore(self, subtasks, checkpoint_id, states):
        handles = tuple(handle for state in states for handle in state.managed_keyed)
        for subtask in subtasks:
            snapshot = OperatorSnapshotReader(subtask.groups, FILES).read(
                checkpoint_id, OperatorSubtaskState(handles)
            )
            subtask.backend.restore(
                snapshot.keyed,
                snapshot.timers,
                subtask.groups,
                KEYS,
                tuple(f for f in snapshot.files if set(f.key_groups) & set(subtask.groups)),
                snapshot.log,
            )

    def content(self):
        return {at: v for subtask in self.subtasks for at, v in content(subtask.backend).items()}

    def check(self):
        """What is read of the complete checkpoint; who looks into it sees the same."""
        checkpoint_id, states, parallelism, expected = self.complete
        others = self.new_subtasks(parallelism % 3 + 1)
        try:
            self.restore(others, checkpoint_id, states)
            found = {at: v for other in others for at, v in content(other.backend).items()}
            assert found == expected
        finally:
            for other in others:
                other.backend.dispose()
        if self.backend == "hashmap":
            read = [
                with_log(OperatorSnapshotReader(ALL, FILES).read(checkpoint_id, state))
                for state in states
            ]
            number = 0
            for snapshot in read:
                for _, groups in (*snapshot.keyed.values(), *snapshot.timers.values()):
                    number += sum(len(list(entries_of(data))) for data in groups.values())
            assert number == len(expected)

    def teardown(self):
        if self.subtasks:
            self.restart(1)
            self.end_subtasks()
            named = set()
            for state in self.complete[1] if self.complete else ():
                for handle in state.managed_keyed:
                    named |= {
                        Path(stream.path).name
                        for stream in (handle.meta, *handle.shared.values())
                        if isinstance(stream, FileHandle)
                    }
            left = {
                path.name
                for folder in ("own", "shared")
                for path in (self.folder / folder).glob("*")
            }
            assert left == named
        shutil.rmtree(self.folder)


@pytest.mark.parametrize(("backend", "examples"), [("hashmap", 60), ("rocksdb", 6)])
def test_what_is_restored_is_what_was_there(backend, examples):
    machine = type("World", (World,), {"backend": backend})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def subtask(tmp_path):
    """Makes subtasks of a backend with options."""
    made = []

    def new(backend="hashmap", **options):
        configuration = {
            "state.backend.type": backend,
            "state.changelog.enabled": "true",
            "state.changelog.storage": "filesystem",
            "execution.checkpointing.data-inline-threshold": "0 b",
            **{f"state.changelog.{key}": value for key, value in options.items()},
        }
        world = type("Place", (), {"folder": tmp_path, "configuration": configuration})
        made.append(Subtask(world, 0, 1))
        return made[-1]

    yield new
    for one in made:
        one.backend.dispose()


def taken(subtask, checkpoint_id, *, completes=True, **how):
    [handle] = subtask.take(checkpoint_id, **how)().managed_keyed
    if completes:
        subtask.states.completed(checkpoint_id)
    return handle


def names(handle):
    return sorted(handle.shared)


def fill(subtask, keys=range(300)):
    for key in keys:
        subtask.state("value", key).update(key)


BACKENDS = ["hashmap", "rocksdb"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_checkpoint_writes_what_has_changed_and_refers_to_the_rest(subtask, backend):
    """Segments follow each other; what was written as a whole takes the place of all before."""
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
    """A job without checkpoints keeps nothing of what it has removed."""
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
    """It began before one that was large and complete, and is complete after it."""
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
    """After as many as upload.max-attempts the checkpoint fails; nothing of it is left."""
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


class Task:
    """What a `PeriodicMaterialization` has of its task."""

    def __init__(
        self,
        subtask,
        execute=lambda action: action(),
        write=lambda action: action(),
        **options,
    ):
        self.subtask = subtask
        self.due = []
        self.folder_is_gone = False
        self.materialization = PeriodicMaterialization(
            subtask.states,
            {**subtask.configuration, **options},
            "task",
            open_snapshots=lambda id_: {
                OPERATOR: subtask.backend.open_snapshot(subtask.grouping, id_)
            },
            slices=SnapshotSlices(lambda action: action()),
            open_stream=self.open_stream,
            write=write,
            execute=execute,
            register_timer=lambda delay_ms, action: self.due.append((delay_ms, action)),
        )

    def open_stream(self):
        if self.folder_is_gone:
            raise OSError(13, "Permission denied")
        return self.subtask.open_stream(True)

    def fire(self):
        delay_ms, action = self.due.pop(0)
        action()
        return delay_ms


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_whole_that_cannot_be_written(subtask, backend):
    """It is tried again at each interval; after max-failures-allowed in a row the task fails."""
    one = subtask(backend)
    task = Task(
        one,
        **{
            "state.changelog.periodic-materialize.interval": "1 min",
            "state.changelog.max-failures-allowed": "2",
        },
    )
    fill(one)
    taken(one, 1)
    assert task.fire() == 60_000
    assert one.states.begin(2), "without a log there is nothing to be written"
    one.states.aborted(2)
    fill(one, [7])
    taken(one, 3)
    there = set(one.folder.glob("*/*"))
    task.folder_is_gone = True
    for _ in range(2):
        assert task.fire() == 60_000
    assert set(one.folder.glob("*/*")) == there
    task.folder_is_gone = False
    task.fire()
    assert not one.states.is_whole_wanted, "the next checkpoint has it"
    assert len(names(taken(one, 4))) > 0
    fill(one, [8])
    assert "5/log" in names(taken(one, 5))
    task.folder_is_gone = True
    task.fire()
    task.fire()
    with pytest.raises(StateBackendError, match=r"task: .* written as a whole 3 times in a row"):
        task.fire()


def test_a_log_that_is_long_is_ended_before_its_time(subtask, monkeypatch):
    monkeypatch.setattr("penstock.taskexecutor.checkpointing.changelog_states._MOST_SEGMENTS", 3)
    one = subtask()
    task = Task(one)
    fill(one)
    numbers = []
    for checkpoint_id in range(1, 8):
        numbers.append(len(names(taken(one, checkpoint_id))))
        task.materialization.checkpoint_completed()
        fill(one, [checkpoint_id])
    assert numbers == [1, 2, 3, 4, 5, 2, 3]


def test_what_no_checkpoint_has_goes_with_the_task(subtask):
    one = subtask()
    fill(one)
    taken(one, 1)
    fill(one, [7])
    taken(one, 2)
    there = set(one.folder.glob("*/*"))
    one.begin_whole()()
    assert set(one.folder.glob("*/*")) > there
    one.states.close()
    assert set(one.folder.glob("*/*")) == there


@pytest.mark.parametrize("ends", ["before it is written", "before the task hears of it"])
def test_so_does_what_is_written_while_the_task_ends(subtask, ends):
    mailbox, late = Mailbox(lambda: None), []
    one = subtask()
    task = Task(one, lambda action: mailbox.execute(action, SLICES), write=late.append)
    fill(one)
    taken(one, 1)
    fill(one, [7])
    taken(one, 2)
    there = set(one.folder.glob("*/*"))
    task.fire()
    mailbox.run_pending()
    (write,) = late
    if ends == "before it is written":
        task.materialization.close()
        (one.folder / "shared").rename(one.folder / "gone")
        write()
        assert not (one.folder / "shared").exists()
        return
    write()
    assert set(one.folder.glob("*/*")) > there
    task.materialization.close()
    mailbox.close()
    assert set(one.folder.glob("*/*")) == there


@pytest.mark.parametrize("is_written", [False, True])
def test_a_whole_of_a_checkpoint_that_is_given_up(subtask, is_written):
    """Once it is reported it is the JobMaster's: the metadata that names it may be there."""
    one = subtask()
    task = Task(one)
    fill(one)
    taken(one, 1)
    fill(one, [7])
    taken(one, 2)
    there = set(one.folder.glob("*/*"))
    task.fire()
    (whole,) = set(one.folder.glob("*/*")) - there
    write = one.take(3)
    if is_written:
        write()
    one.states.aborted(3)
    assert whole.exists() is is_written


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


def test_a_whole_may_end_while_a_slice_waits(subtask):
    """As a thread that writes finds it; that must not end with an error."""
    mailbox = Mailbox(lambda: None)

    def execute(action):
        mailbox.execute(action, SLICES)

    one = subtask()
    task = Task(one, execute)
    fill(one)
    taken(one, 1)
    fill(one, [7])
    taken(one, 2)
    execute(lambda: None)
    task.fire()
    fill(one, [8])
    assert "3/log" in names(taken(one, 3, completes=False))
    one.states.aborted(3)
    mailbox.run_pending()
    assert names(taken(one, 4)) == ["4/log", "4/whole"]
