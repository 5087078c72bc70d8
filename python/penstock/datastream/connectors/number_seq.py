"""NumberSequenceSource: a range of integers."""

from penstock.connectors.base import Source as Source
from penstock.connectors.datagen.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
