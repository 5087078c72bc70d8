"""F7: a state backend's work after a snapshot runs in slices, and blocks nothing.

Method: a `SubtaskCheckpointCoordinator` with one operator; the test fires its timers.
"""

from collections import deque
from types import SimpleNamespace

import pytest
from penstock.network.events import CheckpointBarrier
from penstock.rpc.messages import AcknowledgeCheckpoint
from penstock.taskexecutor.checkpointing.barrier_handler import AlignmentFigures
from penstock.taskexecutor.checkpointing.subtask_coordinator import SubtaskCheckpointCoordinator
from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot


class FollowUp:
    """Needs a number of slices, then fails if it has a failure."""

    def __init__(self, slices, failure=None):
        self.slices = slices
        self.failure = failure
        self.is_closed = False

    def advance(self, deadline_ns):
        if self.slices == 0 and self.failure is not None:
            raise self.failure
        self.slices -= 1
        return self.slices < 0

    def close(self):
        self.is_closed = True


class Snapshot:
    """An empty snapshot of an operator."""

    def __init__(self, checkpoint_id, follow_up):
        self.checkpoint_id = checkpoint_id
        self.follow_up = lambda: follow_up

    def advance(self, deadline_ns):
        return True

    def is_little(self, limit_bytes):
        return True

    def database_files(self):
        return None

    def finished(self):
        return OperatorSnapshot(self.checkpoint_id)

    def close(self): ...
    def release(self): ...


class Task:
    """The operator, the timers and the reports."""

    def __init__(self):
        self.timers = deque()
        self.reports = []
        self.follow_up = None
        environment = SimpleNamespace(
            configuration={},
            partitions=[],
            gates=[],
            task_name="task",
            job_id=b"j",
            attempt_id=b"a",
            local_state=None,
        )
        self.coordinator = SubtaskCheckpointCoordinator(
            self,
            environment,
            None,
            self.reports.append,
            None,
            lambda delay_ms, action: self.timers.append((delay_ms, action)),
            head_id=b"o" * 16,
            outputs=[],
            unconsumed=None,
            is_finished=False,
        )

    def prepare_snapshot_pre_barrier(self, checkpoint_id): ...

    def snapshot_state(self, checkpoint_id, timestamp_ms, base_of):
        return {b"o" * 16: Snapshot(checkpoint_id, self.follow_up)}

    def snapshot(self, number, follow_up=None):
        self.follow_up = follow_up
        self.coordinator.take_snapshot(CheckpointBarrier(number, 0), AlignmentFigures())

    def fire(self):
        """Let time pass, in which records could be processed."""
        delay_ms, action = self.timers.popleft()
        assert delay_ms > 0
        action()

    def reported(self):
        assert all(isinstance(report, AcknowledgeCheckpoint) for report in self.reports)
        return [report.checkpoint_id for report in self.reports]


def test_no_checkpoint_waits_for_it():
    task = Task()
    follow_up = FollowUp(slices=3)
    task.snapshot(1, follow_up)
    assert task.reported() == [1]
    task.fire()
    task.snapshot(2)
    assert task.reported() == [1, 2]
    assert follow_up.slices == 2
    while task.timers:
        task.fire()
    assert follow_up.slices == -1


def test_slices_run_one_at_a_time_with_records_between_them():
    task = Task()
    parts = [FollowUp(slices=2), FollowUp(slices=1)]
    for number, part in enumerate(parts, 1):
        task.snapshot(number, part)
    left = []
    while task.timers:
        assert len(task.timers) == 1
        task.fire()
        left.append([part.slices for part in parts])
    assert left == [[1, 1], [0, 1], [-1, 1], [-1, 0], [-1, -1]]


def test_it_ends_with_the_task():
    task = Task()
    follow_up = FollowUp(slices=3)
    task.snapshot(1, follow_up)
    task.coordinator.close()
    assert follow_up.is_closed
    left = follow_up.slices
    while task.timers:
        task.fire()
    assert follow_up.slices == left


def test_its_failure_is_one_of_the_task():
    """For example, that of a full disk."""
    task = Task()
    task.snapshot(1, FollowUp(slices=0, failure=OSError("no room")))
    with pytest.raises(OSError, match="no room"):
        task.fire()
    assert task.reported() == [1]
