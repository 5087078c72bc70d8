"""The functions of joins and of split (beyond PyFlink)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable


class JoinFunction(Function):
    """A function that joins two records of one key and window."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Return the record to emit for a pair."""


class FlatJoinFunction(Function):
    """A function that joins two records of one key and window into any number."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any]:
        """Return the records to emit for a pair."""


class CoGroupFunction(Function):
    """A function of all records of one key and window of two streams; one side may be empty."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any]:
        """Return the records to emit for the group."""


class ProcessJoinFunction(Function):
    """A function that joins two records of one key whose timestamps lie within an interval."""

    class Context(ABC):
        """The context of a pair; all times are in ms."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Return the timestamp of the left record."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Return the timestamp of the right record."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the larger of both timestamps, which the results have."""

    @abstractmethod
    def process_element(
        self, left: Any, right: Any, ctx: ProcessJoinFunction.Context
    ) -> Iterable[Any] | None:
        """Return the records to emit for a pair."""


class OutputSelector(Function):
    """A function that names the outputs of a split to which a record goes."""

    @abstractmethod
    def select(self, value: Any) -> Iterable[str]:
        """Return the names of the outputs."""
