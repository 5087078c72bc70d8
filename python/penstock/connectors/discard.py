"""A sink that drops every record: for measurements, and to end a stream."""

from __future__ import annotations

from penstock.connectors.base import Sink
from penstock.graph import operators

__all__ = ["DiscardingSink"]


class DiscardingSink(Sink):
    """Drops what it is given, at any parallelism."""

    def __init__(self) -> None:
        """Makes the sink."""
        super().__init__(None)

    def sink_operator(self) -> operators.DiscardingSink:
        """The operator that drops records."""
        return operators.DiscardingSink()
