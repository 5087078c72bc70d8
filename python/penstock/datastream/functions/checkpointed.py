"""CheckpointedFunction: functions with state that belongs to no key (beyond PyFlink)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.datastream.functions.runtime_context import KeyedStateStore
    from penstock.datastream.state import OperatorStateStore


class FunctionInitializationContext(ABC):
    """What a function gets to create its state with."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether the states have the content of an earlier attempt."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Gives access to list, union list and broadcast states."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Gives access to keyed state, of functions on a KeyedStream."""


class CheckpointedFunction(ABC):
    """Mixed into a function, it creates operator state before ``open``."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Creates or reads the state; called once per subtask, before ``open``."""
