"""MongoDB: documents of a collection and their changes (beyond PyFlink)."""

from penstock.connectors.mongodb.sink import MongoSink
from penstock.connectors.mongodb.source import MongoCdcSource

__all__ = ["MongoCdcSource", "MongoSink"]
