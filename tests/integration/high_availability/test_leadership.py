"""The leader of a cluster id (internals M48), and the data that leaders leave to each other.

Method: one contract for directories and for a real ZooKeeper.
"""

import json
import subprocess
import sys
import threading

import pytest
from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata
from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.checkpoint_storage.storage import publish_metadata
from penstock.errors import CheckpointStorageError, LeadershipLostError
from penstock.high_availability.job_records import JobRecords
from penstock.high_availability.job_result_store import JobResult
from penstock.jobmaster.checkpointing.pointers import CheckpointPointers
from penstock.serialization.type_serializer import TypeSerializer
from support.patience import PATIENCE_S

JOB = bytes(range(16))
FILES = FileSystems({})
LEASE_MS = 2_000
LONG_MS = 3_600_000


def test_the_next_leader_owns_the_records_of_the_former_one(leader):
    first = leader()
    first.acquire()
    assert first.epoch == 1
    first.publish("name", b"content")
    first.release()
    second = leader()
    second.acquire()
    assert second.epoch == 2
    assert second.read("name") == b"content"
    assert second.names("na") == ["name"]
    second.delete("name")
    assert second.read("name") is None
    with pytest.raises(LeadershipLostError, match="does not lead"):
        first.publish("name", b"late")


def test_a_former_leader_can_write_nothing(place, leader):
    """However late it learns of its end."""
    former = leader()
    former.acquire()
    lost = []
    former.on_lost(lost.append)
    place.overtake()
    with pytest.raises(LeadershipLostError, match="another driver has taken over"):
        former.publish("name", b"late")
    assert [type(error) for error in lost] == [LeadershipLostError]
    with pytest.raises(LeadershipLostError):
        former.names("")


@pytest.mark.parametrize("method", ["read", "names", "delete"])
def test_a_former_leader_gets_an_error_when_it_reads_or_deletes(place, leader, method):
    former = leader()
    former.acquire()
    place.overtake()
    with pytest.raises(LeadershipLostError):
        getattr(former, method)("name")


def test_one_that_stands_by_waits_for_the_leader(leader):
    first, second = leader(LEASE_MS), leader(LEASE_MS)
    first.acquire()
    leads = threading.Event()
    thread = threading.Thread(target=lambda: (second.acquire(), leads.set()))
    thread.start()
    # The leader renews several times before.
    assert not leads.wait(1.5 * LEASE_MS / 1000)
    first.release()
    assert leads.wait(PATIENCE_S)
    thread.join()


def test_a_leader_that_is_killed_is_not_waited_for(place, leader):
    """The machine knows that the process has ended; the lease is an hour."""
    program = (
        "import json, os, signal, sys\n"
        "from penstock.high_availability.services import HighAvailabilityServices\n"
        "one = HighAvailabilityServices.configured(json.loads(sys.argv[1])).leadership()\n"
        "one.acquire()\n"
        "one.publish('name', b'content')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    options = json.dumps(place.with_lease(LONG_MS))
    subprocess.run([sys.executable, "-c", program, options], check=False)
    second = leader()
    second.acquire()
    assert second.read("name") == b"content"


def test_one_of_many_leads_at_a_time(place):
    """Each reads a number and writes the next one: none is lost."""

    def count():
        for _ in range(5):
            one = place.services(LONG_MS).leadership()
            one.acquire()
            number = int(one.read("number") or b"0")
            one.publish("number", b"%d" % (number + 1))
            one.release()

    # The lease is an hour: a driver that did not release it would cause a time-out.
    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = place.services(LONG_MS).leadership()
    last.acquire()
    assert last.read("number") == b"30"
    last.release()


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


def test_files_of_a_checkpoint_stay_while_another_driver_may_know_them(place, leader):
    """The next leader would restore from a pointer that cannot be deleted."""
    pointers = CheckpointPointers(records(leader))
    assert pointers.forget_pending(7), "it had no pointer yet"
    pointers.checkpoint_completed(8, "somewhere")
    assert pointers.forget_pending(8), "its pointer is deleted first"
    assert not [name for name in place.names() if "checkpoint" in name]
    pointers.checkpoint_completed(9, "somewhere")
    place.overtake()
    with pytest.raises(LeadershipLostError):
        pointers.checkpoint_completed(10, "somewhere")
    assert not pointers.forget(9)
    assert not pointers.forget_pending(9)
    assert not pointers.forget_pending(10)
    assert CheckpointPointers(None).forget(9)


def test_a_pointer_that_leads_nowhere_is_no_reason_to_skip_it(tmp_path, leader):
    one = records(leader)
    one.checkpoint_completed(3, str(tmp_path / "gone"))
    with pytest.raises(CheckpointStorageError, match="gone"):
        one.checkpoints(FILES)
    one.leadership.publish(f"{JOB.hex()}-checkpoint-{3:019}", b"{}")
    with pytest.raises(CheckpointStorageError, match="is damaged"):
        one.checkpoints(FILES)


def test_no_id_is_given_twice(leader):
    """Neither ids of complete checkpoints nor of ones that a driver has only begun."""
    first = records(leader)
    assert first.next_checkpoint_id == 1
    for number in range(1, 250):
        first.checkpoint_begins(number)
    first.leadership.release()
    assert records(leader).next_checkpoint_id >= 250


def test_an_id_that_could_not_be_reserved_is_reserved_by_the_next_one(leader, monkeypatch):
    """A storage that fails briefly does not cause duplicate ids."""
    first = records(leader)
    with monkeypatch.context() as failing:
        failing.setattr(first.leadership, "publish", out_of_order)
        with pytest.raises(OSError, match="for a moment"):
            first.checkpoint_begins(1)
    first.checkpoint_begins(2)
    first.leadership.release()
    assert records(leader).next_checkpoint_id > 2


def out_of_order(name, data):
    raise OSError("for a moment")


@pytest.mark.parametrize("error", ["", "ValueError: no"])
def test_the_end_of_a_job_is_remembered(leader, error):
    first = records(leader)
    assert first.results.get() is None
    result = JobResult("name", "FAILED" if error else "FINISHED", 17, {"seen": 3}, error)
    first.results.put(result)
    first.leadership.release()
    second = records(leader)
    assert second.results.get() == result
    later = TypeSerializer().serialize((2, "name", "FINISHED", 17, {}, "", "more"))
    second.leadership.publish(f"{JOB.hex()}-result", later)
    with pytest.raises(CheckpointStorageError, match="result: the result of a job was written in "):
        second.results.get()
    second.leadership.publish(f"{JOB.hex()}-result", b"\xff")
    with pytest.raises(CheckpointStorageError, match="result is damaged"):
        second.results.get()
