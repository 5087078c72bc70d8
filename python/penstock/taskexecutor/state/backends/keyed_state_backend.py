"""KeyedStateBackend: the interface of keyed state for snapshots and restores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from penstock.expressions.evaluation import Evaluation
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.backends.keyed_state_access import KeyedStateAccess
    from penstock.taskexecutor.state.snapshots.sliced_parts import SlicedPart
    from penstock.taskexecutor.state.snapshots.snapshot_contents import (
        DatabaseFiles,
        DatabaseFolder,
        KeyedStates,
        LogSegment,
    )


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
    """The keyed states and timers of one operator of one subtask, for checkpoints."""

    @property
    @abstractmethod
    def states(self) -> KeyedStateAccess:
        """The access of the operator, past this backend: a record costs no further call."""

    @property
    @abstractmethod
    def is_unused(self) -> bool:
        """Return whether a snapshot would be empty: no state or timers were opened."""

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
