"""State without keys, as functions see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.datastream.functions.checkpointed import (
    StateInitializationContext,
    StateSnapshotContext,
)
from penstock.datastream.state import OperatorStateStore
from penstock.taskexecutor.state.raw_state import (
    RawKeyedStateOutput,
    RawKeyGroup,
    RawOperatorStateOutput,
    RawStatePartition,
)

if TYPE_CHECKING:
    from penstock.datastream.functions.runtime_context import KeyedStateStore
    from penstock.datastream.state import (
        BroadcastState,
        ListState,
        ListStateDescriptor,
        MapStateDescriptor,
    )
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot


class FunctionOperatorStateStore(OperatorStateStore):
    """The operator states of one operator of one subtask."""

    def __init__(self, context: OperatorContext) -> None:
        """Create a store of the operator state of ``context``."""
        self._context = context

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[object]:
        """Return a list that is split when the parallelism changes."""
        isolation = self._context.isolation
        state = self._context.operator_state.list_state(
            state_descriptor, isolation.of_list(state_descriptor), is_private=isolation.is_wanted
        )
        return cast("ListState[object]", state)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[object]:
        """Return a list that every subtask restores as a whole."""
        isolation = self._context.isolation
        state = self._context.operator_state.union_list_state(
            state_descriptor, isolation.of_list(state_descriptor), is_private=isolation.is_wanted
        )
        return cast("ListState[object]", state)

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor
    ) -> BroadcastState[object, object]:
        """Return a map that has the same content in every subtask."""
        isolation = self._context.isolation
        state = self._context.operator_state.broadcast_state(
            state_descriptor, isolation.of_map(state_descriptor), is_private=isolation.is_wanted
        )
        return cast("BroadcastState[object, object]", state)


class InitializationContext(StateInitializationContext):
    """Context of operators and CheckpointedFunctions before they are opened."""

    def __init__(self, context: OperatorContext, restored: OperatorSnapshot | None) -> None:
        """Create a context for the state of ``context``, restored from ``restored``."""
        self._context = context
        self._restored = restored

    def is_restored(self) -> bool:
        """Return whether the states were restored from an earlier attempt."""
        return self._restored is not None

    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of the restored checkpoint."""
        return None if self._restored is None else self._restored.checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of list, union list and broadcast states."""
        return FunctionOperatorStateStore(self._context)

    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return the store of keyed state."""
        return self._context.runtime_context

    def get_raw_operator_state_inputs(self) -> list[RawStatePartition]:
        """Return this subtask's partitions of the raw state."""
        return (
            [] if self._restored is None else [*map(RawStatePartition, self._restored.raw_operator)]
        )

    def get_raw_keyed_state_inputs(self) -> list[RawKeyGroup]:
        """Return the raw state of this subtask's key groups, in order, without empty ones."""
        if self._restored is None:
            return []
        content = self._restored.raw_keyed
        return [RawKeyGroup(g, content[g]) for g in self._context.key_groups if g in content]


class SnapshotContext(StateSnapshotContext):
    """Context of operators and CheckpointedFunctions when a checkpoint is taken."""

    def __init__(self, checkpoint_id: int, timestamp_ms: int, key_groups: range) -> None:
        """Start without raw state."""
        self._checkpoint_id = checkpoint_id
        self._timestamp_ms = timestamp_ms
        self._key_groups = key_groups
        self._raw_operator: RawOperatorStateOutput | None = None
        self._raw_keyed: RawKeyedStateOutput | None = None

    @property
    def has_raw_state(self) -> bool:
        """Return whether a raw state output was requested."""
        return self._raw_operator is not None or self._raw_keyed is not None

    def raw_partitions(self) -> tuple[bytes, ...]:
        """Return the raw operator state."""
        return () if self._raw_operator is None else self._raw_operator.partitions()

    def raw_key_groups(self) -> dict[int, bytes]:
        """Return the raw keyed state, by key group."""
        return {} if self._raw_keyed is None else self._raw_keyed.key_groups()

    def get_checkpoint_id(self) -> int:
        """Return the id of the checkpoint."""
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """Return the time at which the checkpoint was triggered, in ms of the wall clock."""
        return self._timestamp_ms

    def get_raw_operator_state_output(self) -> RawOperatorStateOutput:
        """Return the output for raw operator state."""
        if self._raw_operator is None:
            self._raw_operator = RawOperatorStateOutput()
        return self._raw_operator

    def get_raw_keyed_operator_state_output(self) -> RawKeyedStateOutput:
        """Return the output for raw keyed state."""
        if self._raw_keyed is None:
            self._raw_keyed = RawKeyedStateOutput(self._key_groups)
        return self._raw_keyed
