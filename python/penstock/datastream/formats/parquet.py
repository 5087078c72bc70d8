"""Parquet: PyFlink's classes wrap a Java library and are refused here."""

from penstock.datastream.refused import refused_class

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]

_INSTEAD = "read and write in functions with the pyarrow package"

AvroParquetReaders = refused_class("AvroParquetReaders", _INSTEAD)
AvroParquetWriters = refused_class("AvroParquetWriters", _INSTEAD)
ParquetBulkWriters = refused_class("ParquetBulkWriters", _INSTEAD)
ParquetColumnarRowInputFormat = refused_class("ParquetColumnarRowInputFormat", _INSTEAD)
