"""Sinks that commit with checkpoints, as parts of whole programs: plans, topologies, their ends."""

import json
import threading

import pytest
from penstock.common import Types
from penstock.common.serialization import Encoder
from penstock.datastream.connectors import (
    CommittableSummary,
    CommittableWithLineage,
    Committer,
    CommittingSinkWriter,
    PythonSink,
    SupportsCommitter,
    SupportsGlobalCommitter,
    SupportsPreCommitTopology,
)
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    RollingPolicy,
    StreamingFileSink,
)
from penstock.datastream.functions import CheckpointListener, ParallelSourceFunction
from penstock.errors import WrongArgumentError
from support.environments import in_process


class Writer(CommittingSinkWriter):
    """Commits what it has written."""

    def __init__(self):
        self.taken = []

    def write(self, element, context):
        self.taken.append(element)

    def flush(self, end_of_input):
        pass

    def prepare_commit(self):
        taken, self.taken = self.taken, []
        return taken


class FileOfCommits(Committer):
    """Appends a line for every call, to a file of its subtask."""

    def __init__(self, folder, subtask):
        self.path = folder / f"{subtask}"

    def commit(self, requests):
        committed = sorted(request.get_committable() for request in requests)
        with self.path.open("a") as file:
            file.write(f"{json.dumps(committed)}\n")


class Sink(PythonSink, SupportsCommitter):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def create_writer(self, context):
        return Writer()

    def create_committer(self, context):
        return FileOfCommits(self.folder, context.get_index_of_subtask())


class GlobalSink(Sink, SupportsGlobalCommitter):
    pass


class NegatingSink(Sink, SupportsPreCommitTopology):
    """Negates its committables on their way, in separate tasks."""

    def add_pre_commit_topology(self, committables):
        def negate(message):
            if isinstance(message, CommittableSummary):
                return message
            return CommittableWithLineage(
                -message.committable, message.checkpoint_id, message.subtask_id
            )

        return committables.rebalance().map(negate)


class WrongSink(Sink, SupportsPreCommitTopology):
    def add_pre_commit_topology(self, committables):
        return None


def commits(folder):
    return {
        int(path.name): [json.loads(line) for line in path.read_text().splitlines()]
        for path in folder.iterdir()
    }


MODES = pytest.mark.parametrize(
    "options",
    [
        {},
        {"execution.runtime-mode": "BATCH"},
        {"execution.checkpointing.interval": "1 h"},
        {"execution.checkpointing.interval": "1 h", "pipeline.operator-chaining.enabled": "false"},
        {
            "execution.checkpointing.interval": "1 h",
            "execution.checkpointing.checkpoints-after-tasks-finish": "false",
        },
    ],
    ids=["streaming", "batch", "checkpoints", "unchained", "no last checkpoint"],
)


@MODES
@pytest.mark.parametrize("sink", [Sink, GlobalSink, NegatingSink])
def test_everything_is_committed_at_the_end(tmp_path, sink, options):
    """By one committer behind each writer, or by a single one for all of them."""
    env = in_process(2, **options)
    env.from_collection(list(range(10)), Types.INT()).rebalance().sink_to(sink(tmp_path))
    env.execute()
    found = commits(tmp_path)
    everything = sorted(value for calls in found.values() for call in calls for value in call)
    sign = -1 if sink is NegatingSink else 1
    assert everything == sorted(sign * value for value in range(10))
    if sink is GlobalSink:
        assert list(found.values()) == [[list(range(10))]]


def test_a_plan_shows_writers_and_committers(tmp_path):
    env = in_process(2)
    stream = env.from_collection([1], Types.INT())
    stream.sink_to(Sink(tmp_path)).name("one").uid("one").set_parallelism(3)
    stream.sink_to(GlobalSink(tmp_path)).name("all").set_parallelism(3)
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert [(node["type"], node["parallelism"]) for node in nodes[1:]] == [
        ("one: Writer", 3),
        ("one: Committer", 3),
        ("all: Writer", 3),
        ("all: Global Committer", 1),
    ]
    assert "uid Sink Committer: one" in str(env.explain())


def test_a_pre_commit_topology_must_return_a_stream(tmp_path):
    stream = in_process(2).from_collection([1], Types.INT())
    with pytest.raises(
        WrongArgumentError, match="add_pre_commit_topology must return a DataStream, got None"
    ):
        stream.sink_to(WrongSink(tmp_path))


@MODES
def test_files_have_their_names_at_the_end(tmp_path, options):
    env = in_process(2, **options)
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    env.from_collection(list("abcdef"), Types.STRING()).rebalance().sink_to(sink)
    env.execute()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2
    assert all(path.name.startswith("part-") for path in files)
    lines = sorted(line for path in files for line in path.read_text().splitlines())
    assert lines == list("abcdef")


def test_the_older_sink_of_files_names_them_by_subtask(tmp_path):
    """As in PyFlink; the last file gets its name here, while PyFlink leaves it hidden."""
    env = in_process(parallelism=1)
    sink = (
        StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=4))
        .build()
    )
    env.from_collection(["abc", "def", "g", "h"], Types.STRING()).add_sink(sink)
    env.execute()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "part-0-0": "abc\ndef\n",
        "part-0-1": "g\nh\n",
    }


class UntilCheckpoints(ParallelSourceFunction, CheckpointListener):
    """One subtask ends at once, the other one when three checkpoints are complete."""

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.complete = 0
        self.cancelled = threading.Event()

    def run(self, ctx):
        ctx.collect(f"{self.subtask}")
        while self.subtask and self.complete < 3 and not self.cancelled.wait(0.001):
            ctx.collect(f"{self.subtask}")

    def cancel(self):
        self.cancelled.set()

    def notify_checkpoint_complete(self, checkpoint_id):
        self.complete += 1


def test_the_older_sink_of_files_continues_when_one_of_its_subtasks_has_finished(tmp_path):
    """A checkpoint does not contain the union of only some subtasks' states."""
    env = in_process(2, execution_checkpointing_interval="10 ms")
    sink = StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    env.add_source(UntilCheckpoints(), type_info=Types.STRING()).add_sink(sink)
    env.execute()
    lines = {line for path in tmp_path.rglob("part-*") for line in path.read_text().splitlines()}
    assert lines == {"0", "1"}
