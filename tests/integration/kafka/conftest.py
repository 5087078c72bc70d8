"""Brokers that all tests of Kafka share: a start costs more than most of the tests."""

import gc
import time
from pathlib import Path

import pytest
from integration.kafka.broker import JARS, Broker, Topics
from support.patience import PATIENCE_S

_brokers = []


@pytest.fixture(scope="session")
def first_broker(tmp_path_factory):
    yield from serving(tmp_path_factory.mktemp("kafka"))


@pytest.fixture(scope="session")
def second_broker(tmp_path_factory):
    yield from serving(tmp_path_factory.mktemp("other-kafka"))


@pytest.fixture
def broker(first_broker):
    return running(first_broker)


@pytest.fixture
def other_broker(second_broker):
    """Return a broker that a test may stop."""
    return running(second_broker)


def serving(folder):
    if not JARS.exists():
        pytest.skip("the broker's jars are not there: make build/kafka/jars")
    broker = Broker(folder)
    _brokers.append(broker)
    yield broker
    broker.stop()


def running(broker):
    if broker.process is None:
        broker.start()
    return broker


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem):
    """Stop the brokers after the last test of Kafka: idle ones use the processor, too."""
    result = yield
    if nextitem is None or nextitem.get_closest_marker("kafka") is None:
        for broker in _brokers:
            broker.stop()
    return result


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
    deadline_s = time.monotonic() + PATIENCE_S
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
