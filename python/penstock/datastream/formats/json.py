"""JSON: PyFlink's classes wrap a Java library and are refused here."""

from penstock.datastream.refused import refused_class

__all__ = [
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]

_INSTEAD = "decode and encode in map functions with the json module"

JsonRowDeserializationSchema = refused_class("JsonRowDeserializationSchema", _INSTEAD)
JsonRowSerializationSchema = refused_class("JsonRowSerializationSchema", _INSTEAD)
