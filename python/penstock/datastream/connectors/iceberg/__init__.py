"""Tables of Apache Iceberg: a source and a sink."""

from penstock.datastream.connectors.iceberg.sink import IcebergSink
from penstock.datastream.connectors.iceberg.source import IcebergSource

__all__ = ["IcebergSink", "IcebergSource"]
