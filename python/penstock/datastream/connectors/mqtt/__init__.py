"""MQTT: MqttSource and MqttSink (beyond PyFlink)."""

from penstock.datastream.connectors.mqtt.sink import MqttSink
from penstock.datastream.connectors.mqtt.source import MqttSource

__all__ = ["MqttSink", "MqttSource"]
