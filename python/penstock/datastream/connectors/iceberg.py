"""Tables of Apache Iceberg: a source and a sink."""

from penstock.connectors.iceberg.sink import IcebergSink
from penstock.connectors.iceberg.source import IcebergSource

__all__ = ["IcebergSink", "IcebergSource"]
