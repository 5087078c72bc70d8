"""MQTT: a source and a sink."""
