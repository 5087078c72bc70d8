"""A broker for each file of tests: others assert that no process is left."""

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
    return Topics(broker.servers)
