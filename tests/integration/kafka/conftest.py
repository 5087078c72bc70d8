"""A broker for each file of tests: other tests assert that no process is left."""

import gc
import time
from pathlib import Path

import pytest
from integration.kafka.broker import JARS, Broker, Topics


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    if not JARS.exists():
        pytest.skip("the broker's jars are not there: sh ci/kafka.sh")
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.fixture
def topics(broker):
    topics = Topics(broker.servers)
    yield topics
    topics.admin = None


@pytest.fixture(autouse=True)
def no_client_is_left():
    """Check that no client is left: it would look for its brokers, and log that, for ever."""
    before = clients()
    yield
    deadline_s = time.monotonic() + 120
    # Threads that wait for servers may still be ending.
    while left := clients() - before:
        gc.collect()
        assert time.monotonic() < deadline_s, f"{len(left)} clients are left"
        time.sleep(0.05)


def clients():
    """Return the main threads of librdkafka's clients in this process."""
    return {task.name for task in Path("/proc/self/task").iterdir() if name_of(task) == "rdk:main"}


def name_of(task):
    try:
        return (task / "comm").read_text().strip()
    except OSError:  # it has ended
        return ""
