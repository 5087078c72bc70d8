"""A sink that drops every record: for measurements, and to end a stream."""

from penstock.connectors.discard import DiscardingSink

__all__ = ["DiscardingSink"]
