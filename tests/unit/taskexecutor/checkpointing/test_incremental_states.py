"""F10: a checkpoint writes changes and refers to complete checkpoints for the rest.

Goal: a subtask reads the same from an incremental checkpoint as from a full one, and a file is
deleted when it is unused.  Method: a keyed sum under random elements; every snapshot is written
both ways, checkpoints complete, are aborted or overtake each other.
"""

import random
from pathlib import Path

import pytest
from penstock.checkpoint_storage.disposal import discard_streams, discard_task_state
from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.checkpoint_storage.handles import OperatorSubtaskState, TaskStateSnapshot
from penstock.checkpoint_storage.streams import StateOutputStream
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.graph.key_groups import key_group
from penstock.jobmaster.checkpointing.shared_state_registry import SharedStateRegistry
from penstock.serialization.pure.key_hash import key_hash
from penstock.taskexecutor.checkpointing.incremental_states import IncrementalStates
from penstock.taskexecutor.checkpointing.snapshot_format import OperatorSnapshotReader
from penstock.taskexecutor.state.snapshots.snapshot import serialised
from penstock.taskexecutor.state.snapshots.snapshot_contents import entries_of
from penstock.testing import KeyedOneInputStreamOperatorTestHarness

OPERATOR = b"o" * 16
FILES = FileSystems({})
GROUPS = 16
KEY_KIND = "LONG"


def keyed_sum():
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection(
        [(1, 1)], Types.TUPLE([Types.LONG(), Types.LONG()])
    )
    operator = stream.key_by(lambda v: v[0], Types.LONG()).sum(1).transformation.operator
    return KeyedOneInputStreamOperatorTestHarness(
        operator,
        lambda value: value[0],
        key_type=Types.LONG(),
        max_parallelism=GROUPS,
        configuration={"execution.checkpointing.incremental": "true"},
    )


class World:
    """A task, its checkpoints in a folder, and the JobMaster's registry."""

    def __init__(self, folder, harness, compresses=False):
        self.folder = Path(folder)
        self.harness = harness
        self.states = IncrementalStates(FILES, compresses=compresses)
        self.registry = SharedStateRegistry()
        self.next_id = 0
        self.refused = 0
        #: Incomplete checkpoints, and retained ones: handle and expected content, by checkpoint.
        self.pending = {}
        self.kept = {}

    def open_stream(self, is_shared):
        folder = self.folder / ("shared" if is_shared else "own")
        folder.mkdir(exist_ok=True)
        return StateOutputStream(LocalFileSystem(), str(folder), inline_threshold_bytes=0)

    def take(self):
        self.next_id += 1
        base = self.states.begin(self.next_id).of(OPERATOR)
        expected = entries_in(self.harness._context.keyed_state.tables)
        snapshot = serialised(self.harness._state.snapshot_state(self.next_id, 0, base))
        self.serialised = contents(snapshot)
        handles, _ = self.states.write(OPERATOR, snapshot, base, self.open_stream)
        self.pending[self.next_id] = handles, expected
        state = TaskStateSnapshot({OPERATOR: OperatorSubtaskState(handles)})
        if self.registry.report(self.next_id, state) is not None:
            self.refused += 1
            self.abort(self.next_id)
        return handles

    def complete(self, checkpoint_id):
        for earlier in [id_ for id_ in self.pending if id_ < checkpoint_id]:
            self.abort(earlier)
        self.kept[checkpoint_id] = self.pending.pop(checkpoint_id)

    def notify(self, checkpoint_id):
        self.states.completed(checkpoint_id)

    def abort(self, checkpoint_id):
        handles, _ = self.pending.pop(checkpoint_id)
        discard_task_state(TaskStateSnapshot({OPERATOR: OperatorSubtaskState(handles)}), FILES)
        discard_streams(self.registry.unregister(checkpoint_id), FILES)
        self.states.aborted(checkpoint_id)

    def subsume(self):
        oldest = min(self.kept)
        del self.kept[oldest]
        discard_streams(self.registry.unregister(oldest), FILES)

    def check(self):
        for checkpoint_id, (handles, expected) in self.kept.items():
            found = OperatorSnapshotReader(range(GROUPS), FILES).read(
                checkpoint_id, OperatorSubtaskState(handles)
            )
            assert contents(found) == expected
        used = {
            stream.path
            for handles, _ in (*self.kept.values(), *self.pending.values())
            for handle in handles
            for stream in handle.shared.values()
        }
        there = {str(path) for path in self.folder.glob("shared/*")}
        assert there == used


def entries_in(tables):
    groups = {}
    for name, table in tables.items():
        for entry in table:
            group = key_group(key_hash(KEY_KIND)(entry[1]), GROUPS)
            groups.setdefault((name, group), []).append(entry)
    return {at: sorted(entries) for at, entries in groups.items()}


def contents(snapshot):
    return {
        (name, group): sorted(entries_of(data))
        for name, (_, groups) in snapshot.keyed.items()
        for group, data in groups.items()
    }


@pytest.mark.parametrize("seed", range(12))
def test_incremental_checkpoints_hold_what_whole_ones_do(tmp_path, seed):
    chance = random.Random(seed)
    with keyed_sum() as harness:
        world = World(tmp_path, harness, compresses=seed % 2 == 0)
        for _ in range(40):
            for _ in range(chance.choice([0, 0, 1, 3, 30])):
                harness.process_element((chance.randrange(60), 1))
            world.take()
            if chance.random() < 0.3:
                world.take()  # a second one is pending
            while world.pending and chance.random() < 0.8:
                checkpoint_id = chance.choice(list(world.pending))
                if chance.random() < 0.3:
                    world.abort(checkpoint_id)
                    continue
                world.complete(checkpoint_id)
                while len(world.kept) > chance.choice([1, 1, 3]):
                    world.subsume()
                if chance.random() < 0.8:
                    world.notify(checkpoint_id)
                world.check()
        assert world.refused == 0


def test_only_changed_groups_are_written(tmp_path):
    with keyed_sum() as harness:
        world = World(tmp_path, harness)
        for key in range(1000):
            harness.process_element((key, 1))
        (first,) = world.take()
        world.complete(1)
        world.notify(1)
        harness.process_element((7, 1))
        (second,) = world.take()
        assert second.checkpointed_bytes < first.checkpointed_bytes / GROUPS * 2
        assert list(second.shared) == ["1", "2"]
        assert len(world.serialised) == 1, "the group of the key alone"
        world.complete(2)
        world.notify(2)
        (third,) = world.take()
        assert third.checkpointed_bytes == 0
        assert world.serialised == {}
        assert third.shared == second.shared
        world.complete(3)
        world.subsume()
        world.subsume()
        world.check()


def test_the_first_checkpoint_of_an_attempt_is_whole(tmp_path):
    """The new attempt does not know the files of an earlier attempt."""
    with keyed_sum() as harness:
        harness.process_element((1, 1))
        snapshot = harness.snapshot(1)
    new = keyed_sum()
    new.initialize_state(snapshot)
    with new:
        world = World(tmp_path, new)
        world.next_id = 1
        (handle,) = world.take()
        assert list(handle.shared) == ["2"]


def test_without_state_there_is_no_handle(tmp_path):
    with keyed_sum() as harness:
        assert World(tmp_path, harness).take() == ()
    assert not list(tmp_path.glob("*/*"))


def test_failures_half_way_leave_no_file(tmp_path):
    with keyed_sum() as harness:
        world = World(tmp_path, harness)
        harness.process_element((1, 1))
        running = harness.begin_snapshot(1)

        def full_disk(is_shared):
            if is_shared:
                return world.open_stream(True)
            raise OSError("no space left")

        with pytest.raises(OSError, match="no space"):
            world.states.write(OPERATOR, serialised(running), None, full_disk)
        assert not list(tmp_path.glob("shared/*"))


def test_few_streams_are_referred_to(tmp_path):
    """The streams with the fewest groups are written again, a few at a time."""
    with keyed_sum() as harness:
        world = World(tmp_path, harness)
        for key in range(1000):
            harness.process_element((key, 1))
        for key in range(200):
            harness.process_element((key, 1))
            (handle,) = world.take()
            assert len(handle.shared) <= 16
            world.complete(world.next_id)
            world.notify(world.next_id)
            if len(world.kept) > 1:
                world.subsume()
            world.check()


def test_a_checkpoint_beside_another_is_whole(tmp_path):
    """Files that the other does not refer to are deleted when it completes."""
    with keyed_sum() as harness:
        world = World(tmp_path, harness)
        harness.process_element((1, 1))
        world.take()
        world.complete(1)
        world.notify(1)
        assert list(world.take()[0].shared) == ["1"]
        assert list(world.take()[0].shared) == ["3"]
        world.abort(2)
        world.abort(3)
        assert list(world.take()[0].shared) == ["1"]


def test_a_full_checkpoint_refers_to_no_other(tmp_path):
    """The user requests it, or the job started from files that it does not own."""
    with keyed_sum() as harness:
        world = World(tmp_path, harness)
        harness.process_element((1, 1))
        world.take()
        world.complete(1)
        world.notify(1)
        assert world.states.begin(2, is_full=True).of(OPERATOR).checkpoint_id == -1
