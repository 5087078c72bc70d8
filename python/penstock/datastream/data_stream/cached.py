"""CachedDataStream: a stream that later jobs may use again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar

from penstock.datastream.data_stream.stream import DataStream
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from penstock.datastream.output_tag import OutputTag
    from penstock.datastream.slot_sharing_group import SlotSharingGroup

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

    def get_name(self) -> NoReturn:
        """Refused: the stream before cache() has the name."""
        self._refuse("get_name")

    def name(self, name: str) -> NoReturn:  # noqa: ARG002
        """Refused: set it on the stream before cache()."""
        self._refuse("name")

    def uid(self, uid: str) -> NoReturn:  # noqa: ARG002
        """Refused: set it on the stream before cache()."""
        self._refuse("uid")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:  # noqa: ARG002
        """Refused: set it on the stream before cache()."""
        self._refuse("set_uid_hash")

    def set_parallelism(self, parallelism: int) -> NoReturn:  # noqa: ARG002
        """Refused: set it on the stream before cache()."""
        self._refuse("set_parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:  # noqa: ARG002
        """Refused: set it on the stream before cache()."""
        self._refuse("set_max_parallelism")

    def force_non_parallel(self) -> NoReturn:
        """Refused: set it on the stream before cache()."""
        self._refuse("force_non_parallel")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:  # noqa: ARG002
        """Refused: set it on the stream before cache()."""
        self._refuse("set_buffer_timeout")

    def start_new_chain(self) -> NoReturn:
        """Refused: set it on the stream before cache()."""
        self._refuse("start_new_chain")

    def disable_chaining(self) -> NoReturn:
        """Refused: set it on the stream before cache()."""
        self._refuse("disable_chaining")

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> NoReturn:  # noqa: ARG002
        """Refused: set it on the stream before cache()."""
        self._refuse("slot_sharing_group")

    def cache(self) -> NoReturn:
        """Refused: it is cached already."""
        self._refuse("cache")

    def get_side_output(self, output_tag: OutputTag) -> NoReturn:  # noqa: ARG002
        """Refused: the stream before cache() has it."""
        self._refuse("get_side_output")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidProgramError(
            f"{what}() is not supported on a CachedDataStream, which only keeps what an operator "
            "made: call it on the stream before cache()"
        )
