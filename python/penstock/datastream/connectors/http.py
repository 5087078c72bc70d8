"""HTTP: a sink that posts batches, and a source that polls a service (beyond PyFlink)."""

from penstock.connectors.http.sink import HttpSink
from penstock.connectors.http.source import HttpSource

__all__ = ["HttpSink", "HttpSource"]
