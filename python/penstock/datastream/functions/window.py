"""The functions of windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.functions.runtime_context import KeyedStateStore
    from penstock.datastream.window.windows import Window

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W", bound="Window")
W2 = TypeVar("W2", bound="Window")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """A function of the records in one window of one key."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return the records to emit when the window fires."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """A function of the records in one window over all keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return the records to emit when the window fires."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """A function of the records in one window of one key, with state."""

    class Context(ABC, Generic[W2]):
        """The context of the window that fires."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time of the machine's clock, in ms."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the current watermark, in ms."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the state of this key and window; remove its values in `clear`."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the state of this key that all its windows share."""

    @abstractmethod
    def process(
        self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT]:
        """Return the records to emit when the window fires."""

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """Remove the function's values from `window_state`; called when the window ends."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """A function of the records in one window over all keys, with state."""

    class Context(ABC, Generic[W2]):
        """The context of the window that fires."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the state of this window; remove its values in `clear`."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the state that all windows share."""

    @abstractmethod
    def process(
        self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT]:
        """Return the records to emit when the window fires."""

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """Remove the function's values from `window_state`; called when the window ends."""
