"""Formats of files and messages."""

from penstock.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, {}, ("avro", "csv", "json", "orc", "parquet"))
