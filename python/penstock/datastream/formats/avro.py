"""Avro: records as rows, and rows as records."""

from penstock.common.io import InputFormat as InputFormat
from penstock.common.serialization import BulkWriterFactory as BulkWriterFactory
from penstock.common.serialization import DeserializationSchema as DeserializationSchema
from penstock.common.serialization import SerializationSchema as SerializationSchema
from penstock.common.typeinfo import TypeInformation as TypeInformation
from penstock.datastream.utils import ResultTypeQueryable as ResultTypeQueryable
from penstock.formats.avro import (
    AvroBulkWriters,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from penstock.formats.avro_files import AvroInputFormat

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]
