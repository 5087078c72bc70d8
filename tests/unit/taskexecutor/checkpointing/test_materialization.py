"""F15: keyed state is materialized from time to time, which starts its log afresh."""

import pytest
from penstock.errors import StateBackendError
from penstock.taskexecutor.checkpointing import snapshot_slices
from penstock.taskexecutor.checkpointing.materialization import PeriodicMaterialization
from penstock.taskexecutor.checkpointing.snapshot_slices import SnapshotSlices
from penstock.taskexecutor.task.mailbox import SLICES, Mailbox
from support.changelog_subtasks import BACKENDS, OPERATOR, fill, names, take_log, taken


class Task:
    """A task from the view of a `PeriodicMaterialization`."""

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
                OPERATOR: subtask.keyed.open_snapshot(subtask.grouping, id_)
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
def test_a_whole_that_cannot_be_written(subtask, backend, monkeypatch):
    """A failure is retried at each interval; after max-failures-allowed the task fails."""
    # All of it is serialised when a timer fires: on a busy machine some would be left after 2 ms.
    monkeypatch.setattr(snapshot_slices, "SLICE_NS", 1 << 60)
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
    with pytest.raises(StateBackendError, match=r"task: .* failed 3 times in a row"):
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


def test_files_of_no_checkpoint_are_removed_with_the_task(subtask):
    one = subtask()
    take_log(one)
    there = set(one.folder.glob("*/*"))
    one.begin_whole()()
    assert set(one.folder.glob("*/*")) > there
    one.states.close()
    assert set(one.folder.glob("*/*")) == there


@pytest.mark.parametrize("ends", ["before it is written", "before the task hears of it"])
def test_files_written_while_the_task_ends_are_removed(subtask, ends):
    mailbox, late = Mailbox(lambda: None), []
    one = subtask()
    task = Task(one, lambda action: mailbox.execute(action, SLICES), write=late.append)
    take_log(one)
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
    """Once it is reported it belongs to the JobMaster: metadata that names it may exist."""
    one = subtask()
    task = Task(one)
    take_log(one)
    there = set(one.folder.glob("*/*"))
    task.fire()
    (whole,) = set(one.folder.glob("*/*")) - there
    write = one.take(3)
    if is_written:
        write()
    one.states.aborted(3)
    assert whole.exists() is is_written


def test_a_whole_may_end_while_a_slice_waits(subtask):
    """The slice then runs, as a writing thread would, and must not fail."""
    mailbox = Mailbox(lambda: None)

    def execute(action):
        mailbox.execute(action, SLICES)

    one = subtask()
    task = Task(one, execute)
    take_log(one)
    execute(lambda: None)
    task.fire()
    fill(one, [8])
    assert "3/log" in names(taken(one, 3, completes=False))
    one.states.aborted(3)
    mailbox.run_pending()
    assert names(taken(one, 4)) == ["4/log", "4/whole"]
