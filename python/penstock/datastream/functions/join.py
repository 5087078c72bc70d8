"""The functions of joins and of split (beyond PyFlink)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable


class JoinFunction(Function):
    """Joins two records of one key and window."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Return the record to emit for a pair."""


class FlatJoinFunction(Function):
    """Joins two records of one key and window into any number."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any]:
        """Return the records to emit for a pair."""


class CoGroupFunction(Function):
    """Sees all records of both streams of one key and window; one side may be empty."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any]:
        """Return the records to emit for the group."""


class ProcessJoinFunction(Function):
    """Joins two records of one key whose timestamps lie within an interval."""

    class Context(ABC):
        """Context of a pair; all times in ms."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Return the timestamp of the left record."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Return the timestamp of the right record."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the larger of both, which the results carry."""

    @abstractmethod
    def process_element(
        self, left: Any, right: Any, ctx: ProcessJoinFunction.Context
    ) -> Iterable[Any] | None:
        """Return the records to emit for a pair."""


class OutputSelector(Function):
    """Names the outputs of a split that get a record."""

    @abstractmethod
    def select(self, value: Any) -> Iterable[str]:
        """The names of the outputs."""
