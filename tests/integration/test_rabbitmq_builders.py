"""Connections to RabbitMQ as they are built: a builder's settings, and rejected ones."""

import pytest
from penstock.common import SimpleStringSchema
from penstock.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource
from penstock.errors import InvalidProgramError

pytest.importorskip("pika")

TEXT = SimpleStringSchema()
NO_HOST = "amqp://u:secret@/"


def complete():
    made = RMQConnectionConfig.Builder().set_host("h").set_port(1).set_virtual_host("/v")
    return made.set_user_name("ann").set_password("secret")


def test_a_configuration_returns_the_settings_of_its_builder():
    made = complete().set_topology_recovery_enabled(False).set_requested_heartbeat(7)
    made.set_requested_frame_max(5000).set_requested_channel_max(3).set_prefetch_count(9)
    made.set_connection_timeout(8).set_automatic_recovery(True).set_network_recovery_interval(6)
    config = made.build()
    assert (config.get_host(), config.get_port(), config.get_virtual_host()) == ("h", 1, "/v")
    assert (config.get_user_name(), config.get_password(), config.get_uri()) == (
        "ann",
        "secret",
        None,
    )
    assert config.is_topology_recovery() is False
    assert config.is_automatic_recovery() is True
    assert config.get_requested_heartbeat() == 7
    assert config.get_requested_frame_max() == 5000
    assert config.get_requested_channel_max() == 3
    assert config.get_prefetch_count() == 9
    assert config.get_connection_timeout() == 8
    assert config.get_network_recovery_interval() == 6
    assert "secret" not in repr(config)
    uri = RMQConnectionConfig.Builder().set_uri("amqps://h/%2Fv").build()
    address = uri.address()
    assert (address.host, address.port, address.virtual_host) == ("h", 5671, "/v")
    assert (address.user_name, address.password, address.has_tls) == ("guest", "guest", True)
    assert uri.get_uri() == "amqps://h/%2Fv"
    assert uri.get_host() is uri.get_prefetch_count() is uri.is_automatic_recovery() is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda config: RMQSource("h", "q", True, TEXT), "takes an RMQConnectionConfig, got 'h'"),
        (lambda config: RMQSource(config, "", True, TEXT), "a text of 1 to 255 bytes, got ''"),
        (lambda config: RMQSource(config, "q", 1, TEXT), "use_correlation_id is True or False"),
        (lambda config: RMQSource(config, "q", True, None), "takes a DeserializationSchema"),
        (lambda config: RMQSource(config, "q", True, TEXT, dead_letters=3), "takes an OutputTag"),
        (lambda config: RMQSink(None, "q", TEXT), "takes an RMQConnectionConfig, got None"),
        (lambda config: RMQSink(config, 3, TEXT), "a text of 1 to 255 bytes, got 3"),
        (lambda config: RMQSink(config, "q", 3), "takes a SerializationSchema, got 3"),
        (lambda config: RMQSink(config, "q", TEXT, correlation_id="x"), "a function of a record"),
        (lambda config: RMQSink(config, "q", TEXT, timeout_ms=0), "timeout_ms is at least 1"),
        (lambda config: RMQConnectionConfig.Builder().build(), "needs set_host, or set_uri"),
        (lambda config: complete().set_uri("amqp://h").build(), "takes set_uri or set_host"),
        (lambda config: complete().set_port("x"), "port is a number from 1 to 65535, got 'x'"),
        (lambda config: complete().set_password(3), "password is a text, got what was given"),
        (lambda config: complete().set_automatic_recovery(1), "is True or False, got 1"),
        (lambda config: complete().set_prefetch_count(0), "from 1 to 65535, got 0"),
        (lambda config: complete().set_uri("http://h"), "takes a URI as amqp://"),
        (lambda config: complete().set_uri(NO_HOST), "the host None"),
        (lambda config: complete().set_uri("amqp://h?heartbeat=5"), "with more behind it"),
        (lambda config: complete().set_uri("amqp://h:99999"), "takes a URI as amqp://"),
        (lambda config: complete().set_host(""), "host is a text that is not empty"),
        (lambda config: complete().set_user_name(""), "user_name is a text that is not empty"),
        (lambda config: RMQSink(config, "q", TEXT, timeout_ms="x"), "timeout_ms must be a whole"),
    ],
)
def test_arguments_that_cannot_be_meant(make, message):
    with pytest.raises(InvalidProgramError, match=message) as raised:
        make(complete().build())
    assert "secret" not in str(raised.value)
