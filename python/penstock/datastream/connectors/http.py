"""HTTP: posts batches of records to a web service, and reads the pages of one (beyond PyFlink)."""

from penstock.connectors.http.sink import HttpSink
from penstock.connectors.http.source import HttpSource

__all__ = ["HttpSink", "HttpSource"]
