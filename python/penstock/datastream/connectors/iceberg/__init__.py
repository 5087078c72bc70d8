"""Tables of Apache Iceberg: a sink."""

from penstock.datastream.connectors.iceberg.sink import IcebergSink

__all__ = ["IcebergSink"]
