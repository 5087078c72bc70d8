"""The keyed state of one operator, in memory."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.errors import InvalidProgramError
from penstock.expressions.evaluation import Evaluation
from penstock.expressions.functions import bound_function
from penstock.network import key_of
from penstock.taskexecutor.state.heap import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapState,
    HeapValueState,
    KeyContext,
    StateTable,
    value_check,
)
from penstock.taskexecutor.state.time_to_live import TimeToLive
from penstock.taskexecutor.state.ttl_states import (
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlValueState,
)
from penstock.taskexecutor.time.processing_time import wall_clock_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.state.snapshot import KeyedEntries


class HeapKeyedStateBackend(KeyContext):
    """All keyed states of one operator, and the current key that they are views for.

    States are found by the name of their descriptor: two descriptors of one name give the same
    state.  Key groups only matter when state is snapshotted or restored.
    """

    def __init__(
        self, clock_ms: Callable[[], int] = wall_clock_ms, evaluation: Evaluation | None = None
    ) -> None:
        """Creates a backend without states.

        Args:
            clock_ms: The clock of times to live.
            evaluation: Says which functions that fold values are evaluated; None calls them all.
        """
        super().__init__()
        self._evaluation = Evaluation(enabled=False) if evaluation is None else evaluation
        self._clock_ms = clock_ms
        self._tables: dict[str, StateTable] = {}

    def table(self, name: str, kind: str) -> StateTable:
        """The entries of a state, created when missing.

        Raises:
            InvalidProgramError: The name is taken by a state of another kind.
        """
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = StateTable(name, kind)
        elif table.kind != kind:
            msg = (
                f"state {name!r} is a {table.kind} state of this operator; a {kind} state needs "
                "another name"
            )
            raise InvalidProgramError(msg)
        return table

    def value_state(self, descriptor: Any) -> HeapState:
        """The state of a ``ValueStateDescriptor``."""
        table, ttl, check = self._open(descriptor, "value", "type_info")
        if ttl is not None:
            return TtlValueState(self, table, ttl, check)
        return HeapValueState(self, table, check)

    def list_state(self, descriptor: Any) -> HeapState:
        """The state of a ``ListStateDescriptor``."""
        table, ttl, check = self._open(descriptor, "list", "element_type")
        if ttl is not None:
            return TtlListState(self, table, ttl, check)
        return HeapListState(self, table, check)

    def map_state(self, descriptor: Any) -> HeapState:
        """The state of a ``MapStateDescriptor``."""
        table, ttl, check = self._open(descriptor, "map", "value_type")
        state: TtlMapState | HeapMapState = (
            HeapMapState(self, table, check)
            if ttl is None
            else TtlMapState(self, table, ttl, check)
        )
        state.check_keys(value_check(descriptor.type_info.key_type, descriptor.get_name()))
        return state

    def reducing_state(self, descriptor: Any) -> HeapState:
        """The state of a ``ReducingStateDescriptor``."""
        table, ttl, check = self._open(descriptor, "reducing", "type_info")
        function = bound_function(descriptor.get_reduce_function(), "reduce")
        reduce = self._evaluation.without_call(function, 2)
        if ttl is not None:
            return TtlReducingState(self, table, ttl, reduce, check)
        return HeapReducingState(self, table, reduce, check)

    def aggregating_state(self, descriptor: Any) -> HeapState:
        """The state of an ``AggregatingStateDescriptor``."""
        table, ttl, _ = self._open(descriptor, "aggregating", "type_info")
        function = descriptor.get_agg_function()
        if ttl is not None:
            return TtlAggregatingState(self, table, ttl, function)
        add = self._evaluation.without_call(function.add, 2)
        return HeapAggregatingState(self, table, function, add)

    def partitioned_state(self, namespace: Any, descriptor: Any) -> HeapState:
        """The state of any descriptor, set to a namespace."""
        state = self.state(descriptor)
        state.set_current_namespace(namespace)
        return state

    def state(self, descriptor: Any) -> HeapState:
        """The state of any descriptor.

        Raises:
            InvalidProgramError: It is no descriptor, or its name is taken by a state of another
                kind.
        """
        return self._opener_of(descriptor)[1](descriptor)

    def table_of(self, descriptor: Any) -> StateTable:
        """The entries of the state of any descriptor; raises as ``state`` does."""
        return self.table(descriptor.get_name(), self._opener_of(descriptor)[0])

    def _opener_of(self, descriptor: Any) -> tuple[str, Callable[[Any], HeapState]]:
        for descriptor_class, kind, opener in (
            (ValueStateDescriptor, "value", self.value_state),
            (ListStateDescriptor, "list", self.list_state),
            (MapStateDescriptor, "map", self.map_state),
            (ReducingStateDescriptor, "reducing", self.reducing_state),
            (AggregatingStateDescriptor, "aggregating", self.aggregating_state),
        ):
            if isinstance(descriptor, descriptor_class):
                return kind, opener
        msg = f"{type(descriptor).__name__} is no state descriptor"
        raise InvalidProgramError(msg)

    def release_namespace(self, namespace: Any) -> None:
        """Forgets a namespace in every state that holds no key in it."""
        for table in self._tables.values():
            table.drop_if_empty(namespace)

    @property
    def num_entries(self) -> int:
        """Number of entries of all states."""
        return sum(map(len, self._tables.values()))

    def snapshot(self, key_group_of: Callable[[Any], int]) -> KeyedEntries:
        """All states: name to kind and entries by key group, independent of later changes."""
        snapshot: KeyedEntries = {}
        for name, table in self._tables.items():
            groups: dict[int, list[tuple[Any, Any, Any]]] = {}
            for namespace, identity, value in table:
                key = key_of(identity)
                entry = (namespace, key, copy.deepcopy(value))
                groups.setdefault(key_group_of(key), []).append(entry)
            snapshot[name] = (table.kind, groups)
        return snapshot

    def restore(
        self, snapshot: KeyedEntries, key_groups: range, identity_of: Callable[[Any], Any]
    ) -> None:
        """Adds copies of the entries of those key groups that this subtask owns.

        Args:
            snapshot: From ``snapshot``.
            key_groups: The groups that are here.
            identity_of: Gives what stands for a key in state.
        """
        for name, (kind, groups) in snapshot.items():
            table = self.table(name, kind)
            for group, entries in groups.items():
                if group in key_groups:
                    for namespace, key, value in copy.deepcopy(entries):
                        table.map(namespace).put(identity_of(key), value)

    def _open(
        self, descriptor: Any, kind: str, type_attribute: str
    ) -> tuple[StateTable, TimeToLive | None, Callable[[Any], None] | None]:
        name = descriptor.get_name()
        ttl = TimeToLive.of(getattr(descriptor, "_ttl_config", None), self._clock_ms)
        type_info = descriptor.type_info
        if kind in ("list", "map"):
            type_info = getattr(type_info, type_attribute)
        return self.table(name, kind), ttl, value_check(type_info, name)
