"""Connectors in Spark's workers, with the real brokers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.running import LIMIT_S, assert_nothing_left, run_program
from integration.kafka.broker import JARS, Broker, Topics
from support.certificates import own_certificate

PROGRAMS = str(Path(__file__).with_name("connector_programs.py"))
pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]


def test_kafka_exactly_once_after_a_failure(tmp_path):
    if not JARS.exists():
        pytest.skip("the broker's jars are not there: make build/kafka/jars")
    (tmp_path / "broker").mkdir()
    broker = Broker(tmp_path / "broker")
    try:
        topics = Topics(broker.start().servers)
        topics.create(partitions=2, name="in")
        topics.create(partitions=2, name="out")
        topics.write("in", [{"value": str(n), "partition": n % 2} for n in range(1000)])
        outcome = run_program([PROGRAMS, "kafka", "local[2]", broker.servers, f"{tmp_path}/mark"])
        assert outcome.code == 0, outcome.err
        assert (tmp_path / "mark").exists()
        assert sorted(map(int, topics.values("out"))) == list(range(1000))
    finally:
        broker.stop()


def test_rabbitmq_by_tls_loses_nothing_after_a_failure(tmp_path):
    pytest.importorskip("pika")
    from support.rabbitmq_server import Client, RabbitMQ

    certificate = own_certificate(tmp_path / "server.pem")
    (tmp_path / "broker").mkdir()
    broker = RabbitMQ(tmp_path / "broker", certificate)
    client = Client(broker)
    try:
        client.declare("in")
        client.declare("out")
        numbers = [str(n) for n in range(100)]
        client.publish("in", numbers, numbers)
        uri = broker.uri(port=broker.tls_port).replace("amqp://", "amqps://")
        process = subprocess.Popen(
            [sys.executable, PROGRAMS, "rabbitmq", "local[2]", uri, f"{tmp_path}/mark"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "SSL_CERT_FILE": str(certificate)},
            start_new_session=True,
        )
        ids = set()
        while len(ids) < 100:
            ids.update(name for _, name in client.take("out", 1))
        _, err = process.communicate("stop\n", timeout=LIMIT_S)
        assert process.returncode == 0, err
        assert_nothing_left(process.pid)
        assert ids == set(numbers)
        assert (tmp_path / "mark").exists()
    finally:
        client.close()
        broker.close()
