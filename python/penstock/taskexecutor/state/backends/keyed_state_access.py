"""KeyedStateAccess: the interface of keyed state and timers for operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.datastream.state import StateDescriptor, ValueStateDescriptor
    from penstock.taskexecutor.state.backends.declared_types import DeclaredTypes
    from penstock.taskexecutor.state.heap import HeapState, ListOperations, NoKey, StateTable
    from penstock.taskexecutor.state.time_to_live import IncrementalCleanup, TimeToLive


class KeyedStateAccess(ABC):
    """The keyed states and timers of one operator of one subtask, and the current key.

    Attributes:
        current_key: The identity of the current key, whose entries states show.
        on_key: Called after a record or timer selects its key; None for nothing.
        types: The declared types of the states.
        write_backs: Functions of the operator that write to tables the changes that it keeps
            elsewhere.
    """

    current_key: Any
    types: DeclaredTypes
    write_backs: list[Callable[[], None]]

    #: Whether adding to a list does not read the list.
    keeps_elements: bool

    on_key: Callable[[], None] | None

    @abstractmethod
    def select_key(self, key: object) -> None:
        """Select the key of the next record or timer: set ``current_key``, call ``on_key``."""

    @abstractmethod
    def leave_key(self, no_key: NoKey) -> None:
        """Unset the current key before calling a function without a key."""

    @property
    @abstractmethod
    def key(self) -> Any:
        """The current key as functions see it."""

    def write_back(self) -> None:
        """Complete the tables, before code outside of the operator reads them."""
        for function in self.write_backs:
            function()

    @property
    @abstractmethod
    def num_entries(self) -> int:
        """Number of entries of all states, without timers."""

    @property
    @abstractmethod
    def tables(self) -> Mapping[str, StateTable]:
        """The tables of opened and restored states, by name."""

    @abstractmethod
    def table(self, name: str, kind: str) -> StateTable:
        """Return the table of a state by its name, created when missing."""

    @abstractmethod
    def typed_table(self, name: str, kind: str, type_info: object) -> StateTable:
        """Return the table of a state whose values have a declared type; see ``table``."""

    @abstractmethod
    def expiring_table(
        self, descriptor: ValueStateDescriptor
    ) -> tuple[StateTable, TimeToLive | None, IncrementalCleanup | None]:
        """Return the table of a value state, its time to live, and its cleanup.

        With a time to live, values are `Aged`.  Without one in the descriptor, both are None.
        """

    @abstractmethod
    def timer_table(self, name: str) -> StateTable:
        """Return the timers of one service and time domain, created when missing."""

    @abstractmethod
    def table_of(self, descriptor: StateDescriptor) -> StateTable:
        """Return the table of a descriptor's state."""

    @abstractmethod
    def state(self, descriptor: StateDescriptor) -> HeapState:
        """Return a descriptor's state."""

    @abstractmethod
    def own_list_state(self, name: str) -> ListOperations:
        """Return a list state of the operator itself, without a declared type."""

    @abstractmethod
    def release_namespace(self, namespace: object) -> None:
        """Drop a namespace from every state that has no key in it."""
