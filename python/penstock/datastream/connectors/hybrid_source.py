"""HybridSource: one source after the other."""

from penstock.connectors.base import Source as Source
from penstock.connectors.hybrid.source import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder"]
