"""Calls the user's function of a window, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.datastream.functions.window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.errors import InvalidProgramError

#: ``evaluate(key, window, elements)`` gives what the window emits.
Evaluate = Callable[[Any, Any, Iterable[Any]], Iterable[Any]]


class WindowStateStore:
    """Keyed state in one namespace: that of a window, or that all windows of a key share."""

    def __init__(self, operator: Any, namespace: Any, *, allowed: bool) -> None:
        """Opens the store; ``allowed`` is False for windows that merge."""
        self._operator = operator
        self._namespace = namespace
        self._allowed = allowed

    def get_state(self, state_descriptor: Any) -> Any:
        """One value."""
        return self._state(state_descriptor)

    def get_list_state(self, state_descriptor: Any) -> Any:
        """A list."""
        return self._state(state_descriptor)

    def get_map_state(self, state_descriptor: Any) -> Any:
        """A map."""
        return self._state(state_descriptor)

    def get_reducing_state(self, state_descriptor: Any) -> Any:
        """One value into which others are folded."""
        return self._state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: Any) -> Any:
        """An accumulator with a view of its result."""
        return self._state(state_descriptor)

    def _state(self, descriptor: Any) -> Any:
        if not self._allowed:
            msg = "windows that merge cannot have state of their own: use global_state()"
            raise InvalidProgramError(msg)
        context = self._operator.context
        state = context.keyed_state.partitioned_state(self._namespace, descriptor)
        return context.isolation.state(state, descriptor)


class WindowContext(ProcessWindowFunction.Context[Any], ProcessAllWindowFunction.Context[Any]):
    """What process window functions see; one object for all windows."""

    def __init__(self, operator: Any) -> None:
        """Creates the context of an operator."""
        self._operator = operator
        self.current_window: Any = None

    def window(self) -> Any:
        """The window."""
        return self.current_window

    def current_processing_time(self) -> int:
        """The time of the machine's clock in ms."""
        now: int = self._operator.timers.current_processing_time()
        return now

    def current_watermark(self) -> int:
        """The event time reached, in ms."""
        watermark: int = self._operator.timers.current_watermark
        return watermark

    def window_state(self) -> Any:
        """State of this key and window."""
        return WindowStateStore(
            self._operator, self.current_window, allowed=not self._operator.is_merging
        )

    def global_state(self) -> Any:
        """State of this key that all its windows share."""
        return WindowStateStore(self._operator, None, allowed=True)


def evaluation(function: Any, context: WindowContext) -> Evaluate:
    """How a window function is called; without one the elements are emitted as they are.

    Raises:
        InvalidProgramError: It is no window function.
    """
    if function is None:
        return _as_they_are
    if isinstance(function, WindowFunction):
        return function.apply
    if isinstance(function, AllWindowFunction):

        def apply_all(key: Any, window: Any, elements: Iterable[Any]) -> Iterable[Any]:
            del key
            return function.apply(window, elements)

        return apply_all
    if isinstance(function, ProcessWindowFunction):

        def process(key: Any, window: Any, elements: Iterable[Any]) -> Iterable[Any]:
            context.current_window = window
            return function.process(key, context, elements)

        return process
    if isinstance(function, ProcessAllWindowFunction):

        def process_all(key: Any, window: Any, elements: Iterable[Any]) -> Iterable[Any]:
            del key
            context.current_window = window
            return function.process(context, elements)

        return process_all
    msg = f"{function!r} is no window function"
    raise InvalidProgramError(msg)


def _as_they_are(key: Any, window: Any, elements: Iterable[Any]) -> Iterable[Any]:
    del key, window
    return elements
