"""CSV: lines as rows, and rows as lines."""

from penstock.common.serialization import BulkWriterFactory as BulkWriterFactory
from penstock.common.serialization import DeserializationSchema as DeserializationSchema
from penstock.common.serialization import RowDataBulkWriterFactory as RowDataBulkWriterFactory
from penstock.common.serialization import SerializationSchema as SerializationSchema
from penstock.common.typeinfo import TypeInformation as TypeInformation
from penstock.formats.csv import (
    CsvBulkWriters,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)
from penstock.formats.csv_files import CsvReaderFormat
from penstock.formats.csv_schema import CsvSchema, CsvSchemaBuilder
from penstock.formats.lines import StreamFormat as StreamFormat

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
