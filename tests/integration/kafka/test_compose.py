"""The services of compose.yaml form a session, and its example runs.

Method: the commands of the services run as processes here, with the addresses of this machine.
"""

import contextlib
import json
import signal

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition
from e2e.running import ROOT
from penstock.session.files import find_session
from support.sessions import Role

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


def command(service, *, port=0, script=None):
    """Return the words of a service's command for this machine."""
    here = {
        "--host=0.0.0.0": "--host=127.0.0.1",
        "--port=6123": "--port=0",
        "-Drest.bind-address=0.0.0.0": "-Drest.bind-address=127.0.0.1",
        "-Drest.bind-port=8081": "-Drest.bind-port=0",
        "--jobmanager=jobmanager:6123": f"--jobmanager=127.0.0.1:{port}",
        "--cluster=jobmanager:6123": f"--cluster=127.0.0.1:{port}",
        "--file=/shop/shop.sql": f"--file={script}",
    }
    return [here.get(word, word) for word in SERVICES[service]["command"]]


def test_the_services_and_their_example(broker, topics, tmp_path):
    assert "./examples/compose:/shop:ro" in SERVICES["example"]["volumes"]
    for name in ("orders", "totals"):
        topics.create(name=name)
    statements = (ROOT / "examples" / "compose" / "shop.sql").read_text()
    script = tmp_path / "shop.sql"
    script.write_text(statements.replace("kafka:9092", broker.servers))
    roles = [Role(*command("jobmanager"))]
    try:
        roles[0].says("jobmanager at")
        port = find_session("default").port
        roles.append(Role(*command("taskexecutor", port=port)))
        roles[1].says("is registered")
        example = Role(*command("example", port=port, script=script))
        assert example.end() == 0, example.log

        settings = {"bootstrap.servers": broker.servers, "group.id": "reader"}
        items = set()
        with contextlib.closing(Consumer(settings)) as consumer:
            consumer.assign([TopicPartition("totals", 0, 0)])
            while items != {1, 2, 3, 4, 5}:  # the topic has no end: totals keep changing
                message = consumer.poll(1)
                if message is not None and message.error() is None:
                    items.add(json.loads(message.key())["item"])
    finally:
        for role in roles:
            if role.process.poll() is None:
                role.signal(signal.SIGTERM)
    order = json.loads(topics.values("orders")[0])
    assert order.keys() == {"item", "amount"}
