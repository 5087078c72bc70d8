"""Parquet: files of columns as rows."""

from penstock.common.configuration import Configuration as Configuration
from penstock.common.serialization import BulkWriterFactory as BulkWriterFactory
from penstock.common.serialization import RowDataBulkWriterFactory as RowDataBulkWriterFactory
from penstock.datastream.utils import create_hadoop_configuration as create_hadoop_configuration
from penstock.formats.avro import AvroSchema as AvroSchema
from penstock.formats.file_format import BulkFormat as BulkFormat
from penstock.formats.lines import StreamFormat as StreamFormat
from penstock.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
    ParquetColumnInputFormat,
)

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnInputFormat",
    "ParquetColumnarRowInputFormat",
]
