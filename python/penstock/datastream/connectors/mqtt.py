"""MQTT: MqttSource and MqttSink (beyond PyFlink)."""

from penstock.connectors.mqtt.sink import MqttSink
from penstock.connectors.mqtt.source import MqttSource

__all__ = ["MqttSink", "MqttSource"]
