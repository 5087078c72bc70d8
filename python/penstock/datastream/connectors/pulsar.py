"""Pulsar: PyFlink's classes wrap a Java library and are refused here."""

from penstock.datastream.refused import refused_class

__all__ = [
    "MessageDelayer",
    "PulsarSink",
    "PulsarSinkBuilder",
    "PulsarSource",
    "PulsarSourceBuilder",
    "RangeGenerator",
    "StartCursor",
    "StopCursor",
    "TopicRoutingMode",
]

_INSTEAD = "write a SourceFunction or SinkFunction with the pulsar-client package"

MessageDelayer = refused_class("MessageDelayer", _INSTEAD)
PulsarSink = refused_class("PulsarSink", _INSTEAD)
PulsarSinkBuilder = refused_class("PulsarSinkBuilder", _INSTEAD)
PulsarSource = refused_class("PulsarSource", _INSTEAD)
PulsarSourceBuilder = refused_class("PulsarSourceBuilder", _INSTEAD)
RangeGenerator = refused_class("RangeGenerator", _INSTEAD)
StartCursor = refused_class("StartCursor", _INSTEAD)
StopCursor = refused_class("StopCursor", _INSTEAD)
TopicRoutingMode = refused_class("TopicRoutingMode", _INSTEAD)
