"""Who leads a cluster id (SEMANTICS E13), and what leaders leave to each other."""

import subprocess
import sys
import threading

import msgspec
import pytest
from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata
from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.checkpoint_storage.storage import publish_metadata
from penstock.errors import CheckpointStorageError, LeadershipLostError
from penstock.high_availability.job_records import JobRecords, JobResult
from penstock.high_availability.leadership import Leadership
from penstock.serialization.type_serializer import TypeSerializer

JOB = bytes(range(16))
FILES = FileSystems({})
LEASE_MS = 500
LONG_MS = 3_600_000


@pytest.fixture
def leader(tmp_path):
    """Makes leaders, which release what they have at the end."""
    made = []

    def make(lease_ms=LONG_MS):
        made.append(Leadership(str(tmp_path / "storage"), "mine", lease_ms))
        return made[-1]

    yield make
    for one in made:
        one.release()


def epochs(tmp_path):
    return [path.name for path in (tmp_path / "storage" / "mine").iterdir()]


def overtaken(leadership):
    """Another driver takes over, as if the lease had ended."""
    directory = leadership._led()
    epoch = int(directory.name.partition("-")[2])
    directory.rename(directory.with_name(f"epoch-{epoch + 1}"))


def test_what_a_leader_leaves_is_the_next_ones(tmp_path, leader):
    first = leader()
    first.acquire()
    assert epochs(tmp_path) == ["epoch-1"]
    first.publish("name", b"content")
    first.release()
    second = leader()
    second.acquire()
    assert epochs(tmp_path) == ["epoch-2"]
    assert second.read("name") == b"content"
    assert second.names("na") == ["name"]
    second.delete("name")
    assert second.read("name") is None
    with pytest.raises(LeadershipLostError, match="does not lead"):
        first.publish("name", b"late")


def test_a_former_leader_can_write_nothing(leader):
    """However late it hears of its end."""
    former = leader()
    former.acquire()
    lost = []
    former.on_lost(lost.append)
    overtaken(former)
    with pytest.raises(LeadershipLostError, match="another driver has taken over"):
        former.publish("name", b"late")
    assert [type(error) for error in lost] == [LeadershipLostError]
    with pytest.raises(LeadershipLostError):
        former.names("")


@pytest.mark.parametrize("method", ["read", "names"])
def test_a_former_leader_is_told_when_it_reads(leader, method):
    former = leader()
    former.acquire()
    overtaken(former)
    with pytest.raises(LeadershipLostError):
        getattr(former, method)("name")


def test_a_leader_notices_by_itself(leader):
    former = leader(LEASE_MS)
    former.acquire()
    noticed = threading.Event()
    former.on_lost(lambda error: noticed.set())
    overtaken(former)
    assert noticed.wait(60)


def test_one_that_stands_by_waits_for_the_leader(leader):
    first, second = leader(LEASE_MS), leader(LEASE_MS)
    first.acquire()
    leads = threading.Event()
    thread = threading.Thread(target=lambda: (second.acquire(), leads.set()))
    thread.start()
    # The leader renews several times before.
    assert not leads.wait(3 * LEASE_MS / 1000)
    first.release()
    assert leads.wait(60)
    thread.join()


def test_a_leader_that_is_killed_is_not_waited_for(tmp_path, leader):
    """The machine knows that the process is gone; the lease is an hour."""
    program = (
        "import os, signal, sys\n"
        "from penstock.high_availability.leadership import Leadership\n"
        "one = Leadership(sys.argv[1], 'mine', 3_600_000)\n"
        "one.acquire()\n"
        "one.publish('name', b'content')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "storage")], check=False)
    second = leader()
    second.acquire()
    assert second.read("name") == b"content"


def test_a_leader_of_another_machine_is_waited_for(tmp_path, leader):
    first = leader()
    first.acquire()
    first.release()
    path = tmp_path / "storage" / "mine" / "epoch-1" / "leader"
    record = msgspec.json.decode(path.read_bytes())
    record |= {"is_released": False, "process": ["another boot", "pid:[1]", 1, 1]}
    path.write_bytes(msgspec.json.encode(record))
    second = leader(LEASE_MS)
    second.acquire()
    assert epochs(tmp_path) == ["epoch-2"]


def test_one_of_many_leads_at_a_time(tmp_path):
    """Each reads a number and writes the next one: none is lost."""

    def count():
        for _ in range(5):
            one = Leadership(str(tmp_path), "mine", LONG_MS)
            one.acquire()
            number = int(one.read("number") or b"0")
            one.publish("number", b"%d" % (number + 1))
            one.release()

    # The lease is an hour: a driver that did not release it would show as a time-out.
    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = Leadership(str(tmp_path), "mine", LONG_MS)
    last.acquire()
    assert last.read("number") == b"30"
    last.release()


def test_a_damaged_record_is_named(tmp_path, leader):
    one = leader()
    one.acquire()
    one.release()
    (tmp_path / "storage" / "mine" / "epoch-1" / "leader").write_bytes(b"{")
    with pytest.raises(CheckpointStorageError, match="leader is damaged"):
        leader().acquire()


def records(leader, acquired=None):
    leadership = acquired or leader()
    if acquired is None:
        leadership.acquire()
    return JobRecords(leadership, JOB)


def test_checkpoints_are_found_in_order(tmp_path, leader):
    first = records(leader)
    for number in (2, 11, 9):
        folder = tmp_path / f"chk-{number}"
        folder.mkdir()
        location = publish_metadata(str(folder), CheckpointMetadata(number, 5, {}), FILES)
        first.checkpoint_completed(number, location)
    first.checkpoint_discarded(2)
    first.leadership.release()
    found = records(leader).checkpoints(FILES)
    assert [source.metadata.checkpoint_id for source in found] == [9, 11]
    assert all(source.is_claimed for source in found)


def test_a_pointer_that_leads_nowhere_is_no_reason_to_skip_it(tmp_path, leader):
    one = records(leader)
    one.checkpoint_completed(3, str(tmp_path / "gone"))
    with pytest.raises(CheckpointStorageError, match="gone"):
        one.checkpoints(FILES)
    one.leadership.publish(f"{JOB.hex()}-checkpoint-{3:019}", b"{}")
    with pytest.raises(CheckpointStorageError, match="is damaged"):
        one.checkpoints(FILES)


def test_no_id_is_given_twice(leader):
    """Neither those of complete checkpoints nor those that a driver has only begun."""
    first = records(leader)
    assert first.next_checkpoint_id == 1
    for number in range(1, 250):
        first.checkpoint_begins(number)
    first.leadership.release()
    assert records(leader).next_checkpoint_id >= 250


@pytest.mark.parametrize("error", ["", "ValueError: no"])
def test_the_end_of_a_job_is_remembered(leader, error):
    first = records(leader)
    assert first.result() is None
    result = JobResult("name", "FAILED" if error else "FINISHED", 17, {"seen": 3}, error)
    first.set_result(result)
    first.leadership.release()
    second = records(leader)
    assert second.result() == result
    later = TypeSerializer().serialize((2, "name", "FINISHED", 17, {}, "", "more"))
    second.leadership.publish(f"{JOB.hex()}-result", later)
    with pytest.raises(CheckpointStorageError, match="result: the result of a job was written in "):
        second.result()
    second.leadership.publish(f"{JOB.hex()}-result", b"\xff")
    with pytest.raises(CheckpointStorageError, match="result is damaged"):
        second.result()
