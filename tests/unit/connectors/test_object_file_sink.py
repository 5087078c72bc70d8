"""FileSink in an object store: whole parts appear when a checkpoint with their end completes.

Method: as in `test_file_sink`, with a real S3 server.
"""

import uuid

import pytest
from penstock.datastream.connectors.file_system import RollingPolicy
from penstock.errors import ConfigurationError, SinkError
from support.s3_server import BUCKET, SECRET_KEY, s3_server
from unit.connectors.test_file_sink import CHECKPOINTS
from unit.connectors.test_file_sink import Sink as LocalSink


@pytest.fixture(scope="module")
def server():
    with s3_server() as running:
        yield running


class Folder:
    """A folder of the bucket."""

    def __init__(self, server):
        self.server = server
        self.prefix = uuid.uuid4().hex

    def contents(self, *, is_visible):
        """Return the contents of the objects that readers see, or of the others."""
        client = self.server.client
        return sorted(
            client.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode()
            for key in self.keys()
            if key.rpartition("/")[2].startswith("part-") is is_visible
        )

    def keys(self):
        return list(self.server.objects(self.prefix))

    @property
    def visible(self):
        return self.contents(is_visible=True)

    @property
    def hidden(self):
        return self.contents(is_visible=False)

    def sink(self, policy=None, restored=None, **arguments):
        return LocalSink(
            f"s3://{BUCKET}/{self.prefix}",
            policy,
            restored,
            {**CHECKPOINTS, **self.server.options},
            **arguments,
        )


@pytest.fixture
def folder(server):
    return Folder(server)


def test_the_final_name_of_a_hidden_object_is_not_used_again(folder):
    """As in a folder: a subtask that had finished before the checkpoint may own the name."""
    policy = RollingPolicy.on_checkpoint_rolling_policy()
    sink = folder.sink(policy, named_by_subtask=True)
    writer, _ = sink.snapshot(1)
    finished = folder.sink(policy, named_by_subtask=True)
    finished.write("of the finished one")
    finished.snapshot(1)
    sink.close()
    sink = folder.sink(policy, (writer, None), named_by_subtask=True)
    sink.write("a")
    sink.snapshot(2)
    finished.complete(1)
    sink.complete(2)
    names = [key.rpartition("/")[2] for key in sorted(folder.keys())]
    assert names == ["part-0-0", "part-0-1"]
    assert folder.visible == ["a\n", "of the finished one\n"]
    finished.close()
    sink.close()


def test_a_part_gets_its_name_when_a_checkpoint_with_its_end_is_complete(folder):
    sink = folder.sink(RollingPolicy.on_checkpoint_rolling_policy(), part_suffix=".txt")
    sink.write("a", "b")
    assert folder.keys() == [], "nothing is uploaded before"
    sink.snapshot(1)
    sink.write("c")
    assert (folder.hidden, folder.visible) == (["a\nb\n"], [])
    sink.complete(1)
    assert (folder.hidden, folder.visible) == ([], ["a\nb\n"])
    assert folder.keys()[0].endswith("-0.txt")
    sink.close()


def test_a_part_may_continue_across_checkpoints(folder):
    """Each checkpoint uploads the data since the one before; the commit removes these uploads."""
    sink = folder.sink()
    sink.write("a")
    sink.snapshot(1)
    sink.snapshot(2)
    sink.write("b")
    sink.snapshot(3)
    sink.complete(3)
    assert (folder.hidden, folder.visible) == (["a\n", "b\n"], [])
    sink.write("c")
    sink.end()
    sink.snapshot(4)
    assert folder.visible == []
    sink.complete(4)
    assert (folder.hidden, folder.visible) == ([], ["a\nb\nc\n"])
    sink.close()


@pytest.mark.parametrize("since", ["nothing", "in progress", "ended"])
def test_bytes_written_since_the_checkpoint_are_not_part_of_it(folder, since):
    """Uploads of the failed attempt do not disturb another one."""
    first = folder.sink()
    first.write("a")
    snapshot = first.snapshot(1)
    first.complete(1)
    if since != "nothing":
        first.write("lost")
        first.snapshot(2)
    if since == "ended":
        first.end()
    first.close()
    second = folder.sink(restored=snapshot)
    second.write("b")
    second.end()
    second.snapshot(3)
    second.complete(3)
    assert folder.visible == ["a\nb\n"]
    second.close()


def test_parts_are_committed_when_the_job_restarts_from_their_checkpoint(folder):
    first = folder.sink(RollingPolicy.on_checkpoint_rolling_policy())
    first.write("a")
    snapshot = first.snapshot(1)
    first.close()
    assert folder.visible == []
    second = folder.sink(RollingPolicy.on_checkpoint_rolling_policy(), snapshot)
    assert (folder.hidden, folder.visible) == ([], ["a\n"])
    second.close()


def test_a_commit_that_failed_in_its_middle_is_ended(folder, server):
    """A move is a copy and a deletion."""
    first = folder.sink(RollingPolicy.on_checkpoint_rolling_policy())
    first.write("a")
    snapshot = first.snapshot(1)
    (hidden,) = folder.keys()
    server.client.copy_object(
        Bucket=BUCKET,
        Key=hidden.replace("/.part", "/part").partition(".inprogress.")[0],
        CopySource={"Bucket": BUCKET, "Key": hidden},
    )
    first.close()
    folder.sink(restored=snapshot).close()
    assert (folder.hidden, folder.visible) == ([], ["a\n"])


@pytest.mark.parametrize("harm", ["gone", "short"])
def test_a_missing_or_changed_segment_is_an_error(folder, server, harm):
    first = folder.sink()
    first.write("abc")
    snapshot = first.snapshot(1)
    first.close()
    (segment,) = folder.keys()
    if harm == "gone":
        server.client.delete_object(Bucket=BUCKET, Key=segment)
    else:
        server.client.put_object(Bucket=BUCKET, Key=segment, Body=b"a")
    with pytest.raises(SinkError, match="cannot continue s3://"):
        folder.sink(restored=snapshot)


def test_a_pending_part_that_lost_its_end_is_not_committed(folder, server):
    sink = folder.sink(RollingPolicy.on_checkpoint_rolling_policy())
    sink.write("abc")
    sink.snapshot(1)
    (hidden,) = folder.keys()
    server.client.put_object(Bucket=BUCKET, Key=hidden, Body=b"a")
    with pytest.raises(SinkError, match="it has 1 bytes, but had 4"):
        sink.complete(1)
    assert folder.visible == []
    sink.close()


def test_a_failed_attempt_removes_what_no_checkpoint_knows(folder):
    sink = folder.sink(RollingPolicy.default_rolling_policy(part_size=1))
    sink.write("a", "b", "c")
    assert folder.hidden == ["a\n", "b\n"]
    sink.close()
    assert folder.keys() == []


def test_parts_named_by_subtask_are_counted_on(folder, server):
    """Existing numbers are skipped."""
    for _ in range(2):
        sink = folder.sink(named_by_subtask=True)
        sink.write("a")
        sink.end()
        sink.snapshot(1)
        sink.complete(1)
        sink.close()
    names = sorted(key.rpartition("/")[2] for key in server.objects(folder.prefix))
    assert names == ["part-0-0", "part-0-1"]


def test_a_store_that_refuses_is_said_before_the_first_record(folder, server):
    with (
        server.locked(),
        pytest.raises(ConfigurationError, match=r"cannot write into s3://.*DENIED") as caught,
    ):
        folder.sink()
    assert SECRET_KEY not in str(caught.value)
