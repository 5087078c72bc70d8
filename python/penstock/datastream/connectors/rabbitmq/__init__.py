"""RabbitMQ: RMQSource, RMQSink and what says where the broker is."""

from penstock.datastream.connectors.rabbitmq.connection_config import RMQConnectionConfig
from penstock.datastream.connectors.rabbitmq.sink import RMQSink
from penstock.datastream.connectors.rabbitmq.source import RMQSource

__all__ = ["RMQConnectionConfig", "RMQSink", "RMQSource"]
