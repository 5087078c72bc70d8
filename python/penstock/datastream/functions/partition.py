"""The function of full window partitions (beyond PyFlink)."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable


class MapPartitionFunction(Function):
    """A function of all records of a partition, called when the input has ended."""

    @abstractmethod
    def map_partition(self, values: Iterable[Any]) -> Iterable[Any] | None:
        """Return the records to emit for those of a partition."""
