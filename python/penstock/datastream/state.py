"""State of functions, and the descriptors that name it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from penstock.common.calls.names import checked_name
from penstock.common.time import Duration as Duration
from penstock.common.time import Time as Time
from penstock.common.typeinfo import (
    ListTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    TypeInformation,
    as_type_information,
)
from penstock.common.typeinfo import Types as Types
from penstock.datastream.functions.basic import AggregateFunction, FoldFunction, ReduceFunction
from penstock.datastream.functions.function import check_function
from penstock.datastream.state_ttl_config import StateTtlConfig
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.functions import bound_function

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "BroadcastState",
    "FoldingState",
    "FoldingStateDescriptor",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """State that a function stores between records."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the state of the current key."""


class ValueState(State, Generic[T]):
    """One value."""

    @abstractmethod
    def value(self) -> T | None:
        """Return the value, or None."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Replace the value; None removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """State to which values are added."""

    @abstractmethod
    def get(self) -> OUT | None:
        """Return the current value of the state."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged with other state."""


class ReducingState(MergingState[T, T]):
    """One value, into which a function folds each added value."""


class AggregatingState(MergingState[IN, OUT]):
    """An accumulator, whose result `get` returns."""


class FoldingState(AppendingState[IN, OUT]):
    """An accumulator into which values are folded and which `get` returns (beyond PyFlink)."""


class ListState(MergingState[T, Iterable[T]]):
    """A list; `get` returns an iterable."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace the list."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Append several values."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get() or ())


class _MapView(State, Generic[K, V]):
    """Reading access to a map."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of a map key, or None if absent."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Return whether the map has the key."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return the pairs."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return the map keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return the values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether there is no pair."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _ChangeableMap(_MapView[K, V]):
    """Access to a map."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of a map key."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set the values of a mapping or of pairs."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a map key; do nothing if it does not exist."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_ChangeableMap[K, V]):
    """A map for each key of the stream."""


class ReadOnlyBroadcastState(_MapView[K, V]):
    """A view of a broadcast map."""


class BroadcastState(ReadOnlyBroadcastState[K, V], _ChangeableMap[K, V]):
    """A broadcast map that a function may change."""


class OperatorStateStore(ABC):
    """Access to operator state, which belongs to a subtask and not to a key."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return the broadcast map of a descriptor."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list that is split when the parallelism changes (beyond PyFlink)."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list that each restored subtask receives whole (beyond PyFlink)."""


class StateDescriptor(ABC):  # noqa: B024
    """The name and type of a state.

    Attributes:
        name: The name; descriptors with one name refer to the same state of an operator.
        type_info: The type of the stored values.
    """

    def __init__(
        self, name: str, type_info: TypeInformation | list[TypeInformation] | None
    ) -> None:
        """Create a descriptor; a list of types describes a row.

        Raises:
            InvalidProgramError: The name is empty or cannot be stored, or the type is not a type.
        """
        given: Any = name
        if not isinstance(given, str) or not given:
            raise InvalidProgramError(
                f"a state needs a string that is not empty as its name, got {given!r}"
            )
        self.name = checked_name("a state", name)
        self.type_info = type_or_pickled(type_info, type(self).__name__)
        self._ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the name of the state."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Set the time to live of values; None keeps them forever.

        Raises:
            WrongArgumentError: The argument is not a configuration; call ``build()`` on a builder.
        """
        given: Any = ttl_config
        if given is not None and not isinstance(given, StateTtlConfig):
            raise WrongArgumentError(
                f"enable_time_to_live of state {self.name!r}: ttl_config must be a StateTtlConfig, "
                f"got {given!r}; StateTtlConfig.new_builder(…).build() creates one"
            )
        self._ttl_config = ttl_config

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """The time to live of values; None if they never expire."""
        return self._ttl_config

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """The descriptor of a `ValueState`."""

    def __init__(
        self, name: str, value_type_info: TypeInformation | list[TypeInformation] | None
    ) -> None:
        """Create a descriptor of one value of a type."""
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """The descriptor of a `ListState`.

    Attributes:
        element_type: The type of the elements.
    """

    def __init__(
        self, name: str, elem_type_info: TypeInformation | list[TypeInformation] | None
    ) -> None:
        """Create a descriptor of a list with a type of elements."""
        self.element_type = type_or_pickled(elem_type_info, "ListStateDescriptor")
        super().__init__(name, ListTypeInfo(self.element_type))


class MapStateDescriptor(StateDescriptor):
    """The descriptor of a `MapState` or of broadcast state.

    Attributes:
        key_type: The type of the map keys.
        value_type: The type of the values.
    """

    def __init__(
        self,
        name: str,
        key_type_info: TypeInformation | list[TypeInformation] | None,
        value_type_info: TypeInformation | list[TypeInformation] | None,
    ) -> None:
        """Create a descriptor of a map with types of keys and values."""
        self.key_type = type_or_pickled(key_type_info, "MapStateDescriptor")
        self.value_type = type_or_pickled(value_type_info, "MapStateDescriptor")
        super().__init__(name, MapTypeInfo(self.key_type, self.value_type))


class ReducingStateDescriptor(StateDescriptor):
    """The descriptor of a `ReducingState`."""

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        type_info: TypeInformation | list[TypeInformation] | None,
    ) -> None:
        """Create a descriptor of one value into which others are folded.

        Raises:
            InvalidProgramError: The function is neither a ReduceFunction nor callable.
        """
        super().__init__(name, type_info)
        check_function(reduce_function, ReduceFunction, "ReducingStateDescriptor", or_callable=True)
        self._reduce_function: ReduceFunction = (
            reduce_function
            if isinstance(reduce_function, ReduceFunction)
            else _CallableReduce(reduce_function)
        )

    def get_reduce_function(self) -> ReduceFunction:
        """Return the function that folds."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """The descriptor of an `AggregatingState`."""

    def __init__(
        self,
        name: str,
        agg_function: AggregateFunction,
        state_type_info: TypeInformation | list[TypeInformation] | None,
    ) -> None:
        """Create a descriptor of an accumulator of a type.

        Raises:
            InvalidProgramError: The function is not an AggregateFunction.
        """
        super().__init__(name, state_type_info)
        check_function(
            agg_function, AggregateFunction, "AggregatingStateDescriptor", or_callable=False
        )
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        """Return the function that aggregates."""
        return self._agg_function


class FoldingStateDescriptor(AggregatingStateDescriptor):
    """The descriptor of a `FoldingState`, which Flink had until 1.8 (beyond PyFlink).

    It is stored as an `AggregatingState` whose result is its accumulator.
    """

    def __init__(
        self,
        name: str,
        initial_value: Any,
        fold_function: FoldFunction | Callable[[Any, Any], Any],
        type_info: TypeInformation | list[TypeInformation] | None,
    ) -> None:
        """Create a descriptor of an accumulator of a type.

        Args:
            name: The name of the state.
            initial_value: The initial accumulator, copied for each key.
            fold_function: Function of accumulator and value that returns the new accumulator.
            type_info: The type of the accumulator.

        Raises:
            InvalidProgramError: The function is neither a FoldFunction nor callable.
        """
        check_function(fold_function, FoldFunction, "FoldingStateDescriptor", or_callable=True)
        super().__init__(name, _Folding(initial_value, fold_function), type_info)
        self._initial_value = initial_value
        self._fold_function = fold_function

    def get_initial_value(self) -> Any:
        """Return the initial value of each key."""
        return self._initial_value

    def get_fold_function(self) -> FoldFunction | Callable[[Any, Any], Any]:
        """Return the function that folds."""
        return self._fold_function


class _Folding(AggregateFunction):
    """A fold as an aggregation."""

    def __init__(
        self, initial_value: Any, fold_function: FoldFunction | Callable[[Any, Any], Any]
    ) -> None:
        self._initial_value = initial_value
        self._fold = bound_function(fold_function, "fold")

    def create_accumulator(self) -> Any:
        return copy.deepcopy(self._initial_value)

    def add(self, value: Any, accumulator: Any) -> Any:
        return self._fold(accumulator, value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:  # noqa: ARG002
        raise InvalidProgramError(
            "two folds cannot be merged: use an AggregatingState where windows merge"
        )


class _CallableReduce(ReduceFunction):
    """A reduce function that calls any callable."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function
        # Replaces the method, so that an expression can be evaluated without a Python call.
        vars(self)["reduce"] = bound_function(function, "reduce")

    def __reduce__(self) -> tuple[Any, ...]:
        return _CallableReduce, (self._function,)

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self._function(value1, value2)


def type_or_pickled(
    type_info: TypeInformation | list[TypeInformation] | None, where: str
) -> TypeInformation:
    """Return the type that an argument describes; None means any Python value."""
    return PickledBytesTypeInfo() if type_info is None else as_type_information(type_info, where)
