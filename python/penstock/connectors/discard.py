"""A sink that drops every record: for measurements, and to end a stream."""

from __future__ import annotations

from penstock.connectors.base import Sink
from penstock.graph import operators

__all__ = ["DiscardingSink"]


class DiscardingSink(Sink):
    """Drops all records, at any parallelism."""

    def __init__(self) -> None:
        """Create a sink."""
        super().__init__(None)

    def sink_operator(self) -> operators.DiscardingSink:
        """Return the descriptor of the operator that drops records."""
        return operators.DiscardingSink()
