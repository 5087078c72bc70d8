"""F10: a checkpoint writes what has changed and refers to complete ones for the rest.

Goal: what a subtask reads of an incremental checkpoint is what a whole one would hold, and a file
goes when nobody uses it.  Method: a keyed sum under random elements; every snapshot is written both
ways, checkpoints complete, are aborted or pass the next one.
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
from penstock.jobmaster.checkpointing.shared_state_registry import SharedStateRegistry
from penstock.taskexecutor.checkpointing.incremental_states import IncrementalStates
from penstock.taskexecutor.checkpointing.snapshot_format import OperatorSnapshotReader
from penstock.taskexecutor.state.snapshot import entries_of, serialised
from penstock.testing import KeyedOneInputStreamOperatorTestHarness

OPERATOR = b"o" * 16
FILES = FileSystems({})
GROUPS = 16


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
        #: What is not complete yet, and what is kept: handle and expected content, by checkpoint.
        self.pending = {}
        self.kept = {}

    def open_stream(self, is_shared):
        folder = self.folder / ("shared" if is_shared else "own")
        folder.mkdir(exist_ok=True)
        return StateOutputStream(LocalFileSystem(), str(folder), inline_threshold_bytes=0)

    def take(self):
        self.next_id += 1
        running = self.harness.begin_snapshot(self.next_id)
        snapshot = serialised(running)
        handles, _ = self.states.write(
            OPERATOR, snapshot, running.base_id, running.changed_groups(), self.open_stream
        )
        self.pending[self.next_id] = handles, contents(snapshot)
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
        if self.states.completed(checkpoint_id):
            self.harness._context.keyed_state.base_on(checkpoint_id)

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
                world.take()  # a second one is under way
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
        # Word of completion was lost at times, as it never is for good.
        assert world.refused < world.next_id / 2


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
        world.complete(2)
        world.notify(2)
        (third,) = world.take()
        assert third.checkpointed_bytes == 0
        assert third.shared == second.shared
        world.complete(3)
        world.subsume()
        world.subsume()
        world.check()


def test_the_first_checkpoint_of_an_attempt_is_whole(tmp_path):
    """It knows nothing of what an earlier attempt has written."""
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


def test_what_failed_half_way_leaves_no_file(tmp_path):
    with keyed_sum() as harness:
        world = World(tmp_path, harness)
        harness.process_element((1, 1))
        running = harness.begin_snapshot(1)

        def full_disk(is_shared):
            if is_shared:
                return world.open_stream(True)
            raise OSError("no space left")

        with pytest.raises(OSError, match="no space"):
            world.states.write(OPERATOR, serialised(running), None, set(), full_disk)
        assert not list(tmp_path.glob("shared/*"))
