"""Process functions: records, timestamps, timers and side outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.time_domain import TimeDomain
    from penstock.datastream.timerservice import TimerService


class ProcessFunction(Function):
    """A function that converts each record to any number of results, with timestamps.

    A yielded pair of an OutputTag and a value goes to that side output.
    """

    class Context(ABC):
        """Context of the current record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the time; timers need a keyed stream."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the record's timestamp in ms, -2**63 if it has none."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Return the records to emit."""


class KeyedProcessFunction(Function):
    """A function with state and timers per key, which returns any number of results."""

    class Context(ABC):
        """Context of the current record."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the record or timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the time and timers."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the record's timestamp in ms, -2**63 if it has none."""

    class OnTimerContext(Context):
        """Context of a timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock of the timer."""

    @abstractmethod
    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return the records to emit."""

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterable[Any] | None:
        """Return the records to emit when a timer of the current key fires."""


class CoProcessFunction(Function):
    """A function that converts the records of two streams to any number of results."""

    class Context(ABC):
        """Context of the current record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the time; timers need keyed streams."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the record's timestamp in ms, -2**63 if it has none."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Return the records to emit for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Return the records to emit for a record of the second stream."""


class KeyedCoProcessFunction(Function):
    """A function for two streams with common keys, which returns any number of results."""

    class Context(ABC):
        """Context of the current record."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the record or timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the time and timers."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the record's timestamp in ms, -2**63 if it has none."""

    class OnTimerContext(Context):
        """Context of a timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock of the timer."""

    @abstractmethod
    def process_element1(
        self, value: Any, ctx: KeyedCoProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return the records to emit for a record of the first stream."""

    @abstractmethod
    def process_element2(
        self, value: Any, ctx: KeyedCoProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return the records to emit for a record of the second stream."""

    def on_timer(
        self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext
    ) -> Iterable[Any] | None:
        """Return the records to emit when a timer of the current key fires."""
