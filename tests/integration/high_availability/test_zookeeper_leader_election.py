"""Leadership by a ZooKeeper: sessions that end, servers that hang, connections that are cut.

Method: a real server; large data in files, and the fate of these files.
"""

import json
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from penstock.errors import CheckpointStorageError, ConfigurationError, LeadershipLostError
from penstock.high_availability.services import HighAvailabilityServices
from support.patience import PATIENCE_S
from support.relay import Relay

pytestmark = pytest.mark.server

SESSION_MS = 500
LARGE = b"large" * 10_000


@pytest.fixture
def place(zookeeper_place):
    return zookeeper_place


def files(place):
    return sorted(path.name.rpartition(".")[0] for path in (place.folder / "mine/kept").iterdir())


def expire(place, leadership):
    """Let the servers end its session, as if it had fallen silent."""
    session_id, password = leadership._session._client.client_id
    from kazoo.client import KazooClient

    other = KazooClient(
        place.options["high-availability.zookeeper.quorum"], client_id=(session_id, password)
    )
    other.start()
    other.stop()
    other.close()


def lost(leadership):
    noticed = threading.Event()
    leadership.on_lost(lambda error: noticed.set())
    return noticed


def test_a_session_that_is_over_ends_the_leadership(place, leader):
    """Another driver leads at once, and the former one is notified."""
    first, second = leader(), leader()
    first.acquire()
    noticed = lost(first)
    expire(place, first)
    second.acquire()
    assert noticed.wait(PATIENCE_S)
    with pytest.raises(LeadershipLostError):
        first.publish("name", b"late")
    assert second.epoch == 2
    assert second.names("") == []


def test_a_late_listener_is_notified_at_once(place, leader):
    first = leader()
    first.acquire()
    noticed = lost(first)
    expire(place, first)
    assert noticed.wait(PATIENCE_S)
    assert lost(first).is_set()


def test_one_that_stands_by_outlives_its_session(place, leader):
    """The contender stands for election again."""
    first, second = leader(), leader()
    first.acquire()
    leads = threading.Event()
    thread = threading.Thread(target=lambda: second.acquire() and leads.set())
    thread.start()
    candidates = f"{place.base}/candidates"
    wait_for(lambda: len(place.client.get_children(candidates)) == 2)
    before = set(place.client.get_children(candidates))
    expire(place, second)
    wait_for(lambda: len(set(place.client.get_children(candidates)) - before) == 1)
    first.release()
    thread.join()
    assert leads.is_set()


def wait_for(condition):
    for _ in range(6000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("never")


@pytest.mark.stops_processes
def test_a_leader_whose_servers_hang_is_none_after_the_session(zookeeper, leader):
    """Its later writes do not count as written."""
    one = leader(SESSION_MS)
    one.acquire()
    noticed = lost(one)
    zookeeper.signal(signal.SIGSTOP)
    try:
        assert noticed.wait(PATIENCE_S)
        with pytest.raises(LeadershipLostError):
            one.publish("name", b"late")
    finally:
        zookeeper.signal(signal.SIGCONT)
    next_one = leader()
    next_one.acquire()
    assert next_one.epoch == 2
    assert next_one.read("name") is None


@pytest.mark.stops_processes
def test_a_write_without_an_answer_fails(zookeeper, leader):
    """While it is not known yet who leads."""
    one = leader(SESSION_MS)
    one.acquire()
    zookeeper.signal(signal.SIGSTOP)
    try:
        with pytest.raises(OSError, match=r"ZooKeeper|no longer leads|does not lead"):
            while True:
                one.publish("name", b"late")
    finally:
        zookeeper.signal(signal.SIGCONT)


def test_a_connection_that_is_cut_ends_nothing(zookeeper, place, leader):
    """The session continues over the next connection."""
    relay = Relay(zookeeper.address)
    host, port = relay.address
    services = place.services(3_600_000)
    via = replace(services, zookeeper=replace(services.zookeeper, quorum=f"{host}:{port}"))
    one = via.leadership()
    try:
        one.acquire()
        noticed = lost(one)
        suspended = threading.Event()
        one._session.on_state(lambda state: suspended.set() if state == "SUSPENDED" else None)
        relay.cut()
        assert suspended.wait(PATIENCE_S)
        one.publish("name", b"content")
        assert one.read("name") == b"content"
        assert one.epoch == 1
        assert not noticed.is_set()
    finally:
        one.release()
        relay.close()


@pytest.mark.stops_processes
def test_a_driver_that_was_stopped_has_lost_when_it_wakes_up(place, leader):
    """As on a paused machine; it neither leads nor writes."""
    program = (
        "import json, os, signal, sys\n"
        "from penstock.high_availability.services import HighAvailabilityServices\n"
        "one = HighAvailabilityServices.configured(json.loads(sys.argv[1])).leadership()\n"
        "one.acquire()\n"
        "print('leads', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
        "try:\n"
        "    one.publish('name', b'late')\n"
        "except Exception as error:\n"
        "    print(type(error).__name__)\n"
        "one.release()\n"
    )
    options = json.dumps(place.with_lease(SESSION_MS))
    former = subprocess.Popen(
        [sys.executable, "-c", program, options], stdout=subprocess.PIPE, text=True
    )
    try:
        assert former.stdout.readline() == "leads\n"
        second = leader()
        second.acquire()
        assert second.epoch == 2
        former.send_signal(signal.SIGCONT)
        out, _ = former.communicate()
    finally:
        former.kill()
        former.wait()
    assert out == "LeadershipLostError\n"
    assert second.names("") == []


def test_large_records_are_in_files(place, leader):
    one = leader()
    one.acquire()
    one.publish("small", b"small")
    one.publish("large", LARGE)
    assert files(place) == ["large"]
    assert one.read("large") == LARGE
    one.publish("large", LARGE + b"!")
    assert files(place) == ["large"]
    assert one.read("large") == LARGE + b"!"
    one.publish("large", b"no more")
    assert files(place) == []
    assert one.read("large") == b"no more"
    one.publish("large", LARGE)
    one.delete("large")
    assert files(place) == []
    assert one.read("large") is None
    assert one.names("") == ["small"]


def test_files_that_no_node_names_are_removed(place, leader):
    """The former leader was lost between the file and the node."""
    first = leader()
    first.acquire()
    first.publish("large", LARGE)
    place.overtake()
    with pytest.raises(LeadershipLostError):
        first.publish("other", LARGE)
    assert files(place) == ["large", "other"]
    first.release()
    second = leader()
    second.acquire()
    assert files(place) == ["large"]
    assert second.read("large") == LARGE


def test_a_file_that_is_gone_is_named(place, leader):
    one = leader()
    one.acquire()
    one.publish("large", LARGE)
    (path,) = (place.folder / "mine/kept").iterdir()
    path.unlink()
    with pytest.raises(CheckpointStorageError, match=r"large refers to .* which does not exist"):
        one.read("large")
    place.client.set(f"{place.base}/kept/large", b"?")
    with pytest.raises(CheckpointStorageError, match="large is damaged"):
        one.read("large")


def test_nodes_of_a_creator_are_its_own(place):
    """A client with other credentials, or none, cannot read any of them."""
    from kazoo.exceptions import NoAuthError

    key = "high-availability.zookeeper.client.authorization"
    options = place.with_lease(60_000) | {
        "high-availability.zookeeper.client.acl": "creator",
        key: "digest:'me:secret'",
    }
    first = HighAvailabilityServices.configured(options).leadership()
    first.acquire()
    first.publish("name", b"value")
    with pytest.raises(NoAuthError):
        place.client.get_children(f"{place.base}/kept")
    first.release()
    second = HighAvailabilityServices.configured(options).leadership()
    second.acquire()
    assert second.read("name") == b"value"
    second.release()
    with pytest.raises(ConfigurationError, match="creator needs"):
        HighAvailabilityServices.configured({**options, key: ""})


def test_nobody_answers(place):
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    options = {
        **place.options,
        "high-availability.zookeeper.quorum": f"127.0.0.1:{port}",
        "high-availability.zookeeper.client.connection-timeout": "200 ms",
    }
    services = HighAvailabilityServices.configured(options)
    with pytest.raises(CheckpointStorageError, match=f"no ZooKeeper answers at 127.0.0.1:{port}"):
        services.leadership().acquire()
    finder = services.finder()
    with pytest.raises(CheckpointStorageError, match="no ZooKeeper answers"):
        finder.find()
    finder.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"high-availability.zookeeper.quorum": None}, "needs high-availability.zookeeper.quorum"),
        ({"penstock.high-availability.lease": "1 s"}, "has no effect with zookeeper"),
        ({"high-availability.zookeeper.path.root": "x"}, "is not a path such as"),
        ({"high-availability.storageDir": None}, "zookeeper needs high-availability.storageDir"),
    ],
)
def test_wrong_settings_are_refused(options, words):
    given = {
        "high-availability.type": "ZOOKEEPER",
        "high-availability.storageDir": "s3://bucket/ha",
        "high-availability.cluster-id": "mine",
        "high-availability.zookeeper.quorum": "127.0.0.1:2181",
        **options,
    }
    given = {key: value for key, value in given.items() if value is not None}
    with pytest.raises(ConfigurationError, match=words):
        HighAvailabilityServices.configured(given)
