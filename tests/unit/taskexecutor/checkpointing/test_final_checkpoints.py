"""F14, D5: a finished source waits for the checkpoint that holds its end (FLIP-147).

Method: `TaskCheckpoints` of a source without operators' state, as a task drives it.
"""

import io
import queue
import shutil
import threading
from types import SimpleNamespace

import pytest
from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.network.events import Alignment, CheckpointBarrier, SnapshotKind, StopMode
from penstock.rpc.messages import (
    AcknowledgeCheckpoint,
    AwaitFinalCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from penstock.taskexecutor.checkpointing.task_checkpoints import TaskCheckpoints
from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot
from penstock.taskexecutor.state.snapshots.snapshot_contents import DatabaseFolder
from support.patience import PATIENCE_S

INTERVAL = {"execution.checkpointing.interval": "1 s"}


class Source:
    """A source's checkpoints, its chain and its JobMaster."""

    def __init__(self, configuration, files=None):
        self.reports = queue.Queue()
        self.log = []
        self.hears_of_completion = False
        environment = SimpleNamespace(
            configuration=configuration,
            restored=None,
            partitions=[],
            gates=[],
            task_name="source",
            job_id=b"j",
            attempt_id=b"a",
            local_state=None,
            files=files,
            report_checkpoint=self.reports.put,
        )
        config = SimpleNamespace(operators=[SimpleNamespace(id=b"o" * 16, network_outputs=())])
        self.checkpoints = TaskCheckpoints(
            config, self, environment, None, lambda delay, action: None, lambda action: action()
        )

    # The operators.

    def prepare_snapshot_pre_barrier(self, checkpoint_id):
        self.log.append(f"prepare {checkpoint_id}")

    def snapshot_state(self, checkpoint_id, timestamp_ms, base_of):
        self.log.append(f"snapshot {checkpoint_id}")
        return {}

    def notify_checkpoint_complete(self, checkpoint_id):
        self.log.append(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.log.append(f"aborted {checkpoint_id}")

    # Actions of the tests.

    def trigger(self, number, kind=SnapshotKind.CHECKPOINT):
        self.checkpoints.handle(
            TriggerCheckpoint((b"a",), number, 0, int(kind), int(Alignment.ALIGNED), 0)
        )

    def complete(self, number):
        self.checkpoints.handle(NotifyCheckpointComplete((b"a",), number))

    def abort(self, number, latest=-1):
        self.checkpoints.handle(NotifyCheckpointAborted((b"a",), number, latest))

    def report(self):
        return self.reports.get(timeout=PATIENCE_S)


@pytest.fixture
def opened():
    sources = []

    def open_source(configuration=INTERVAL, files=None):
        sources.append(Source(configuration, files))
        return sources[-1]

    yield open_source
    for source in sources:
        source.checkpoints.close()


def test_a_task_wakes_only_for_notifications_that_it_acts_on(opened):
    """A task without listeners for a completion does not wake up for it."""
    source = opened()
    complete = NotifyCheckpointComplete((b"a",), 1)
    others = [
        TriggerCheckpoint((b"a",), 2, 0, int(SnapshotKind.CHECKPOINT), int(Alignment.ALIGNED), 0),
        NotifyCheckpointAborted((b"a",), 2, 1),
    ]
    assert source.checkpoints.notes(complete)
    assert not any(map(source.checkpoints.notes, others))
    source.hears_of_completion = True
    assert not source.checkpoints.notes(complete)
    source.hears_of_completion = False
    source.checkpoints.begin_end()
    assert not source.checkpoints.notes(complete), "it may be what the task waits for"


@pytest.mark.parametrize(
    "configuration",
    [
        {"execution.checkpointing.incremental": "true"},
        {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"},
    ],
)
def test_a_task_with_increments_is_woken_for_completions(opened, configuration):
    source = opened({**INTERVAL, **configuration})
    assert not source.checkpoints.notes(NotifyCheckpointComplete((b"a",), 1))


def test_a_task_that_a_savepoint_stops_is_woken_for_its_completion(opened):
    source = opened()
    source.checkpoints.begin_end()
    source.trigger(1, SnapshotKind.SAVEPOINT_TERMINATE)
    assert not source.checkpoints.notes(NotifyCheckpointComplete((b"a",), 1))


def test_a_checkpoint_from_before_the_attempt_holds_no_end_of_it(opened):
    """An abort of a later checkpoint names the earlier one, which does not contain the end."""
    source = opened()
    source.checkpoints.begin_end()
    source.abort(3, latest=2)
    assert not source.checkpoints.may_end
    source.trigger(4)
    source.complete(4)
    assert source.checkpoints.may_end


@pytest.mark.parametrize("configuration", [
    {},
    {**INTERVAL, "execution.checkpointing.checkpoints-after-tasks-finish": "false"},
    {**INTERVAL, "execution.runtime-mode": "BATCH"},
])  # fmt: skip
def test_nobody_waits_where_none_is_asked_for(opened, configuration):
    source = opened(configuration)
    source.checkpoints.begin_end()
    assert source.checkpoints.may_end
    assert source.reports.empty()


def test_the_end_is_in_the_next_checkpoint(opened):
    """The task requests a checkpoint, takes it as finished, and ends once it is complete."""
    source = opened()
    assert not source.checkpoints.may_end, "its input goes on"
    source.checkpoints.begin_end()
    assert isinstance(source.report(), AwaitFinalCheckpoint)
    assert not source.checkpoints.may_end
    source.trigger(1)
    assert isinstance(source.report(), AcknowledgeCheckpoint)
    assert source.log == ["prepare 1", "snapshot 1"]
    assert not source.checkpoints.may_end, "it is not complete"
    source.complete(1)
    assert source.checkpoints.may_end
    assert source.log[-1] == "complete 1", "what it has pre-committed is committed first"


def test_a_checkpoint_from_before_the_end_is_not_enough(opened):
    source = opened()
    source.trigger(1)
    assert isinstance(source.report(), AcknowledgeCheckpoint)
    source.checkpoints.begin_end()
    assert isinstance(source.report(), AwaitFinalCheckpoint)
    source.complete(1)
    assert not source.checkpoints.may_end
    source.trigger(2)
    source.complete(2)
    assert source.checkpoints.may_end


def test_a_later_checkpoint_ends_the_task_when_the_first_is_aborted(opened):
    source = opened()
    source.checkpoints.begin_end()
    source.trigger(1)
    source.abort(1)
    assert not source.checkpoints.may_end
    source.trigger(2)
    source.complete(2)
    assert source.checkpoints.may_end
    assert "aborted 1" in source.log


def test_word_of_an_abort_may_bring_that_of_a_completion(opened):
    """Notifications may be lost; each one names the latest completed checkpoint."""
    source = opened()
    source.checkpoints.begin_end()
    source.trigger(1)
    source.trigger(2)
    source.abort(2, latest=1)
    assert source.checkpoints.may_end
    assert source.log[-2:] == ["complete 1", "aborted 2"]


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        (SnapshotKind.SAVEPOINT_SUSPEND, StopMode.NO_DRAIN),
        (SnapshotKind.SAVEPOINT_TERMINATE, StopMode.DRAIN),
    ],
)
def test_a_savepoint_that_stops_the_job_is_taken_at_the_end(opened, kind, mode):
    source = opened()
    source.trigger(1, kind)
    assert source.checkpoints.stop_mode is mode
    assert source.log == [], "elements that are under way come first"
    source.checkpoints.begin_end()
    assert source.log == ["prepare 1", "snapshot 1"]
    assert isinstance(source.report(), AcknowledgeCheckpoint)
    assert not source.checkpoints.may_end
    source.complete(1)
    assert source.checkpoints.may_end


def test_a_second_stop_with_savepoint_is_declined(opened):
    source = opened()
    source.trigger(1, SnapshotKind.SAVEPOINT_SUSPEND)
    source.trigger(2, SnapshotKind.SAVEPOINT_TERMINATE)
    declined = source.report()
    assert isinstance(declined, DeclineCheckpoint)
    assert (declined.checkpoint_id, declined.reason) == (2, "DECLINED_TASK_CLOSING")
    assert source.checkpoints.stop_mode is StopMode.NO_DRAIN


def test_a_savepoint_that_stops_a_job_whose_input_has_ended(opened):
    """The savepoint is taken at once; then the source may end."""
    source = opened()
    source.checkpoints.begin_end()
    assert isinstance(source.report(), AwaitFinalCheckpoint)
    source.trigger(1, SnapshotKind.SAVEPOINT_TERMINATE)
    assert source.log == ["prepare 1", "snapshot 1"]
    source.complete(1)
    assert source.checkpoints.may_end


@pytest.mark.parametrize(("size", "writes"), [(None, [3000]), ("1 kb", [1500, 1500])])
def test_state_goes_to_its_file_in_pieces_of_the_size_that_is_set(tmp_path, opened, size, writes):
    options = {
        "execution.checkpointing.dir": str(tmp_path),
        "execution.checkpointing.data-inline-threshold": "1 kb",
    }
    if size is not None:
        options["execution.checkpointing.write-buffer-size"] = size
    written = []

    class File(io.BytesIO):
        def write(self, data):
            written.append(len(data))
            return len(data)

    files = SimpleNamespace(of=lambda path: SimpleNamespace(create=lambda path: File()))
    source = opened(options, files)
    barrier = CheckpointBarrier(1, 0, SnapshotKind.CHECKPOINT)
    stream = source.checkpoints._open_stream(barrier, is_shared=False)
    stream.write(bytes(1500))
    stream.write(bytes(1500))
    assert stream.handle().size == 3000
    assert [size for size in written if size] == writes


class Database:
    """The snapshot of a database with some files of rows, at the time of writing."""

    checkpoint_id = 1

    def __init__(self, folder):
        self.folder = folder

    def advance(self, deadline_ns):
        return True

    def is_little(self, limit_bytes):
        return False

    def database_files(self):
        return DatabaseFolder(str(self.folder), {}, range(4))

    def finished(self):
        return OperatorSnapshot(1)

    def follow_up(self):
        return None

    def close(self): ...
    def release(self): ...


class Keyed(Database):
    """A snapshot with keyed state, or one that is aborted and then cannot be written."""

    def __init__(self, given_up=None):
        self.given_up = given_up

    def database_files(self):
        return None

    def finished(self):
        if self.given_up is not None:
            self.given_up()
            raise OSError("no room")
        return OperatorSnapshot(1, keyed={"state": ("value", {0: b"entries"})})


@pytest.mark.parametrize("kind", ["execution.checkpointing.incremental", "state.changelog.enabled"])
def test_files_of_one_operator_are_removed_when_another_fails(tmp_path, opened, kind):
    """Even if the checkpoint is aborted earlier: no report will name that file."""
    checkpoints = tmp_path / "checkpoints"
    for name in ("chk-1", "shared"):
        (checkpoints / b"j".hex() / name).mkdir(parents=True)
    options = {
        kind: "true",
        "state.changelog.storage": "filesystem",
        "state.changelog.dstl.dfs.base-path": str(tmp_path / "log"),
        "execution.checkpointing.dir": str(checkpoints),
        "execution.checkpointing.data-inline-threshold": "0 b",
    }
    source = opened(options, FileSystems({}))
    seen = queue.Queue()

    def given_up():
        seen.put([path for path in checkpoints.rglob("*") if path.is_file()])
        source.abort(1)

    source.snapshot_state = lambda *_: {b"1" * 16: Keyed(), b"2" * 16: Keyed(given_up)}
    source.trigger(1)
    assert seen.get(timeout=PATIENCE_S)
    source.checkpoints.close()
    for thread in threading.enumerate():
        if thread.name == "source checkpoints":
            thread.join(PATIENCE_S)
    assert not [path for path in checkpoints.rglob("*") if path.is_file()]


def test_a_checkpoint_whose_directory_is_gone_is_declined_without_a_warning(
    tmp_path, opened, caplog
):
    """The driver, which warns of failed checkpoints, has aborted it and deletes before it tells."""
    options = {
        "execution.checkpointing.dir": str(tmp_path / "deleted"),
        "execution.checkpointing.data-inline-threshold": "0 b",
    }
    source = opened(options, FileSystems({}))
    source.snapshot_state = lambda *_: {b"o" * 16: Keyed()}
    source.trigger(1)
    report = source.reports.get(timeout=PATIENCE_S)
    assert isinstance(report, DeclineCheckpoint)
    assert "FileNotFoundError" in report.detail
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_no_file_is_begun_of_a_checkpoint_that_is_given_up(tmp_path, opened, monkeypatch):
    """The job has ended, and its driver has deleted its directory, which must not reappear.

    Method: the job ends while the first of the files is being written.
    """
    checkpoints, database = tmp_path / "checkpoints", tmp_path / "database"
    database.mkdir()
    for name in "abc":
        (database / f"{name}.sst").write_bytes(b"rows")
    options = {
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": str(checkpoints),
        "execution.checkpointing.data-inline-threshold": "0 b",
        "state.backend.rocksdb.checkpoint.transfer.thread.num": "1",
    }
    source = opened(options, FileSystems({}))
    source.snapshot_state = lambda *_: {b"o" * 16: Database(database)}
    begun, create = [], LocalFileSystem.create

    def then_ends(self, path):
        file = create(self, path)
        begun.append(path)
        source.checkpoints.close()
        shutil.rmtree(checkpoints)
        return file

    monkeypatch.setattr(LocalFileSystem, "create", then_ends)
    source.trigger(1)
    for thread in threading.enumerate():
        if thread.name == "source checkpoints":
            thread.join(PATIENCE_S)
    assert len(begun) == 1
    assert not checkpoints.exists()
