"""A sink that takes every element and keeps none: for measurements, and to end a stream."""

from penstock.connectors.discard import DiscardingSink

__all__ = ["DiscardingSink"]
