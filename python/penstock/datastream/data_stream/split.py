"""SplitStream: the older form of side outputs (beyond PyFlink)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock.datastream.data_stream.stream import DataStream
from penstock.errors import InvalidProgramError
from penstock.graph.transformations import SelectTransformation, SplitTransformation

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

T = TypeVar("T")


class SplitStream(DataStream[T]):
    """A stream whose records a selector names; without `select` it has all records."""

    def __init__(self, environment: StreamExecutionEnvironment, split: SplitTransformation) -> None:
        """Use `DataStream.split`."""
        super().__init__(environment, split)
        self._split = split

    def select(self, *output_names: str) -> DataStream[T]:
        """Return the stream of the records with one of the names.

        Raises:
            InvalidProgramError: There is no name, or a name is not a string.
        """
        names: tuple[Any, ...] = output_names
        if not names or not all(isinstance(name, str) for name in names):
            raise InvalidProgramError(f"select takes names of outputs, got {names!r}")
        return DataStream(self._environment, SelectTransformation(self._split, output_names))
