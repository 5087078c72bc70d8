"""RabbitMQ: PyFlink's classes wrap a Java library and are refused here."""

from penstock.datastream.refused import refused_class

__all__ = [
    "RMQConnectionConfig",
    "RMQSink",
    "RMQSource",
]

_INSTEAD = "write a SourceFunction or SinkFunction with the pika package"

RMQConnectionConfig = refused_class("RMQConnectionConfig", _INSTEAD)
RMQSink = refused_class("RMQSink", _INSTEAD)
RMQSource = refused_class("RMQSource", _INSTEAD)
