"""Avro with a schema registry: records that begin with the id of their schema.

The wire format is Confluent's: a zero byte, the id of the schema in four bytes, and the record.
"""

from penstock.formats.avro_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)

__all__ = ["ConfluentRegistryAvroDeserializationSchema", "ConfluentRegistryAvroSerializationSchema"]
