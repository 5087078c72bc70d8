"""Interface of keyed state backends for operators, snapshots and restores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from penstock.datastream.state import StateDescriptor, ValueStateDescriptor
    from penstock.expressions.evaluation import Evaluation
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.backends.declared_types import DeclaredTypes
    from penstock.taskexecutor.state.heap import HeapState, ListOperations, NoKey, StateTable
    from penstock.taskexecutor.state.snapshots.sliced_parts import SlicedPart
    from penstock.taskexecutor.state.snapshots.snapshot_contents import (
        DatabaseFiles,
        DatabaseFolder,
        KeyedStates,
        LogSegment,
    )
    from penstock.taskexecutor.state.time_to_live import IncrementalCleanup, TimeToLive


@dataclass(frozen=True)
class KeyGrouping:
    """Assignment of an operator's keys to key groups.

    Attributes:
        kind: Kind of the declared type of keys, which their hash depends on, or None.
        max_parallelism: Number of all key groups.
        key_groups: The key groups of this subtask.
    """

    kind: str | None
    max_parallelism: int
    key_groups: range

    @property
    def arguments(self) -> tuple[str | None, int, range]:
        """All three, in this order."""
        return self.kind, self.max_parallelism, self.key_groups


class KeyedBase(Protocol):
    """Keyed state of a complete checkpoint that a snapshot may refer to."""

    @property
    def checkpoint_id(self) -> int:
        """Return the id of the checkpoint."""

    def keep(self, changed: set[int]) -> Collection[int]:
        """Return the key groups to leave out, given those changed since; called once."""


def no_base(operator_id: bytes) -> None:
    """Return the base of a full snapshot: none."""
    del operator_id


@dataclass(frozen=True)
class LogBase:
    """Base that a segment continues.

    Attributes:
        snapshot_id: The snapshot since which changes are logged.
        needed: The snapshots that later segments may continue.
    """

    snapshot_id: int
    needed: frozenset[int]


class KeyedSnapshot(Protocol):
    """The content of a backend at one moment, serialised in slices while the backend is in use."""

    def advance(self, deadline_ns: int) -> bool:
        """Serialise until ``deadline_ns`` (monotonic clock); return True when nothing is left.

        Raises:
            Exception: An entry cannot be serialised.
        """

    def close(self) -> None:
        """Discard the snapshot."""

    @property
    def is_empty(self) -> bool:
        """Return whether the snapshot is known to be empty, with nothing to write."""

    def database_files(self) -> DatabaseFolder | None:
        """Return the content as database files after ``advance`` returned True, or None."""

    def follow_up(self) -> SlicedPart | None:
        """Return the work to do in slices while later records are processed; None if there is none.

        Called once, after ``advance`` returned True.
        """

    def database_states(self) -> Mapping[str, object]:
        """Return the descriptions of a database's states if it logs changes; else an empty map."""

    def states(self) -> tuple[KeyedStates, KeyedStates]:
        """Return keyed states and timers after ``advance`` returned True; once, in any thread."""

    def release(self) -> None:
        """Release ``states`` and ``database_files``, which are no longer read; any thread."""


class KeyedStateBackend(ABC):
    """The keyed states and timers of one operator of one subtask, and the current key.

    Attributes:
        current_key: The identity of the current key, whose entries states show.
        on_key: Called after a record or timer selects its key; None for nothing.
        types: The declared types of the states.
    """

    current_key: Any
    types: DeclaredTypes

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

    @property
    @abstractmethod
    def num_entries(self) -> int:
        """Number of entries of all states, without timers."""

    @property
    @abstractmethod
    def is_unused(self) -> bool:
        """Return whether a snapshot would be empty: no state or timers were opened."""

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

    @abstractmethod
    def open_snapshot(
        self, grouping: KeyGrouping, checkpoint_id: int, base: KeyedBase | LogBase | None = None
    ) -> KeyedSnapshot:
        """Open a snapshot of all states and timers, without the part that a base covers.

        Several may be open.  For a ``LogBase`` it contains the changes since, as a `LogSegment`.
        """

    @abstractmethod
    def restore(
        self,
        keyed: KeyedStates,
        timers: KeyedStates,
        key_groups: range,
        keys: KeyReader,
        files: tuple[DatabaseFiles, ...],
        log: tuple[LogSegment, ...],
    ) -> None:
        """Restore the entries of this subtask's key groups, then apply the log."""

    @abstractmethod
    def dispose(self) -> None:
        """Release all state."""


@dataclass(frozen=True)
class BackendSurroundings:
    """Surroundings of a backend: the parts of its subtask it may use.

    Attributes:
        configuration: The configuration of the job.
        clock_ms: The clock for times to live, in ms.
        evaluation: Decides which folding functions are evaluated.
        grouping: How the operator's keys are in key groups.
        keys: Creates the reader that maps a key to its identity in state.
        temp_directory: Creates, once, a folder that is removed when the task ends.
        job_id: The id of the job.
        subtask: The index of the subtask.
    """

    configuration: Mapping[str, str]
    clock_ms: Callable[[], int]
    evaluation: Evaluation
    grouping: Callable[[], KeyGrouping]
    keys: Callable[[], KeyReader]
    temp_directory: Callable[[], str]
    job_id: bytes
    subtask: int
