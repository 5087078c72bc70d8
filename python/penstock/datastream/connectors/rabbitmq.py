"""RabbitMQ: RMQSource, RMQSink and the configuration of their connections."""

from penstock.common.serialization import DeserializationSchema as DeserializationSchema
from penstock.common.serialization import SerializationSchema as SerializationSchema
from penstock.connectors.rabbitmq.connection_config import RMQConnectionConfig
from penstock.connectors.rabbitmq.sink import RMQSink
from penstock.connectors.rabbitmq.source import RMQSource
from penstock.datastream.functions.source_sink import SinkFunction as SinkFunction
from penstock.datastream.functions.source_sink import SourceFunction as SourceFunction

__all__ = ["RMQConnectionConfig", "RMQSink", "RMQSource"]
