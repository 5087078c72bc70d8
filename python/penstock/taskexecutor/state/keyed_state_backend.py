"""Interface of keyed state backends: what operators, snapshots and restores use of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from penstock.expressions.evaluation import Evaluation
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.declared_types import DeclaredTypes
    from penstock.taskexecutor.state.heap import HeapState, ListOperations, NoKey, StateTable
    from penstock.taskexecutor.state.sliced_parts import SlicedPart
    from penstock.taskexecutor.state.snapshot_contents import (
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
        kind: Kind of the declared type of keys, which their hash depends on; None for none.
        max_parallelism: Number of all key groups.
        key_groups: Those of this subtask.
    """

    kind: str | None
    max_parallelism: int
    key_groups: range

    @property
    def arguments(self) -> tuple[str | None, int, range]:
        """All three, in this order."""
        return self.kind, self.max_parallelism, self.key_groups


class KeyedBase(Protocol):
    """Keyed state of a complete checkpoint that a snapshot may leave out."""

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint."""

    def keep(self, changed: set[int]) -> Collection[int]:
        """Decides, once, which key groups are left out, given those that have changed since."""


def no_base(operator_id: bytes) -> None:
    """Return the base of a full snapshot: none."""
    del operator_id


@dataclass(frozen=True)
class LogBase:
    """Base that a segment continues.

    Attributes:
        snapshot_id: The snapshot: what has changed since it was opened is logged.
        needed: The snapshots that later segments may go on from.
    """

    snapshot_id: int
    needed: frozenset[int]


class KeyedSnapshot(Protocol):
    """The content of a backend at one moment, serialised in slices while the backend is used."""

    def advance(self, deadline_ns: int) -> bool:
        """Serialises until a time of the monotonic clock; True when there is nothing left.

        Raises:
            Exception: An entry cannot be serialised.
        """

    def close(self) -> None:
        """Gives it up."""

    @property
    def is_empty(self) -> bool:
        """Return whether it is known that there is nothing in it, and nothing to be written."""

    def database_files(self) -> DatabaseFolder | None:
        """The content as files of a database, once ``advance`` has given True; None without."""

    def follow_up(self) -> SlicedPart | None:
        """Return the work to do in slices while later records are processed; None if there is none.

        To be asked for once, when ``advance`` has given True.
        """

    def database_states(self) -> Mapping[str, Any]:
        """Return the descriptions of a database's states if it logs changes; else nothing."""

    def states(self) -> tuple[KeyedStates, KeyedStates]:
        """Keyed states and timers, once ``advance`` has given True; once, by any thread."""

    def release(self) -> None:
        """Release ``states`` and ``database_files``, which are no longer read; any thread."""


class KeyedStateBackend(ABC):
    """The keyed states and timers of one operator of one subtask, and the current key.

    Attributes:
        current_key: The identity of the key that states are views for.
        on_key: Called when an element or a timer has selected its key; None for nothing.
        types: The declared types of the states.
    """

    current_key: Any
    types: DeclaredTypes

    #: Whether adding to a list reads nothing of it.
    keeps_elements: bool

    on_key: Callable[[], None] | None

    @abstractmethod
    def select_key(self, key: Any) -> None:
        """An element or a timer of that key comes next: sets ``current_key``, calls ``on_key``."""

    @abstractmethod
    def leave_key(self, no_key: NoKey) -> None:
        """A function runs that is called for no key."""

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
        """The entries of each state by its name, of those that were opened or restored."""

    @abstractmethod
    def table(self, name: str, kind: str) -> StateTable:
        """The entries of a state by its name, created when missing."""

    @abstractmethod
    def typed_table(self, name: str, kind: str, type_info: Any) -> StateTable:
        """As ``table``, of a state whose values are of a declared type."""

    @abstractmethod
    def expiring_table(
        self, descriptor: Any
    ) -> tuple[StateTable, TimeToLive | None, IncrementalCleanup | None]:
        """Return the entries of a value state, its time to live, and the removal of expired ones.

        With a time to live, values are `Aged`.  Times are those of the descriptor's configuration;
        None without one.
        """

    @abstractmethod
    def timer_table(self, name: str) -> StateTable:
        """The timers of one service and one notion of time, created when missing."""

    @abstractmethod
    def table_of(self, descriptor: Any) -> StateTable:
        """The entries of the state of a descriptor."""

    @abstractmethod
    def state(self, descriptor: Any) -> HeapState:
        """The state of a descriptor."""

    @abstractmethod
    def own_list_state(self, name: str) -> ListOperations:
        """A list state of the operator itself, whose values have no declared type."""

    @abstractmethod
    def release_namespace(self, namespace: Any) -> None:
        """Forgets a namespace in every state that holds no key in it."""

    @abstractmethod
    def open_snapshot(
        self, grouping: KeyGrouping, checkpoint_id: int, base: KeyedBase | LogBase | None = None
    ) -> KeyedSnapshot:
        """All states and timers as they are now, without what is kept of a base.

        Several may be open.  Of a ``LogBase`` it is what has changed since, as a `LogSegment`.
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
        """Adds the entries of those key groups that this subtask owns, then changes them."""

    @abstractmethod
    def dispose(self) -> None:
        """Lets go of all that is kept."""


@dataclass(frozen=True)
class BackendSurroundings:
    """Surroundings of a backend: the parts of its subtask it may use.

    Attributes:
        configuration: The job's.
        clock_ms: The clock of times to live.
        evaluation: Says which functions that fold values are evaluated.
        grouping: How the operator's keys are in key groups.
        keys: Makes what gives what stands for a key in state.
        temp_directory: Makes (once) a folder that is removed when the task ends.
        job_id: The job.
        subtask: The number of the subtask.
    """

    configuration: Mapping[str, str]
    clock_ms: Callable[[], int]
    evaluation: Evaluation
    grouping: Callable[[], KeyGrouping]
    keys: Callable[[], KeyReader]
    temp_directory: Callable[[], str]
    job_id: bytes
    subtask: int
