"""A session's jobmanager leaves jobs to its successor, in a place that the successor finds."""

import hashlib
import io
import os
import stat
import sys

import pytest
from penstock.dependencies.manifest import BlobKey, DependencyManifest, ShippedPath
from penstock.errors import CheckpointStorageError, ConfigurationError, LeadershipLostError
from penstock.high_availability.file_leader_election import FileLeaderElectionService
from penstock.high_availability.job_result_store import JobResult
from penstock.high_availability.leader_address import LeaderAddress, publish_address
from penstock.rpc.session_messages import SubmitJob
from penstock.session import job_graph_store
from penstock.session.job_graph_store import JobGraphStore
from penstock.session.sealing import Seal

JOBS = [bytes([number]) * 16 for number in range(5)]
CONTENT: dict[str, bytes] = {}
TOKEN = "the token of the session"


@pytest.fixture
def lead(leader):
    """Create leaders, each of which takes over from the previous one."""
    made = []

    def make():
        if made:
            made[-1].release()
        made.append(leader())
        assert made[-1].acquire()
        return made[-1]

    return make


def blob(content):
    key = BlobKey(hashlib.sha256(content).hexdigest(), len(content))
    CONTENT[key.digest] = content
    return key


def job(graph, *files):
    shipped = tuple(ShippedPath(f"{number}.py", blob(file)) for number, file in enumerate(files))
    manifest = DependencyManifest("folder", "3.11", "0.1.0", files=shipped)
    return SubmitJob(blob(graph), (), manifest, {"program_path": None}, True)


def read(key):
    return CONTENT[key.digest]


def stored(leadership, max_results=100):
    return JobGraphStore(leadership, max_results, Seal(TOKEN))


def written(jobs, content):
    file = io.BytesIO()
    jobs.write_blob(blob(content), file)
    return file.getvalue()


def blobs(leadership):
    return len({name.split("-")[1] for name in leadership.names("blob-")})


def test_the_next_leader_finds_jobs_in_their_order_and_their_blobs(lead, monkeypatch):
    """Blobs of several parts, empty ones, and ones that fill whole parts."""
    monkeypatch.setattr(job_graph_store, "_PART_BYTES", 4)
    first = stored(lead())
    submissions = [job(b"graph one", b"shared", b""), job(b"graph", b"shared", b"12345678")]
    for job_id, submission in zip(reversed(JOBS[:2]), submissions, strict=True):
        first.put(job_id, submission, {}, read)
    first.close()
    second = stored(lead())
    assert list(second.jobs().items()) == list(zip(JOBS[1::-1], submissions, strict=True))
    for content in (b"graph one", b"shared", b"", b"12345678"):
        assert written(second, content) == content
    second.close()


def test_a_blob_goes_with_the_last_job_that_names_it(lead):
    leadership = lead()
    jobs = stored(leadership)
    jobs.put(JOBS[0], job(b"one", b"shared"), {}, read)
    jobs.put(JOBS[1], job(b"two", b"shared"), {}, read)
    assert blobs(leadership) == 3
    jobs.remove(JOBS[0])
    assert blobs(leadership) == 2
    assert list(jobs.jobs()) == [JOBS[1]]
    jobs.records(JOBS[1]).results.put(JobResult("two", "FINISHED", 1, {}))
    jobs.ended(JOBS[1])
    jobs.close()
    assert blobs(leadership) == 0
    assert jobs.jobs() == {}


def test_a_job_whose_end_is_recorded_is_not_found_again(lead):
    """The former leader was lost between the record and the removal."""
    first = stored(lead())
    first.put(JOBS[0], job(b"one"), {}, read)
    first.records(JOBS[0]).results.put(JobResult("one", "FINISHED", 1, {}))
    first.close()
    leadership = lead()
    second = stored(leadership)
    assert second.jobs() == {}
    assert blobs(leadership) == 0
    assert second.records(JOBS[0]).results.get() is not None
    second.close()


def test_a_job_whose_end_could_not_be_recorded_stays(lead):
    jobs = stored(lead())
    jobs.put(JOBS[0], job(b"one"), {}, read)
    jobs.ended(JOBS[0])
    jobs.close()
    assert list(jobs.jobs()) == [JOBS[0]]


def test_a_job_that_was_not_kept_whole_is_none(lead):
    leadership = lead()
    first = stored(leadership)

    def fails(key):
        if CONTENT[key.digest] == b"second":
            raise OSError("no room")
        return read(key)

    with pytest.raises(OSError, match="no room"):
        first.put(JOBS[0], job(b"one", b"first", b"second"), {}, fails)
    assert blobs(leadership) == 2
    first.close()
    leadership = lead()
    second = stored(leadership)
    assert second.jobs() == {}
    assert blobs(leadership) == 0
    second.close()


def test_the_error_names_a_missing_or_damaged_blob(lead):
    leadership = lead()
    jobs = stored(leadership)
    jobs.put(JOBS[0], job(b"one"), {}, read)
    (name,) = leadership.names("blob-")
    leadership.publish(name, b"on")
    with pytest.raises(CheckpointStorageError, match="has 2 bytes instead of 3"):
        written(jobs, b"one")
    leadership.delete(name)
    with pytest.raises(CheckpointStorageError, match="is missing"):
        written(jobs, b"one")
    leadership.publish(f"{JOBS[0].hex()}-submission", b"?")
    with pytest.raises(CheckpointStorageError, match="-submission is damaged"):
        jobs.jobs()
    jobs.close()


def test_the_ends_of_so_many_jobs_are_remembered(lead):
    leadership = lead()
    jobs = stored(leadership, max_results=2)
    for job_id in JOBS:
        jobs.put(job_id, job(b"one"), {}, read)
        records = jobs.records(job_id)
        records.checkpoint_begins(1)
        records.results.put(JobResult("one", "FINISHED", 1, {}))
        jobs.ended(job_id)
    jobs.close()
    known = {name.split("-")[0] for name in leadership.names("") if "-counter" in name}
    assert known == {job_id.hex() for job_id in JOBS[-2:]}
    assert len([name for name in leadership.names("") if name.endswith("-result")]) == 2


def test_a_former_leader_keeps_nothing(place, lead):
    first = lead()
    jobs = stored(first)
    place.overtake()
    with pytest.raises(LeadershipLostError):
        jobs.put(JOBS[0], job(b"one"), {}, read)
    jobs.ended(JOBS[0])  # it logs that, and keeps the job
    jobs.close()


def test_the_leader_is_found_by_its_address(place, lead):
    """Not a former one, which has lost leadership when the next epoch starts."""
    finder = place.services(1_000).finder()
    assert finder.find() is None
    first = lead()
    assert finder.find() is None
    publish_address(first, "one", 1)
    assert finder.find() == LeaderAddress(1, "one", 1)
    second = lead()
    assert finder.find() is None
    publish_address(second, "two", 2)
    assert finder.find() == LeaderAddress(2, "two", 2)
    second.publish("address", b"?")
    with pytest.raises(CheckpointStorageError, match="address is damaged"):
        finder.find()
    finder.close()


def test_a_driver_that_gives_up_does_not_lead(lead, leader):
    lead()
    other = leader()
    other.give_up()
    assert not other.acquire()


SECRET = {"s3.secret-key": "hunter2-hunter2"}


def test_a_stored_job_has_no_readable_secrets(lead):
    """Neither its options nor its code can be read, and only the owner may open the files."""
    leadership = lead()
    jobs = stored(leadership)
    submission = job(b"graph with hunter2-hunter2", b"code with hunter2-hunter2")
    submission.launch["config"] = SECRET
    jobs.put(JOBS[0], submission, SECRET, read)
    for name in leadership.names(""):
        assert b"hunter2" not in leadership.read(name)
    assert jobs.jobs() == {JOBS[0]: submission}
    assert written(jobs, b"code with hunter2-hunter2") == b"code with hunter2-hunter2"
    jobs.close()


def test_a_jobmanager_with_another_token_gets_an_error(lead):
    first = stored(lead())
    first.put(JOBS[0], job(b"one"), {}, read)
    first.close()
    with pytest.raises(CheckpointStorageError, match="stored under another token, or is damaged"):
        JobGraphStore(lead(), 100, Seal("another token"))


def test_secrets_that_cannot_be_encrypted_are_not_stored(lead, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    leadership = lead()
    jobs = stored(leadership)
    with pytest.raises(ConfigurationError, match=r"a job with s3\.secret-key is not stored.*tls"):
        jobs.put(JOBS[0], job(b"one"), SECRET, read)
    assert leadership.names("blob-") == []
    jobs.put(JOBS[1], job(b"two"), {"parallelism.default": "2"}, read)
    assert list(jobs.jobs()) == [JOBS[1]]
    jobs.close()


def test_files_of_a_leader_are_its_users_alone(tmp_path):
    """Whatever the umask; the folder above may be shared."""
    before = os.umask(0)
    try:
        leadership = FileLeaderElectionService(str(tmp_path / "shared"), "cluster", 60_000)
        assert leadership.acquire()
        leadership.publish("name", b"value")
    finally:
        os.umask(before)
    leadership.release()
    found = [tmp_path / "shared/cluster", *(tmp_path / "shared/cluster").rglob("*")]
    assert len(found) == 4
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
