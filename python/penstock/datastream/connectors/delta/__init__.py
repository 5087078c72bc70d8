"""Tables of Delta Lake: a sink, and a source of snapshots."""

from penstock.datastream.connectors.delta.sink import DeltaSink
from penstock.datastream.connectors.delta.source import DeltaSource

__all__ = ["DeltaSink", "DeltaSource"]
