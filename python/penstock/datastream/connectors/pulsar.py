"""Pulsar: PyFlink's classes wrap a Java library and are rejected here."""

from penstock.common.config_options import ConfigOption as ConfigOption
from penstock.common.config_options import ConfigOptions as ConfigOptions
from penstock.common.serialization import DeserializationSchema as DeserializationSchema
from penstock.common.serialization import SerializationSchema as SerializationSchema
from penstock.common.time import Duration as Duration
from penstock.connectors.base import DeliveryGuarantee as DeliveryGuarantee
from penstock.connectors.base import Sink as Sink
from penstock.connectors.base import Source as Source
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
