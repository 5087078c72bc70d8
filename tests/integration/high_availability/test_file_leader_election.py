"""Leadership by a directory: its lease, and defects of its files."""

import threading

import msgspec
import pytest
from penstock.errors import CheckpointStorageError
from support.patience import PATIENCE_S

LEASE_MS = 500


@pytest.fixture
def place(file_place):
    return file_place


def test_a_leader_notices_by_itself(place, leader):
    former = leader(LEASE_MS)
    former.acquire()
    noticed = threading.Event()
    former.on_lost(lambda error: noticed.set())
    place.overtake()
    assert noticed.wait(PATIENCE_S)


def test_a_leader_of_another_machine_is_waited_for(place, leader):
    first = leader()
    first.acquire()
    first.release()
    path = place.epoch_directory / "leader"
    record = msgspec.json.decode(path.read_bytes())
    record |= {"is_released": False, "process": ["another boot", "pid:[1]", 1, 1]}
    path.write_bytes(msgspec.json.encode(record))
    second = leader(LEASE_MS)
    second.acquire()
    assert second.epoch == 2


def test_a_damaged_record_is_named(place, leader):
    one = leader()
    one.acquire()
    one.release()
    (place.epoch_directory / "leader").write_bytes(b"{")
    with pytest.raises(CheckpointStorageError, match="leader is damaged"):
        leader().acquire()
