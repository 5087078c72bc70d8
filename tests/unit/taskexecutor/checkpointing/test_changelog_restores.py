"""F15: a checkpoint consists of a materialized state, and the log of later changes.

Goal: a restore, at any parallelism, has the backends' content at the time of the checkpoint,
whatever was materialized meanwhile, aborted or subsumed; and unused files are deleted.  Method:
random changes of states of all kinds and of timers, against dictionaries.
"""

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
from penstock.checkpoint_storage.disposal import discard_streams, discard_task_state
from penstock.checkpoint_storage.handles import (
    FileHandle,
    OperatorSubtaskState,
    TaskStateSnapshot,
)
from penstock.jobmaster.checkpointing.shared_state_registry import SharedStateRegistry
from penstock.taskexecutor.checkpointing.snapshot_format import OperatorSnapshotReader
from penstock.taskexecutor.state.snapshots.log_merging import with_log
from penstock.taskexecutor.state.snapshots.snapshot_contents import entries_of
from support.changelog_subtasks import (
    ALL,
    FILES,
    KEYS,
    OPERATOR,
    STATES,
    TIMERS,
    Subtask,
    change,
    content,
    group_of,
)

keys = st.integers(0, 9) | st.sampled_from(["x", "y", 2**40])


class World(RuleBasedStateMachine):
    """An operator, its checkpoints in a folder, and the JobMaster's registry."""

    backend = ""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.registry = SharedStateRegistry()
        self.next_id = 0
        self.subtasks = []
        #: Incomplete checkpoints: states of subtasks, and the expected content.
        self.pending = {}
        self.complete = None
        #: States that are being materialized, by subtask.
        self.writing = {}
        #: Mutable state objects that a function still holds.
        self.held = []

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
            state = self.of(key).state(name, key, namespace)
            change(name, state, number)
            if name == "objects" and number % 2:
                self.held.append(state.value())

    @rule(position=st.integers(0, 20), number=st.integers(0, 9), is_over=st.booleans())
    def change_what_is_held(self, position, number, is_over):
        """Mutate an object from an earlier element, without access to the state."""
        if position < len(self.held):
            self.held[position].append(number)
            if is_over:
                del self.held[position]

    @rule(data=st.data(), times=st.integers(1, 4))
    def remove(self, data, times):
        """Remove existing entries."""
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
        """Take a checkpoint, while records are processed."""
        if len(self.pending) > 2:
            return
        self.next_id += 1
        expected = self.content()
        writes = [
            subtask.take(self.next_id, is_full=is_full and self.next_id % 4 == 0)
            for subtask in self.subtasks
        ]
        if later:
            for position in range(len(self.held)):
                self.change_what_is_held(position, 1, False)
            self.change("objects", {key}, None, 1)
            self.of(key).state("value", key).clear()
            self.of(key).timer(1).remove(KEYS.identity(key))
        states = [write() for write in writes]
        self.pending[self.next_id] = states, len(self.subtasks), expected
        for state in states:
            if self.registry.report(self.next_id, TaskStateSnapshot({OPERATOR: state})):
                # A later, completed checkpoint has subsumed this one.
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
        """Restart from the last complete checkpoint, with other subtasks."""
        for index in list(self.writing):
            self.end_whole_now(index)
        for checkpoint_id in list(self.pending):
            self.abort(checkpoint_id)
        self.end_subtasks()
        self.held.clear()
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
            subtask.keyed.dispose()

    def restore(self, subtasks, checkpoint_id, states):
        handles = tuple(handle for state in states for handle in state.managed_keyed)
        for subtask in subtasks:
            snapshot = OperatorSnapshotReader(subtask.groups, FILES).read(
                checkpoint_id, OperatorSubtaskState(handles)
            )
            subtask.keyed.restore(
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
        """Check the restored checkpoint, also through a reader of the state."""
        checkpoint_id, states, parallelism, expected = self.complete
        others = self.new_subtasks(parallelism % 3 + 1)
        try:
            self.restore(others, checkpoint_id, states)
            found = {at: v for other in others for at, v in content(other.backend).items()}
            assert found == expected
        finally:
            for other in others:
                other.keyed.dispose()
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
def test_a_restore_returns_the_state_of_the_checkpoint(backend, examples):
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
