"""Avro with a schema registry: records behind the number of the schema that wrote them.

The wire format is Confluent's: a zero, four bytes of the schema's number, the record.
"""

from penstock.formats.avro_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)

__all__ = ["ConfluentRegistryAvroDeserializationSchema", "ConfluentRegistryAvroSerializationSchema"]
