"""CachedDataStream: a stream that later jobs may use again."""

from __future__ import annotations

from typing import TypeVar

from penstock.datastream.data_stream.stream import DataStream

T = TypeVar("T")


class CachedDataStream(DataStream[T]):
    """A stream marked for use in several jobs.

    Within one job all consumers share its one operator.  A later job computes it anew, as Flink
    does when the cached data is gone: the results are the same, only the work is done again.
    """

    def __init__(self, stream: DataStream[T]) -> None:
        """Marks a stream; use `DataStream.cache`."""
        super().__init__(
            stream.get_execution_environment(),
            stream.transformation,
            non_parallel=stream._non_parallel,
        )

    def invalidate(self) -> None:
        """Drops what was kept; nothing is, so there is nothing to do."""
