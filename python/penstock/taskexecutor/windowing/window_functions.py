"""The user's functions of a window, and uniform calls to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from penstock.common.calls.first_results import warn_of_parts
from penstock.common.options.pipeline import WINDOW_RESULT_TIMESTAMP
from penstock.datastream.functions.window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.errors import InvalidProgramError
from penstock.taskexecutor.compiled import close_function, open_function
from penstock.taskexecutor.copies.isolation import lending
from penstock.taskexecutor.state.opened_states import OpenedStates

if TYPE_CHECKING:
    from penstock.datastream.state import (
        AggregatingStateDescriptor,
        FoldingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        StateDescriptor,
        ValueStateDescriptor,
    )
    from penstock.datastream.window.windows import Window
    from penstock.graph import operators
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: ``evaluate(key, window, elements)`` returns the results of the window.
Evaluate = Callable[[Any, Any, Iterable[Any]], Iterable[Any]]


class WindowStateStore:
    """Keyed state in one namespace: that of a window, or the one shared by all windows of a key."""

    def __init__(
        self, opened: OpenedStates, kind: str, namespace: object, *, allowed: bool = True
    ) -> None:
        """Create the store; ``allowed`` is False for windows that merge."""
        self._opened = opened
        self._kind = kind
        self._namespace = namespace
        self._allowed = allowed

    def get_state(self, state_descriptor: ValueStateDescriptor) -> object:
        """Return a state of one value."""
        return self._state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> object:
        """Return a list state."""
        return self._state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> object:
        """Return a map state."""
        return self._state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> object:
        """Return a state of one value into which others are folded."""
        return self._state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> object:
        """Return an accumulator with a view of its result."""
        return self._state(state_descriptor)

    def get_folding_state(self, state_descriptor: FoldingStateDescriptor) -> object:
        """Return an accumulator into which values are folded."""
        return self._state(state_descriptor)

    def _state(self, descriptor: StateDescriptor) -> Any:
        if not self._allowed:
            msg = "windows that merge cannot have state of their own: use global_state()"
            raise InvalidProgramError(msg)
        state = self._opened.view(self._kind, descriptor)
        state.set_current_namespace(self._namespace)
        return state


class WindowContext(ProcessWindowFunction.Context[Any], ProcessAllWindowFunction.Context[Any]):
    """Context of process window functions; one object for all windows."""

    def __init__(self, operator: Any) -> None:
        """Create the context of an operator."""
        self._operator = operator
        self._opened = OpenedStates(self._open_state)
        self.current_window: Any = None

    def window(self) -> object:
        """Return the window."""
        return self.current_window

    def current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""
        now: int = self._operator.timers.current_processing_time()
        return now

    def current_watermark(self) -> int:
        """Return the current watermark, in ms."""
        watermark: int = self._operator.timers.current_watermark
        return watermark

    def window_state(self) -> Any:
        """Return the state of this key and window."""
        return WindowStateStore(
            self._opened, "window", self.current_window, allowed=not self._operator.is_merging
        )

    def global_state(self) -> Any:
        """Return the state of this key that all its windows share."""
        return WindowStateStore(self._opened, "global", None)

    def _open_state(self, kind: str, descriptor: StateDescriptor) -> Any:
        del kind  # the states of windows and the shared states are views of the same state
        return lending(self._operator.context.keyed_state.state(descriptor), descriptor)


def checking_first(operator: Any, evaluate: Evaluate) -> Evaluate:
    """Return an evaluation that checks its first results and then replaces itself.

    Args:
        operator: The operator, whose attribute ``evaluate`` becomes the second argument.
        evaluate: The evaluation without a check.
    """

    def first(key: object, window: Window, elements: Iterable[object]) -> Iterable[object]:
        results = evaluate(key, window, elements)
        operator.evaluate = evaluate
        warn_of_parts(operator.context, results)
        return results

    return first


def evaluation(function: Any, context: WindowContext) -> Evaluate:
    """Return the call of a window function; without one the records are emitted unchanged.

    Raises:
        InvalidProgramError: The object is not a window function.
    """
    if function is None:
        return _as_they_are
    if isinstance(function, WindowFunction):
        return function.apply
    if isinstance(function, AllWindowFunction):

        def apply_all(key: object, window: Window, elements: Iterable[object]) -> Iterable[object]:
            del key
            return function.apply(window, elements)

        return apply_all
    if isinstance(function, ProcessWindowFunction):

        def process(key: object, window: Window, elements: Iterable[object]) -> Iterable[object]:
            context.current_window = window
            return function.process(key, context, elements)

        return process
    if isinstance(function, ProcessAllWindowFunction):

        def process_all(
            key: object, window: Window, elements: Iterable[object]
        ) -> Iterable[object]:
            del key
            context.current_window = window
            return function.process(context, elements)

        return process_all
    msg = f"{function!r} is not a window function"
    raise InvalidProgramError(msg)


def _as_they_are(key: object, window: Window, elements: Iterable[object]) -> Iterable[object]:
    del key, window
    return elements


def stamps_window_end(context: OperatorContext) -> bool:
    """Return whether results have the last millisecond of their window as timestamp."""
    return WINDOW_RESULT_TIMESTAMP.read(context.environment.configuration) == "WINDOW_END"


def window_functions(descriptor: operators.Window) -> tuple[Any, Any]:
    """Return the folding function and the window function, each None if there is none."""
    if descriptor.function_kind in ("reduce", "aggregate"):
        return descriptor.function, descriptor.window_function
    return None, descriptor.function


def open_functions(operator: Any) -> None:
    """Open the functions of a window operator."""
    for function in operator.functions:
        operator.opened.append(function)
        open_function(function, operator.context)


def close_functions(operator: Any) -> None:
    """Close the functions that were opened."""
    while operator.opened:
        close_function(operator.opened.pop(), operator.context)


def window_key_reader(context: OperatorContext) -> KeyReader:
    """Return the reader of the records' keys.

    Raises:
        InvalidProgramError: The stream is not keyed.
    """
    keys = context.key_reader()
    if keys is None:
        msg = f"{context.name!r} needs a keyed stream"
        raise InvalidProgramError(msg)
    return keys
