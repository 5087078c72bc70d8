"""A sink that takes every record and keeps none: for measurements, and to end a stream."""

from penstock.connectors.discard import DiscardingSink

__all__ = ["DiscardingSink"]
