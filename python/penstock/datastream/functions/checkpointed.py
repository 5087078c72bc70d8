"""Functions that take part in checkpoints, with Flink's names (beyond PyFlink)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.functions.runtime_context import KeyedStateStore
    from penstock.datastream.state import OperatorStateStore


class FunctionInitializationContext(ABC):
    """Context in which a function creates its state."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Return whether the states have the content of an earlier attempt."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the checkpoint that the content is from; None when nothing was restored."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Gives access to list, union list and broadcast states."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Gives access to keyed state, of functions on a KeyedStream."""


class FunctionSnapshotContext(ABC):
    """The checkpoint that a snapshot is for."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Its number; a later checkpoint has a larger one."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """When it was triggered, in ms of the wall clock."""


class StatePartitionStreamProvider(ABC):
    """A piece of raw state."""

    @abstractmethod
    def get_stream(self) -> BinaryIO:
        """Return a new stream over the bytes that were written."""


class KeyGroupStatePartitionStreamProvider(StatePartitionStreamProvider):
    """The raw state of a key group."""

    @abstractmethod
    def get_key_group_id(self) -> int:
        """Return the key group."""


class OperatorStateCheckpointOutputStream(ABC):
    """Takes raw state in partitions, which are spread when the parallelism changes."""

    @abstractmethod
    def start_new_partition(self) -> None:
        """Start another partition for what is written from here on."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Appends bytes to the partition; the first write starts one by itself."""


class KeyedStateCheckpointOutputStream(ABC):
    """Takes raw state by key group, which moves with its key group."""

    @abstractmethod
    def get_key_group_list(self) -> range:
        """Return the key groups of this subtask."""

    @abstractmethod
    def start_new_key_group(self, key_group_id: int) -> None:
        """Start the part of a key group for what is written from here on.

        Raises:
            ValueError: The argument is not one of this subtask's, or was started before.
        """

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Appends bytes to the key group.

        Raises:
            ValueError: No key group was started.
        """


class StateInitializationContext(FunctionInitializationContext):
    """As FunctionInitializationContext, and raw state: bytes that nobody else interprets."""

    @abstractmethod
    def get_raw_operator_state_inputs(self) -> Iterable[StatePartitionStreamProvider]:
        """Return the partitions that this subtask got of the raw state."""

    @abstractmethod
    def get_raw_keyed_state_inputs(self) -> Iterable[KeyGroupStatePartitionStreamProvider]:
        """Return the raw state of this subtask's key groups that have some, in their order."""


class StateSnapshotContext(FunctionSnapshotContext):
    """As FunctionSnapshotContext, and where raw state goes."""

    @abstractmethod
    def get_raw_operator_state_output(self) -> OperatorStateCheckpointOutputStream:
        """Takes raw state that belongs to no key."""

    @abstractmethod
    def get_raw_keyed_operator_state_output(self) -> KeyedStateCheckpointOutputStream:
        """Takes raw state that belongs to keys."""


class CheckpointedFunction(ABC):
    """Mixed into a function, it creates operator state before ``open`` and writes it.

    Both contexts give access to raw state too.
    """

    @abstractmethod
    def initialize_state(self, context: StateInitializationContext) -> None:
        """Creates or reads the state; called once per subtask, before ``open``."""

    def snapshot_state(self, context: StateSnapshotContext) -> None:  # noqa: B027 (optional)
        """Brings the states up to date; their content afterwards is what the checkpoint holds."""


class CheckpointListener(ABC):  # noqa: B024 (both methods are optional)
    """Mixed into a function, it is told what became of checkpoints."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027
        """The checkpoint is complete, and so are all before it; some may go untold."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027
        """The checkpoint will not be completed; the next one covers what it held."""
