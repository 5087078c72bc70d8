"""What functions see of state that belongs to no key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.checkpointed import FunctionInitializationContext
from penstock.datastream.state import OperatorStateStore

if TYPE_CHECKING:
    from penstock.datastream.functions.runtime_context import KeyedStateStore
    from penstock.taskexecutor.operator_context import OperatorContext


class FunctionOperatorStateStore(OperatorStateStore):
    """The operator states of one operator of one subtask."""

    def __init__(self, context: OperatorContext) -> None:
        """Gives access to the state of ``context``."""
        self._context = context

    def get_list_state(self, state_descriptor: Any) -> Any:
        """A list that is split when the parallelism changes."""
        return self._context.operator_state.list_state(state_descriptor)

    def get_union_list_state(self, state_descriptor: Any) -> Any:
        """A list of which every subtask gets all parts when it is restored."""
        return self._context.operator_state.union_list_state(state_descriptor)

    def get_broadcast_state(self, state_descriptor: Any) -> Any:
        """A map that has the same content in every subtask."""
        return self._context.operator_state.broadcast_state(state_descriptor)


class InitializationContext(FunctionInitializationContext):
    """What a CheckpointedFunction gets before it is opened."""

    def __init__(self, context: OperatorContext) -> None:
        """Gives access to the state of ``context``."""
        self._context = context

    def is_restored(self) -> bool:
        """False: every attempt starts without state."""
        return False

    def get_operator_state_store(self) -> OperatorStateStore:
        """Gives access to list, union list and broadcast states."""
        return FunctionOperatorStateStore(self._context)

    def get_keyed_state_store(self) -> KeyedStateStore:
        """Gives access to keyed state."""
        return self._context.runtime_context
