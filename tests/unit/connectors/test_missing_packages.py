"""A connector whose package is missing names the package and the extra when it is built."""

import sys

import pytest
from penstock.common import SimpleStringSchema, Types
from penstock.datastream.connectors.elasticsearch import (
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
)
from penstock.datastream.connectors.kinesis import FlinkKinesisConsumer
from penstock.datastream.connectors.mongodb import MongoSink
from penstock.datastream.connectors.mqtt import MqttSink, MqttSource
from penstock.datastream.connectors.postgres_cdc import PostgresCdcSource
from penstock.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource
from penstock.datastream.connectors.redis import RedisSink
from penstock.errors import DependencyError

TEXT = SimpleStringSchema()


def rabbitmq():
    made = RMQConnectionConfig.Builder().set_host("h").set_port(1).set_virtual_host("/")
    return made.set_user_name("ann").set_password("secret").build()


def elasticsearch():
    builder = Elasticsearch7SinkBuilder().set_hosts("h:9200")
    return builder.set_emitter(ElasticsearchEmitter.static_index("users")).build()


@pytest.mark.parametrize(
    ("package", "message", "make"),
    [
        ("paho.mqtt.client", r"paho-mqtt: .*\[mqtt\]", lambda: MqttSink("mqtt://h", "a")),
        ("paho.mqtt.client", r"paho-mqtt: .*\[mqtt\]", lambda: MqttSource("mqtt://h", "a", "job")),
        ("pika", r"pika: .*\[rabbitmq\]", lambda: RMQSource(rabbitmq(), "q", True, TEXT)),
        ("pika", r"pika: .*\[rabbitmq\]", lambda: RMQSink(rabbitmq(), "q", TEXT)),
        ("elastic_transport", r"elastic-transport: .*\[elasticsearch\]", elasticsearch),
        ("pymongo", r"pymongo: .*\[mongodb\]", lambda: MongoSink("mongodb://h", "d", "c")),
        (
            "boto3",
            r"boto3: .*\[kinesis\]",
            lambda: FlinkKinesisConsumer("s", TEXT, {"aws.region": "eu-west-1"}),
        ),
        ("redis", r"\[redis\]", lambda: RedisSink("redis://localhost", str)),
        (
            "psycopg",
            r"\[postgres\]",
            lambda: PostgresCdcSource(
                "postgresql://h/d", "t", Types.ROW_NAMED(["id"], [Types.LONG()]), slot="s"
            ),
        ),
    ],
)
def test_it_names_the_package_and_the_extra(monkeypatch, package, message, make):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DependencyError, match=rf"{message}'") as raised:
        make()
    assert "pip install 'penstock-engine[" in str(raised.value)
