"""Tables of Delta Lake: a sink, and a source of snapshots."""

from penstock.connectors.delta.sink import DeltaSink
from penstock.connectors.delta.source import DeltaSource

__all__ = ["DeltaSink", "DeltaSource"]
