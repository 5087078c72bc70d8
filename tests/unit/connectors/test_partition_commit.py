"""Partition commit of FileSink: folders are committed when they are complete, and not before.

Method: writers and their single committer in harnesses; a writer's output, watermarks included,
reaches the committer before its snapshot, as with aligned barriers.
"""

import pytest
from penstock.common.serialization import Encoder
from penstock.common.time import Duration
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    PartitionCommitPolicy,
    PartitionCommitTrigger,
)
from penstock.errors import InvalidProgramError, SinkError
from penstock.testing import OneInputStreamOperatorTestHarness

HOUR_MS = 3_600_000
CHECKPOINTS = {"execution.checkpointing.interval": "1 h"}
HOURLY = PartitionCommitTrigger.partition_time("yyyy-MM-dd--HH", Duration.of_hours(1))


def builder(folder, trigger, *policies):
    return (
        FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.event_time_bucket_assigner())
        .with_partition_commit(trigger, *policies)
    )


class Job:
    """Two writers and their committer; snapshots are taken together."""

    def __init__(self, sink, restored=(None, None, None)):
        descriptors = (sink.sink_operator(), sink.sink_operator(), sink.committer_operator())
        self.operators = [
            OneInputStreamOperatorTestHarness(descriptor, configuration=CHECKPOINTS)
            for descriptor in descriptors
        ]
        *self.writers, self.committer = self.operators
        for operator, snapshot in zip(self.operators, restored, strict=True):
            operator.initialize_state(snapshot)
            operator.open()
        self.sent = [0, 0]

    def write(self, writer, value, timestamp):
        self.writers[writer].process_element(value, timestamp)

    def watermark(self, timestamp):
        for operator in self.operators:
            operator.process_watermark(timestamp)

    def hand_over(self):
        for number, writer in enumerate(self.writers):
            for committable in writer.values[self.sent[number] :]:
                self.committer.process_element(committable)
            self.sent[number] = len(writer.values)

    def snapshot(self, checkpoint_id):
        of_writers = [writer.snapshot(checkpoint_id) for writer in self.writers]
        self.hand_over()
        return *of_writers, self.committer.snapshot(checkpoint_id)

    def checkpoint(self, checkpoint_id):
        made = self.snapshot(checkpoint_id)
        self.committer.notify_checkpoint_complete(checkpoint_id)
        return made

    def end(self):
        for writer in self.writers:
            writer.end_input()
        self.hand_over()
        self.committer.end_input()

    def close(self):
        for operator in self.operators:
            operator.close()


@pytest.fixture
def jobs():
    """Yield a function that starts jobs; close them at the end of the test."""
    made = []

    def start(*arguments):
        made.append(Job(*arguments))
        return made[-1]

    yield start
    for job in made:
        job.close()


def rows(folder):
    return sorted(path.read_text() for path in folder.glob("part-*"))


def committed(folder):
    return sorted(path.parent.name for path in folder.glob("*/_SUCCESS"))


def test_an_hour_is_committed_when_the_watermark_has_passed_it(tmp_path, jobs):
    """Writers close the files of such an hour, even if their policy would keep them open."""
    job = jobs(builder(tmp_path, HOURLY).build())
    job.write(0, "a", 0)
    job.write(1, "b", HOUR_MS - 1)
    job.write(1, "c", HOUR_MS)
    job.watermark(HOUR_MS - 1)
    job.checkpoint(1)
    assert committed(tmp_path) == []
    job.watermark(HOUR_MS)
    assert committed(tmp_path) == []
    job.checkpoint(2)
    assert committed(tmp_path) == ["1970-01-01--00"]
    assert rows(tmp_path / "1970-01-01--00") == ["a\n", "b\n"]
    assert rows(tmp_path / "1970-01-01--01") == []


def test_the_watermark_of_the_checkpoint_counts_and_not_a_later_one(tmp_path, jobs):
    """Files behind the checkpoint's barrier have no names when the checkpoint completes."""
    job = jobs(builder(tmp_path, HOURLY).build())
    job.write(0, "a", 0)
    job.snapshot(1)
    job.write(1, "b", 1)
    job.watermark(2 * HOUR_MS)
    job.committer.notify_checkpoint_complete(1)
    assert committed(tmp_path) == []
    job.checkpoint(2)
    assert committed(tmp_path) == ["1970-01-01--00"]
    assert rows(tmp_path / "1970-01-01--00") == ["a\n", "b\n"]


@pytest.mark.parametrize("failed_after", ["the snapshot", "the notification"])
def test_a_restored_job_commits_each_hour_and_none_too_early(tmp_path, jobs, failed_after):
    told = []
    sink = builder(tmp_path, HOURLY, lambda context: told.append(context.partition)).build()
    job = jobs(sink)
    job.write(0, "a", 0)
    job.write(1, "b", HOUR_MS)
    job.watermark(HOUR_MS)
    restored = job.snapshot(1)
    if failed_after == "the notification":
        job.committer.notify_checkpoint_complete(1)
    job.write(1, "lost", 2 * HOUR_MS)
    job.watermark(5 * HOUR_MS)
    job.close()
    told.clear()
    job = jobs(sink, restored)
    # The action may run again, since it is not known whether it ran.
    assert told == ["1970-01-01--00"]
    assert rows(tmp_path / "1970-01-01--00") == ["a\n"]
    job.write(1, "c", HOUR_MS + 1)
    job.watermark(2 * HOUR_MS)
    job.checkpoint(2)
    job.checkpoint(3)
    assert told == ["1970-01-01--00", "1970-01-01--01"]
    assert rows(tmp_path / "1970-01-01--01") == ["b\nc\n"]
    assert not (tmp_path / "1970-01-01--02").exists() or rows(tmp_path / "1970-01-01--02") == []


def test_late_files_commit_their_hour_again(tmp_path, jobs):
    told = []
    job = jobs(builder(tmp_path, HOURLY, lambda context: told.append(context.path)).build())
    job.write(0, "a", 0)
    job.watermark(HOUR_MS)
    job.checkpoint(1)
    job.write(0, "late", 1)
    job.checkpoint(2)
    job.checkpoint(3)
    assert told == [str(tmp_path / "1970-01-01--00")] * 2


def test_an_idle_writer_holds_no_files_back(tmp_path, jobs):
    """The watermark passes idle writers, so that their files end with the next checkpoint."""
    job = jobs(builder(tmp_path, HOURLY).build())
    job.write(0, "a", 0)
    job.writers[0].process_watermark_status(idle=True)
    for operator in job.operators[1:]:
        operator.process_watermark(HOUR_MS)
    job.write(1, "b", 0)
    job.checkpoint(1)
    assert committed(tmp_path) == ["1970-01-01--00"]
    assert rows(tmp_path / "1970-01-01--00") == ["a\n", "b\n"]


def test_processing_time_waits_for_the_delay(tmp_path, jobs):
    trigger = PartitionCommitTrigger.process_time(Duration.of_minutes(1))
    job = jobs(builder(tmp_path, trigger, PartitionCommitPolicy.success_file("done")).build())
    for operator in job.operators:
        operator.set_processing_time(1000)
    job.write(0, "a", 0)
    job.checkpoint(1)
    for operator in job.operators:
        operator.set_processing_time(61_000)
    job.checkpoint(2)
    assert rows(tmp_path / "1970-01-01--00") == ["a\n"]
    assert not (tmp_path / "1970-01-01--00" / "done").exists()
    for operator in job.operators:
        operator.set_processing_time(121_000)
    job.checkpoint(3)
    assert (tmp_path / "1970-01-01--00" / "done").read_bytes() == b""


def test_the_end_of_the_input_commits_the_rest(tmp_path, jobs):
    trigger = PartitionCommitTrigger.process_time(Duration.of_hours(1))
    job = jobs(builder(tmp_path, trigger).build())
    job.write(0, "a", 0)
    job.end()
    assert committed(tmp_path) == []
    job.checkpoint(1)
    assert committed(tmp_path) == ["1970-01-01--00"]


class Manifest(PartitionCommitPolicy):
    """Writes the values of a partition into its folder."""

    def commit(self, context):
        """Write them."""
        context.write_file("_manifest", repr(context.partition_spec).encode())


class ByItem(BucketAssigner):
    """Names folders as tables do."""

    def get_bucket_id(self, element, processing_time_ms):
        """Return the folder."""
        return f"item={element}/size=1%2F2"


def test_a_policy_of_ones_own_writes_into_the_folder(tmp_path, jobs):
    made = builder(tmp_path, PartitionCommitTrigger.process_time(), Manifest())
    job = jobs(made.with_bucket_assigner(ByItem()).build())
    job.write(0, "tea", 0)
    job.checkpoint(1)
    found = (tmp_path / "item=tea" / "size=1%2F2" / "_manifest").read_text()
    assert found == "{'item': 'tea', 'size': '1/2'}"


def test_a_failing_policy_names_the_partition(tmp_path, jobs):
    def fail(context):
        raise ValueError("no warehouse")

    job = jobs(builder(tmp_path, HOURLY, fail).build())
    job.write(0, "a", 0)
    job.watermark(HOUR_MS)
    with pytest.raises(SinkError, match=r"1970-01-01--00: ValueError: no warehouse"):
        job.checkpoint(1)


def test_records_and_folders_without_time_are_refused(tmp_path, jobs):
    job = jobs(builder(tmp_path, HOURLY).build())
    with pytest.raises(SinkError, match="assign_timestamps_and_watermarks"):
        job.writers[0].process_element("a")
    job = jobs(builder(tmp_path, HOURLY).with_bucket_assigner(ByItem()).build())
    job.write(0, "tea", 0)
    with pytest.raises(SinkError, match="'item=tea/size=1%2F2' does not match the pattern"):
        job.snapshot(1)


def test_an_hour_that_the_clock_shows_twice_waits_for_the_second_one():
    trigger = PartitionCommitTrigger.partition_time(
        "yyyy-MM-dd--HH", Duration.of_hours(1), "Europe/Berlin"
    )
    assigner = BucketAssigner.event_time_bucket_assigner(timezone_id="Europe/Berlin")
    first_ms = 1_729_987_200_000  # 2024-10-27 00:00 UTC, 02:00 in summer time
    second_ms = first_ms + HOUR_MS
    assert assigner.get_bucket_id("", first_ms) == assigner.get_bucket_id("", second_ms)
    folder = assigner.get_bucket_id("", first_ms)
    assert not trigger.is_due(folder, 0, 0, second_ms)
    assert trigger.is_due(folder, 0, 0, second_ms + HOUR_MS)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda sink: sink.with_partition_commit(HOURLY, 5), "functions, got 5"),
        (lambda sink: sink.with_partition_commit("1 h"), "FileSink.with_partition_commit: trig"),
        (lambda _: PartitionCommitTrigger.partition_time("yyyy", Duration.of_hours(-1)), "delay"),
        (lambda _: PartitionCommitTrigger.partition_time("QQ", Duration.of_hours(1)), "QQ"),
        (
            lambda _: PartitionCommitTrigger.partition_time("yyyy", Duration.of_hours(1), "Mars"),
            "unknown time zone 'Mars'",
        ),
        (lambda _: PartitionCommitPolicy.success_file("a/b"), "without /"),
        (
            lambda sink: sink.with_bucket_assigner(
                BucketAssigner.event_time_bucket_assigner("yyyy-MM-dd")
            ).build(),
            "does not name folders by 'yyyy-MM-dd--HH'",
        ),
        (
            lambda sink: sink.with_bucket_assigner(
                BucketAssigner.base_path_bucket_assigner()
            ).build(),
            "does not name folders by",
        ),
        (
            lambda sink: sink.with_bucket_assigner(
                BucketAssigner.date_time_bucket_assigner(timezone_id="America/New_York")
            ).build(),
            "names folders in America/New_York, but partition_time reads them in UTC",
        ),
        (
            lambda sink: sink.enable_compact(
                FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build(),
                FileCompactor.concat_file_compactor(),
            ).build(),
            "exclude each other",
        ),
    ],
)
def test_invalid_arguments_are_refused_in_their_call(tmp_path, make, words):
    with pytest.raises(InvalidProgramError, match=words):
        make(builder(tmp_path, HOURLY))
