"""FileSink: part files from their first byte to their names, through checkpoints and failures.

Method: the writer and its committer, in harnesses; a failure is a harness that is closed before its
input ends, and a new one that starts with a snapshot.
"""

import pytest
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import BucketAssigner, RollingPolicy
from penstock.errors import ConfigurationError, SinkError
from penstock.graph import operators
from penstock.taskexecutor.task.blame import blamed_position
from penstock.testing import OneInputStreamOperatorTestHarness
from support.full_disk import disk_for

CHECKPOINTS = {"execution.checkpointing.interval": "1 h"}


def file_descriptor(folder, policy=None, **arguments):
    defaults = {
        "base_path": str(folder),
        "encoder": Encoder.simple_string_encoder(),
        "bucket_assigner": BucketAssigner.base_path_bucket_assigner(),
        "rolling_policy": policy or RollingPolicy.default_rolling_policy(),
    }
    return operators.FileSink(**defaults | arguments)


class Sink:
    """A writer and its committer, which take their snapshots together."""

    def __init__(self, folder, policy=None, restored=None, configuration=CHECKPOINTS, **arguments):
        self.folder = folder
        self.writer = OneInputStreamOperatorTestHarness(
            file_descriptor(folder, policy, **arguments), configuration=configuration
        )
        self.committer = OneInputStreamOperatorTestHarness(
            operators.FileCommitter(), configuration=configuration
        )
        of_writer, of_committer = restored or (None, None)
        try:
            for harness, snapshot in ((self.committer, of_committer), (self.writer, of_writer)):
                harness.initialize_state(snapshot)
                harness.open()
        except BaseException:
            self.close()
            raise
        self.sent = 0

    def write(self, *values):
        for value in values:
            self.writer.process_element(value)

    def hand_over(self):
        for committable in self.writer.values[self.sent :]:
            self.committer.process_element(committable)
        self.sent = len(self.writer.values)

    def snapshot(self, checkpoint_id):
        of_writer = self.writer.snapshot(checkpoint_id)
        self.hand_over()
        return of_writer, self.committer.snapshot(checkpoint_id)

    def complete(self, checkpoint_id):
        self.committer.notify_checkpoint_complete(checkpoint_id)

    def end(self):
        self.writer.end_input()
        self.hand_over()
        self.committer.end_input()

    def close(self):
        self.writer.close()
        self.committer.close()


def hidden(folder):
    return sorted(path.read_text() for path in folder.rglob(".*"))


def visible(folder):
    return sorted(path.read_text() for path in folder.rglob("part-*"))


def test_a_file_gets_its_name_when_a_checkpoint_with_its_end_is_complete(tmp_path):
    sink = Sink(tmp_path, RollingPolicy.on_checkpoint_rolling_policy(), part_suffix=".txt")
    sink.write("a", "b")
    (path,) = tmp_path.iterdir()
    assert path.name.startswith(".part-")
    assert "-0.txt.inprogress." in path.name
    sink.snapshot(1)
    sink.write("c")
    assert hidden(tmp_path) == ["", "a\nb\n"]
    sink.complete(1)
    assert (hidden(tmp_path), visible(tmp_path)) == ([""], ["a\nb\n"])
    (path,) = tmp_path.glob("part-*")
    assert path.name.endswith("-0.txt")
    sink.close()


def test_a_file_may_stay_open_across_checkpoints(tmp_path):
    sink = Sink(tmp_path)
    sink.write("a")
    sink.snapshot(1)
    sink.complete(1)
    assert (hidden(tmp_path), visible(tmp_path)) == (["a\n"], [])
    sink.write("b")
    sink.end()
    sink.snapshot(2)
    assert visible(tmp_path) == []
    sink.complete(2)
    assert (hidden(tmp_path), visible(tmp_path)) == ([], ["a\nb\n"])


@pytest.mark.parametrize("rolled", [False, True], ids=["in progress", "ended since"])
def test_bytes_written_since_the_checkpoint_are_cut_off(tmp_path, rolled):
    """Also if the file was closed since, and a checkpoint that includes its end failed."""
    sink = Sink(tmp_path, RollingPolicy.default_rolling_policy(part_size=4))
    sink.write("a")
    restored = sink.snapshot(1)
    sink.write("b", "c", *(["d"] if rolled else []))
    if rolled:
        sink.snapshot(2)
    sink.close()
    for _ in range(2):
        # Twice: the second attempt also fails, before its first checkpoint.
        sink = Sink(tmp_path, restored=restored)
        sink.write("x")
        sink.close()
    sink = Sink(tmp_path, restored=restored)
    sink.write("y")
    sink.end()
    sink.snapshot(3)
    sink.complete(3)
    assert visible(tmp_path) == ["a\ny\n"]


def test_files_are_committed_when_the_job_restarts_from_their_checkpoint(tmp_path):
    """The notification's receiver no longer exists; committing again is harmless."""
    sink = Sink(tmp_path, RollingPolicy.on_checkpoint_rolling_policy())
    sink.write("a")
    restored = sink.snapshot(1)
    sink.close()
    assert visible(tmp_path) == []
    for _ in range(2):
        sink = Sink(tmp_path, restored=restored)
        assert visible(tmp_path) == ["a\n"]
        sink.close()


def test_a_committed_file_may_be_moved_away(tmp_path, caplog):
    sink = Sink(tmp_path, RollingPolicy.on_checkpoint_rolling_policy())
    sink.write("a")
    restored = sink.snapshot(1)
    sink.complete(1)
    sink.close()
    (committed,) = tmp_path.iterdir()
    committed.unlink()
    Sink(tmp_path, restored=restored).close()
    assert f"nor {committed} exists any more" in caplog.text


def test_a_pending_file_that_lost_its_end_is_no_whole_file(tmp_path):
    sink = Sink(tmp_path, RollingPolicy.on_checkpoint_rolling_policy())
    sink.write("a")
    sink.snapshot(1)
    (path,) = tmp_path.iterdir()
    path.write_text("")
    with pytest.raises(SinkError, match="it has 0 bytes, but had 2 when it was closed"):
        sink.complete(1)
    assert visible(tmp_path) == []


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda path: path.write_text("a"), "it has 1 bytes, but had 2 when the checkpoint"),
        (
            lambda path: path.unlink(),
            "the file does not exist, and neither does part-.*all workers must reach",
        ),
    ],
    ids=["short", "gone"],
)
def test_a_file_that_cannot_be_gone_on_with_is_named(tmp_path, harm, message):
    sink = Sink(tmp_path)
    sink.write("a")
    restored = sink.snapshot(1)
    sink.close()
    (path,) = tmp_path.iterdir()
    harm(path)
    with pytest.raises(SinkError, match=message) as caught:
        Sink(tmp_path, restored=restored)
    assert str(path) in str(caught.value)


def test_a_job_that_skips_a_damaged_checkpoint_keeps_its_published_files(tmp_path, caplog):
    """The data of the file in the checkpoint is not shown twice; later data is shown."""
    sink = Sink(tmp_path)
    sink.write("a")
    restored = sink.snapshot(1)
    sink.write("b")
    sink.end()
    sink.snapshot(2)
    sink.complete(2)
    sink.close()
    (shown,) = tmp_path.iterdir()
    sink = Sink(tmp_path, restored=restored)
    assert f"has committed {shown} since" in caplog.text
    sink.write("b", "c")
    sink.end()
    sink.snapshot(3)
    sink.complete(3)
    assert visible(tmp_path) == ["a\nb\n", "b\nc\n"]


def test_a_failed_attempt_removes_what_no_checkpoint_knows(tmp_path):
    sink = Sink(tmp_path, RollingPolicy.default_rolling_policy(part_size=1))
    sink.write("in a checkpoint")
    sink.snapshot(1)
    sink.write("ended", "in progress")
    assert len(hidden(tmp_path)) == 3
    sink.close()
    assert hidden(tmp_path) == ["in a checkpoint\n"]


def test_a_folder_can_be_written_to_again(tmp_path):
    for _ in range(2):
        sink = Sink(tmp_path, configuration={})
        sink.write("a")
        sink.end()
        sink.close()
    assert visible(tmp_path) == ["a\n", "a\n"]


@pytest.mark.parametrize(
    "configuration",
    [{}, {**CHECKPOINTS, "execution.checkpointing.checkpoints-after-tasks-finish": "false"}],
)
def test_without_a_last_checkpoint_files_get_their_names_at_the_end(tmp_path, configuration):
    sink = Sink(
        tmp_path, RollingPolicy.default_rolling_policy(part_size=1), configuration=configuration
    )
    sink.write("a", "b")
    assert visible(tmp_path) == []
    sink.end()
    assert visible(tmp_path) == ["a\n", "b\n"]
    sink.close()


def test_files_roll_by_size_before_the_next_record_and_by_age_and_inactivity(tmp_path):
    """A file ends after it exceeds its limit, as in PyFlink: 4 bytes do not exceed 4."""
    policy = RollingPolicy.default_rolling_policy(4, 100, 50)
    sink = Sink(tmp_path, policy, bucket_check_interval_ms=10)
    sink.write("abc", "d", "e")
    sink.snapshot(1)
    sink.complete(1)
    assert visible(tmp_path) == ["abc\nd\n"]
    sink.writer.set_processing_time(10)
    sink.snapshot(2)
    sink.complete(2)
    assert visible(tmp_path) == ["abc\nd\n"]
    sink.writer.set_processing_time(60)
    sink.snapshot(3)
    sink.complete(3)
    assert visible(tmp_path) == ["abc\nd\n", "e\n"]
    sink.close()


def test_a_checkpoint_ends_a_file_that_is_full(tmp_path):
    sink = Sink(tmp_path, RollingPolicy.default_rolling_policy(part_size=1))
    sink.write("a")
    sink.snapshot(1)
    sink.complete(1)
    assert visible(tmp_path) == ["a\n"]
    sink.close()


def test_files_named_by_subtask_are_counted_on(tmp_path):
    """After a failure, and past existing names."""
    (tmp_path / "part-0-1").write_text("of somebody else\n")
    policy = RollingPolicy.on_checkpoint_rolling_policy()
    sink = Sink(tmp_path, policy, named_by_subtask=True)
    sink.write("a")
    sink.snapshot(1)
    sink.write("b")
    restored = sink.snapshot(2)
    sink.close()
    sink = Sink(tmp_path, policy, restored, named_by_subtask=True)
    sink.write("c")
    sink.snapshot(3)
    sink.complete(3)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "part-0-0": "a\n",
        "part-0-1": "of somebody else\n",
        "part-0-2": "b\n",
        "part-0-3": "c\n",
    }


def test_the_counter_of_all_subtasks_counts_when_their_number_changes(tmp_path):
    from penstock.testing import redistribute

    policy = RollingPolicy.on_checkpoint_rolling_policy()
    held = []
    for counts in (1, 3):
        sink = Sink(tmp_path, policy, named_by_subtask=True)
        for number in range(counts):
            sink.write("a")
            snapshots = sink.snapshot(number)
        held.append(snapshots)
        sink.close()
    (writer,) = redistribute([writer for writer, _ in held], 1)
    sink = Sink(tmp_path, policy, (writer, None), named_by_subtask=True)
    sink.write("b")
    assert any(path.name.startswith(".part-0-3.inprogress.") for path in tmp_path.iterdir())
    sink.close()


def test_the_final_name_of_a_hidden_file_is_not_used_again(tmp_path):
    """Another subtask may own the name, which had finished at the time of the checkpoint."""
    policy = RollingPolicy.on_checkpoint_rolling_policy()
    sink = Sink(tmp_path, policy, named_by_subtask=True)
    writer, _ = sink.snapshot(1)
    finished = Sink(tmp_path, policy, named_by_subtask=True)
    finished.write("of the finished one")
    finished.snapshot(1)
    sink.close()
    sink = Sink(tmp_path, policy, (writer, None), named_by_subtask=True)
    sink.write("a")
    sink.snapshot(2)
    finished.complete(1)
    sink.complete(2)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "part-0-0": "of the finished one\n",
        "part-0-1": "a\n",
    }
    finished.close()
    sink.close()


def test_a_name_that_somebody_has_taken_is_not_taken_from_them(tmp_path):
    sink = Sink(tmp_path, RollingPolicy.on_checkpoint_rolling_policy(), named_by_subtask=True)
    sink.write("a")
    sink.snapshot(1)
    (tmp_path / "part-0-0").write_text("of somebody else\n")
    with pytest.raises(SinkError, match=r"cannot rename .* to part-0-0: File exists"):
        sink.complete(1)
    assert (tmp_path / "part-0-0").read_text() == "of somebody else\n"


class ByLength(BucketAssigner):
    def get_bucket_id(self, element, processing_time_ms):
        return str(len(element))


def test_merged_subtasks_continue_all_files(tmp_path):
    """In each bucket one file is continued, and the others end at their position."""
    from penstock.testing import redistribute

    held = []
    for values in (["a", "bb"], ["c", "ddd"]):
        sink = Sink(tmp_path, bucket_assigner=ByLength())
        sink.write(*values)
        held.append(sink.snapshot(1))
        sink.close()
    writers = redistribute([writer for writer, _ in held], 1)
    committers = redistribute([committer for _, committer in held], 1)
    sink = Sink(tmp_path, restored=(writers[0], committers[0]), bucket_assigner=ByLength())
    sink.write("e", "ff")
    sink.end()
    sink.snapshot(2)
    sink.complete(2)
    assert {path.name: visible(path) for path in tmp_path.iterdir()} == {
        "1": ["a\n", "c\ne\n"],
        "2": ["bb\nff\n"],
        "3": ["ddd\n"],
    }
    assert hidden(tmp_path) == []


def test_folder_that_cannot_be_written_is_named_before_the_first_record(tmp_path):
    occupied = tmp_path / "occupied"
    occupied.touch()
    harness = OneInputStreamOperatorTestHarness(file_descriptor(occupied / "out"))
    with pytest.raises(ConfigurationError, match=r"cannot write into .*occupied/out"):
        harness.open()


def test_a_file_that_existed_may_return(tmp_path):
    """The error allows a restart, unlike that of a folder that could never be written to."""
    out = tmp_path / "out"
    sink = Sink(out)
    snapshot = sink.snapshot(1)
    sink.close()
    out.rmdir()
    out.touch()
    with pytest.raises(SinkError, match=r"cannot write into .*/out"):
        Sink(out, restored=snapshot)


MEGABYTE = 1024 * 1024


@pytest.mark.parametrize("elements", [1, 40], ids=["when it is published", "in the middle"])
def test_a_full_disk_is_named_and_leaves_nothing_that_is_not_whole(tmp_path, elements):
    policy = RollingPolicy.default_rolling_policy(16 * MEGABYTE, 100, 50)
    test = OneInputStreamOperatorTestHarness(file_descriptor(tmp_path, policy))
    test.open()
    for whole in ("0", "1"):
        test.process_element(whole)
        test.set_processing_time(test.operator.now() + 60_000)
    with disk_for(MEGABYTE), pytest.raises(SinkError) as caught:
        for _ in range(elements):
            test.process_element("x" * (3 * MEGABYTE // 2 // elements))
        test.end_input()
    message = str(caught.value)
    assert f"cannot write {tmp_path}/.part-" in message
    assert "File too large; make room there or give the sink another folder" in message
    assert blamed_position(caught.value, [test.operator]) == 0
    test.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_rolls_by_time_onto_a_full_disk_names_the_sink(tmp_path):
    policy = RollingPolicy.default_rolling_policy(16 * MEGABYTE, 100, 50)
    test = OneInputStreamOperatorTestHarness(file_descriptor(tmp_path, policy))
    test.open()
    test.process_element("x" * 100_000)
    with disk_for(1000), pytest.raises(SinkError, match="after 100001 bytes") as caught:
        test.set_processing_time(60_000)
    assert blamed_position(caught.value, [test.operator]) == 0
    test.close()
    assert list(tmp_path.iterdir()) == []
