"""Functions of matches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable


class PatternProcessFunction(Function):
    """Emits any number of records for each match.

    A yielded pair of an OutputTag and a value goes to that side output.
    """

    class Context(ABC):
        """Times of the current match."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the timestamp of the match, in ms: that of its last record.

            A match completed by time has the time at which the window ends.
            """

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time, in ms."""

    @abstractmethod
    def process_match(
        self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return the records to emit for a match.

        Args:
            match: By name of each part that has records, its records in order.
            ctx: The times of the match.
        """


class TimedOutPartialMatchHandler(ABC):
    """A mixin of functions that also handle the partial matches that ``within`` ends."""

    @abstractmethod
    def process_timed_out_match(
        self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return pairs of an OutputTag and a value to emit to side outputs."""
