"""CSV: PyFlink's classes wrap a Java library and are refused here."""

from penstock.datastream.refused import refused_class

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]

_INSTEAD = "decode lines in a map function with the csv module"

CsvBulkWriters = refused_class("CsvBulkWriters", _INSTEAD)
CsvReaderFormat = refused_class("CsvReaderFormat", _INSTEAD)
CsvRowDeserializationSchema = refused_class("CsvRowDeserializationSchema", _INSTEAD)
CsvRowSerializationSchema = refused_class("CsvRowSerializationSchema", _INSTEAD)
CsvSchema = refused_class("CsvSchema", _INSTEAD)
CsvSchemaBuilder = refused_class("CsvSchemaBuilder", _INSTEAD)
