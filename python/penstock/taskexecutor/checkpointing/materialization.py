"""Writes full snapshots of keyed state periodically, so that the log starts anew (M66)."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.common.options import changelog
from penstock.errors import CheckpointStorageError, StateBackendError
from penstock.taskexecutor.checkpointing.snapshot_slices import SlicedSnapshot, SnapshotSlices
from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot
from penstock.taskexecutor.task.mailbox import MailboxClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.checkpoint_storage.streams import StateOutputStream
    from penstock.taskexecutor.checkpointing.changelog_handles import Whole
    from penstock.taskexecutor.checkpointing.changelog_states import ChangelogStates
    from penstock.taskexecutor.state.backends.keyed_state_backend import KeyedSnapshot

logger = logging.getLogger(__name__)

#: Checkpoints number their snapshots from 0; -1 is none.
_FIRST_ID: Final = -2


class PeriodicMaterialization:
    """The full snapshots that a task writes beside checkpoints, one at a time.

    All methods run in the task's thread; the writing thread writes.
    """

    def __init__(
        self,
        states: ChangelogStates,
        configuration: Mapping[str, str],
        task_name: str,
        *,
        open_snapshots: Callable[[int], Mapping[bytes, KeyedSnapshot]],
        slices: SnapshotSlices,
        open_stream: Callable[[], StateOutputStream],
        write: Callable[[Callable[[], None]], None],
        execute: Callable[[Callable[[], object]], None],
        register_timer: Callable[[int, Callable[[], None]], None],
    ) -> None:
        """Create the materialization and start its first interval.

        Args:
            states: Receives the written snapshots.
            configuration: The job's configuration.
            task_name: The task's name, for messages.
            open_snapshots: Returns each operator's keyed state for a snapshot number.
            slices: Serialises snapshots between records.
            open_stream: Opens a stream that several checkpoints may refer to, in any thread.
            write: Runs a function in the writing thread.
            execute: Runs a function in the task's thread between two records; any thread.
            register_timer: Runs a function in the task's thread after a number of milliseconds.
        """
        self._states = states
        self._open_snapshots = open_snapshots
        self._slices = slices
        self._open_stream = open_stream
        self._write = write
        self._execute = execute
        self._register_timer = register_timer
        self._task_name = task_name
        self._most_failures = changelog.MAX_FAILURES.read(configuration)
        self._interval_ms = changelog.MATERIALIZE_INTERVAL.read(configuration)
        self._next_id = _FIRST_ID
        self._failures = 0
        self._lock = threading.Lock()
        self._is_closed = False
        #: Written snapshots of which the task's thread has not been notified.
        self._unheard: Mapping[bytes, Whole] = {}
        register_timer(self._interval_ms, self._due)

    def checkpoint_completed(self) -> None:
        """Start a full snapshot early if the log has become too long."""
        if self._states.is_log_long:
            self._begin()

    def close(self) -> None:
        """Start no more snapshots; delete those whose result the task will not receive."""
        with self._lock:
            self._is_closed = True
            wholes, self._unheard = self._unheard, {}
        self._states.discard(wholes)

    def _due(self) -> None:
        if not self._is_closed:
            self._begin()
            self._register_timer(self._interval_ms, self._due)

    def _begin(self) -> None:
        if self._is_closed or not self._states.is_whole_wanted:
            return
        snapshot_id, self._next_id = self._next_id, self._next_id - 1
        self._states.begin_whole(snapshot_id)
        snapshots = self._open_snapshots(snapshot_id)

        def serialised(failure: Exception | None) -> None:
            if failure is None:
                self._write(partial(self._written, snapshot_id, snapshots))
            else:
                for snapshot in snapshots.values():
                    snapshot.release()
                self._ended({}, failure)

        self._slices.start(SlicedSnapshot(snapshots.values(), serialised))

    def _written(self, snapshot_id: int, snapshots: Mapping[bytes, KeyedSnapshot]) -> None:
        """Write the snapshots, in the writing thread."""
        wholes: dict[bytes, Whole] = {}
        failure: Exception | None = None
        try:
            for operator_id, snapshot in snapshots.items():
                folder = snapshot.database_files()
                keyed, timers = snapshot.states()
                wholes[operator_id] = self._states.write_whole(
                    OperatorSnapshot(snapshot_id, keyed, timers), folder, self._open_unless_closed
                )
        except Exception as error:
            failure = error
        finally:
            for snapshot in snapshots.values():
                snapshot.release()
        with self._lock:
            if not self._is_closed:
                self._unheard = wholes
                with suppress(MailboxClosedError):
                    self._execute(lambda: self._ended(wholes, failure))
                return
        self._states.discard(wholes)

    def _open_unless_closed(self) -> StateOutputStream:
        if self._is_closed:
            # The job may have ended, and opening a stream would create its directory again.
            raise CheckpointStorageError(f"{self._task_name} has ended")
        return self._open_stream()

    def _ended(self, wholes: Mapping[bytes, Whole], failure: Exception | None) -> None:
        self._unheard = {}
        if failure is None:
            self._failures = 0
            self._states.end_whole(wholes)
            return
        self._states.discard(wholes)
        self._states.end_whole({})
        self._failures += 1
        logger.warning(
            "%s: cannot write a full snapshot of keyed state, %d failures in a row: %s",
            self._task_name,
            self._failures,
            failure,
        )
        if self._failures > self._most_failures:
            raise StateBackendError(
                f"{self._task_name}: a full snapshot of keyed state failed {self._failures} "
                f"times in a row ({changelog.MAX_FAILURES.key}: {self._most_failures}); last "
                f"failure: {failure}"
            ) from failure
