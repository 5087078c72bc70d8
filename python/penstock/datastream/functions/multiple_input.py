"""Functions of any number of streams (beyond PyFlink)."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.functions.process import KeyedProcessFunction, ProcessFunction


class MultipleInputProcessFunction(Function):
    """A function that converts the records of several streams to any number of results."""

    @abstractmethod
    def process_element(
        self, input_number: int, value: Any, ctx: ProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return the records to emit for one of the stream ``input_number``, counted from 0."""


class KeyedMultipleInputProcessFunction(Function):
    """A function for several streams with common keys, which returns any number of results."""

    @abstractmethod
    def process_element(
        self, input_number: int, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return the records to emit for one of the stream ``input_number``, counted from 0."""

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterable[Any] | None:
        """Return the records to emit when a timer of the current key fires."""
