"""Functions that take part in checkpoints, with Flink's names (beyond PyFlink)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.functions.runtime_context import KeyedStateStore
    from penstock.datastream.state import OperatorStateStore


class FunctionInitializationContext(ABC):
    """The context in which a function creates its state."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Return whether the states were restored from a checkpoint."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the checkpoint from which the states were restored; None without a restore."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of list, union list and broadcast states."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return the store of keyed state, for functions on a KeyedStream."""


class FunctionSnapshotContext(ABC):
    """The checkpoint of a snapshot."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return the number of the checkpoint; later checkpoints have larger ones."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return the time at which the checkpoint was triggered, in ms of the wall clock."""


class StatePartitionStreamProvider(ABC):
    """A piece of raw state."""

    @abstractmethod
    def get_stream(self) -> BinaryIO:
        """Return a new stream of the written bytes."""


class KeyGroupStatePartitionStreamProvider(StatePartitionStreamProvider):
    """The raw state of a key group."""

    @abstractmethod
    def get_key_group_id(self) -> int:
        """Return the key group."""


class OperatorStateCheckpointOutputStream(ABC):
    """An output of raw state in partitions, which are redistributed at a new parallelism."""

    @abstractmethod
    def start_new_partition(self) -> None:
        """Start another partition, to which the next writes go."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Append bytes to the partition; the first write starts one."""


class KeyedStateCheckpointOutputStream(ABC):
    """An output of raw state by key group."""

    @abstractmethod
    def get_key_group_list(self) -> range:
        """Return the key groups of this subtask."""

    @abstractmethod
    def start_new_key_group(self, key_group_id: int) -> None:
        """Start the part of a key group, to which the next writes go.

        Raises:
            ValueError: The key group does not belong to this subtask, or was started before.
        """

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Append bytes to the key group.

        Raises:
            ValueError: No key group was started.
        """


class StateInitializationContext(FunctionInitializationContext):
    """A FunctionInitializationContext with raw state: bytes that only the function interprets."""

    @abstractmethod
    def get_raw_operator_state_inputs(self) -> Iterable[StatePartitionStreamProvider]:
        """Return the partitions of raw state that are assigned to this subtask."""

    @abstractmethod
    def get_raw_keyed_state_inputs(self) -> Iterable[KeyGroupStatePartitionStreamProvider]:
        """Return the raw state of this subtask's key groups in order, without empty ones."""


class StateSnapshotContext(FunctionSnapshotContext):
    """A FunctionSnapshotContext with outputs of raw state."""

    @abstractmethod
    def get_raw_operator_state_output(self) -> OperatorStateCheckpointOutputStream:
        """Return the output of raw state that belongs to no key."""

    @abstractmethod
    def get_raw_keyed_operator_state_output(self) -> KeyedStateCheckpointOutputStream:
        """Return the output of raw state by key group."""


class CheckpointedFunction(ABC):
    """A mixin of functions that create operator state before ``open`` and update it for snapshots.

    Both contexts give access to raw state too.
    """

    @abstractmethod
    def initialize_state(self, context: StateInitializationContext) -> None:
        """Create or read the state; called once per subtask, before ``open``."""

    def snapshot_state(self, context: StateSnapshotContext) -> None:  # noqa: B027 (optional)
        """Update the states; the checkpoint stores their content afterwards."""


class CheckpointListener(ABC):  # noqa: B024 (both methods are optional)
    """A mixin of functions that are notified of complete and aborted checkpoints."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027
        """Handle a complete checkpoint, which covers earlier ones; notifications may be lost."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027
        """Handle an aborted checkpoint; the next one covers its content."""
