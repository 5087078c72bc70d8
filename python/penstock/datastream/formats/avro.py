"""Avro: PyFlink's classes wrap a Java library and are refused here."""

from penstock.datastream.refused import refused_class

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]

_INSTEAD = "decode in a map function with the fastavro package"

AvroBulkWriters = refused_class("AvroBulkWriters", _INSTEAD)
AvroInputFormat = refused_class("AvroInputFormat", _INSTEAD)
AvroRowDeserializationSchema = refused_class("AvroRowDeserializationSchema", _INSTEAD)
AvroRowSerializationSchema = refused_class("AvroRowSerializationSchema", _INSTEAD)
AvroSchema = refused_class("AvroSchema", _INSTEAD)
GenericRecordAvroTypeInfo = refused_class("GenericRecordAvroTypeInfo", _INSTEAD)
