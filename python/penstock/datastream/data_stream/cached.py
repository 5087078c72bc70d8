"""CachedDataStream: a stream that later jobs may use again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar

from penstock.datastream.data_stream.refused_settings import RefusedSettings
from penstock.datastream.data_stream.stream import DataStream
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from penstock.datastream.output_tag import OutputTag

T = TypeVar("T")


class CachedDataStream(RefusedSettings, DataStream[T]):
    """A stream marked for use in several jobs.

    Within one job, all consumers share its operator.  A later job computes it again, as Flink does
    if the cached data is gone: only the work is repeated, the results are the same.
    """

    def __init__(self, stream: DataStream[T]) -> None:
        """Mark a stream; use `DataStream.cache`."""
        super().__init__(
            stream.get_execution_environment(),
            stream.transformation,
            non_parallel=stream._non_parallel,
        )

    def invalidate(self) -> None:
        """Do nothing: no data is cached."""

    def cache(self) -> NoReturn:
        """Reject the call: it is cached already."""
        self._refuse("cache")

    def get_side_output(self, output_tag: OutputTag) -> NoReturn:  # noqa: ARG002
        """Reject the call: the stream before cache() has it."""
        self._refuse("get_side_output")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidProgramError(
            f"{what}() is not supported on a CachedDataStream, which only keeps what an operator "
            "made: call it on the stream before cache()"
        )
