"""Process functions beside a broadcast stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.state import (
        BroadcastState,
        MapStateDescriptor,
        ReadOnlyBroadcastState,
    )
    from penstock.datastream.time_domain import TimeDomain
    from penstock.datastream.timerservice import TimerService

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class BaseBroadcastProcessFunction(Function):
    """Common part of both broadcast functions."""

    class BaseContext(ABC):
        """Context of the current record."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the record's timestamp in ms, -2**63 if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time of the machine's clock, in ms."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the current watermark, in ms."""

    class Context(BaseContext):
        """The context of the broadcast side, which may change the state."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> BroadcastState[Any, Any]:
            """Return the state of that descriptor."""

    class ReadOnlyContext(BaseContext):
        """The context of the other side, which may only read the state."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> ReadOnlyBroadcastState[Any, Any]:
            """Return a view of the state of that descriptor."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """A function of a plain stream and a broadcast one."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """Context of the broadcast side."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """Context of the other side."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[OUT] | None:
        """Return the records to emit for a record of the plain stream."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: BroadcastProcessFunction.Context
    ) -> Iterable[OUT] | None:
        """Return the records to emit for a broadcast record, which every subtask receives."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A function of a keyed stream and a broadcast one."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """Context of the broadcast side."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """Context of the keyed side."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the time and timers."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the record or timer."""

    class OnTimerContext(ReadOnlyContext, ABC):
        """Context of a timer that fires."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock of the timer."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the timer."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[OUT] | None:
        """Return the records to emit for a record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterable[OUT] | None:
        """Return the records to emit for a broadcast record, which every subtask receives."""

    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext
    ) -> Iterable[OUT] | None:
        """Return the records to emit when a timer of the current key fires."""
