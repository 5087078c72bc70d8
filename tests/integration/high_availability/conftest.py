"""Both ways of leader election between drivers; a ZooKeeper for each file of tests."""

import uuid

import pytest
from support import leader_places
from support.leader_places import KINDS, FilePlace, ZooKeeperPlace

LONG_MS = 3_600_000


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    yield from leader_places.serving_zookeeper(tmp_path_factory)


@pytest.fixture
def file_place(tmp_path):
    return FilePlace(tmp_path / "storage")


@pytest.fixture
def zookeeper_place(tmp_path, zookeeper):
    place = ZooKeeperPlace(tmp_path / "storage", zookeeper, f"/tests-{uuid.uuid4().hex}")
    yield place
    place.close()


@pytest.fixture(params=KINDS)
def place(request):
    return request.getfixturevalue(f"{request.param.replace('system', '')}_place")


@pytest.fixture
def leader(place):
    """Create leaders; release them at the end."""
    made = []

    def make(lease_ms=LONG_MS):
        made.append(place.services(lease_ms).leadership())
        return made[-1]

    yield make
    for one in made:
        one.release()
