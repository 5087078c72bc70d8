"""ORC: files of columns as rows."""

from penstock.common.configuration import Configuration as Configuration
from penstock.common.serialization import BulkWriterFactory as BulkWriterFactory
from penstock.common.serialization import RowDataBulkWriterFactory as RowDataBulkWriterFactory
from penstock.datastream.utils import create_hadoop_configuration as create_hadoop_configuration
from penstock.datastream.utils import create_java_properties as create_java_properties
from penstock.formats.orc import OrcBulkWriters, OrcColumnarRowInputFormat

__all__ = ["OrcBulkWriters", "OrcColumnarRowInputFormat"]
