"""Keyed state of which checkpoints write what has changed: a log behind a whole (internals M66).

A handle names what was written as a whole, at some time, and the segments of the log that follow.
Both are streams that several checkpoints may use, which is the JobMaster's affair.  A task refers
to streams of checkpoints only that it knows to be complete: after one that is not, the next segment
begins where that one's did.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.checkpoint_storage.handles import ByteStreamHandle
from penstock.common.options import changelog
from penstock.common.options.checkpointing import INLINE_THRESHOLD
from penstock.common.options.rocksdb import TRANSFER_THREADS
from penstock.taskexecutor.checkpointing.changelog_handles import (
    LoggedState,
    Segment,
    Whole,
    discard_wholes,
    write_stream,
    write_whole,
)
from penstock.taskexecutor.state.keyed_state_backend import LogBase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.checkpoint_storage.handles import IncrementalKeyGroupsHandle
    from penstock.checkpoint_storage.streams import StateOutputStream
    from penstock.taskexecutor.state.snapshot import OperatorSnapshot
    from penstock.taskexecutor.state.snapshot_contents import DatabaseFolder

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: After so many segments the whole is written before its time: a restore opens each.
_MOST_SEGMENTS: Final = 256

#: Or after so many bytes of them that travel with the metadata of each checkpoint.
_MOST_INLINE_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class ChangelogBase(LogBase):
    """Base of an operator's next checkpoint.

    Attributes:
        state: What is there, and is referred to.
    """

    state: LoggedState


class ChangelogStates:
    """Written state of a task's operators, to which later checkpoints refer.

    ``write`` and ``failed`` run in the thread that writes, the rest in the task's.
    """

    def __init__(
        self,
        files: FileSystems,
        configuration: Mapping[str, str],
        *,
        compresses: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Starts without: the first checkpoint is whole.

        Args:
            files: Where files are deleted.
            configuration: The job's.
            compresses: Whether what is written as a whole is compressed.
            sleep: Waits for a number of seconds between two attempts to write.
        """
        self._files = files
        self._compresses = compresses
        self._compresses_log = changelog.COMPRESSION.read(configuration)
        retries = changelog.RETRY_POLICY.read(configuration) == "fixed"
        self._attempts = changelog.MAX_ATTEMPTS.read(configuration) if retries else 1
        self._delay_s = changelog.ATTEMPT_DELAY.read(configuration) / 1000
        #: A last segment of so many bytes is written anew with the next one.
        self._few_bytes = INLINE_THRESHOLD.read(configuration)
        self._threads = TRANSFER_THREADS.read(configuration)
        self._sleep = sleep
        self._written: dict[int, dict[bytes, LoggedState]] = {}
        #: Pending checkpoints, and the full snapshots that each is the first to contain; None if
        #: the backend writes them itself.
        self._undecided: dict[int, dict[bytes, Whole] | None] = {}
        #: The snapshots that segments of undecided ones go on from: one that is small and complete
        #: after others has the next segment begin there.
        self._since: dict[int, set[int]] = {}
        self._complete_id = -1
        #: The snapshot that is being written as a whole, or was and no checkpoint has it yet.
        self._whole_id: int | None = None
        self._ready: dict[bytes, Whole] = {}

    # ---- checkpoints -----------------------------------------------------------------------

    def begin(self, checkpoint_id: int, *, is_full: bool = False) -> dict[bytes, ChangelogBase]:
        """A checkpoint is about to be taken; gives what it may go on from, by operator.

        Nothing for one that is to be full, and nothing while an undecided one begins the log anew:
        once that is complete, what came before is deleted.
        """
        complete = self._complete
        begins_anew = any(wholes is None or wholes for wholes in self._undecided.values())
        if is_full or begins_anew or not complete:
            self._undecided[checkpoint_id] = None
            return {}
        needed = self._needed()
        if self._ready:
            self._whole_id = None
        own = {id_: replace(whole, owner=checkpoint_id) for id_, whole in self._ready.items()}
        self._ready = {}
        self._undecided[checkpoint_id] = own
        bases = {
            id_: ChangelogBase(whole.snapshot_id, needed, LoggedState(whole))
            for id_, whole in own.items()
        }
        for operator_id, state in complete.items():
            if operator_id not in own:
                since, segments = self._complete_id, list(state.segments)
                while segments and segments[-1].stream.size <= self._few_bytes:
                    since = segments.pop().since
                kept = LoggedState(state.whole, tuple(segments))
                bases[operator_id] = ChangelogBase(since, needed, kept)
        self._since[checkpoint_id] = {base.snapshot_id for base in bases.values()}
        return bases

    def write(
        self,
        operator_id: bytes,
        snapshot: OperatorSnapshot,
        folder: DatabaseFolder | None,
        base: ChangelogBase | None,
        open_stream: Callable[..., StateOutputStream],
    ) -> tuple[tuple[IncrementalKeyGroupsHandle, ...], int]:
        """The handle of an operator's keyed state, none without state; and the bytes referred to.

        Args:
            operator_id: The operator.
            snapshot: Its state as a whole, or, of a base, what has changed since.
            folder: The files of its database as a whole, also where what has changed since is not
                known; else None.
            base: What ``begin`` gave of it; None for nothing.
            open_stream: Opens a stream of this checkpoint alone, or, given True, of several; with
                ``is_log``, one of the log.

        Raises:
            OSError: A stream cannot be written.
        """
        checkpoint_id = snapshot.checkpoint_id
        if base is not None and folder is not None and base.state.whole.owner == checkpoint_id:
            self.discard({operator_id: base.state.whole})
        if base is None or folder is not None:
            whole = write_whole(
                snapshot,
                folder,
                lambda: open_stream(True),
                compresses=self._compresses,
                threads=self._threads,
                files=self._files,
                owner=checkpoint_id,
            )
            state = LoggedState(whole)
        else:
            state = base.state
            stream, offsets = self._retried(
                lambda: write_stream(
                    snapshot,
                    lambda: open_stream(True, is_log=True),
                    compresses=self._compresses_log,
                )
            )
            if stream is not None:
                segment = Segment(stream, offsets, base.snapshot_id, checkpoint_id)
                state = LoggedState(state.whole, (*state.segments, segment))
        self._written.setdefault(checkpoint_id, {})[operator_id] = state
        try:
            handle = state.handle(
                checkpoint_id, operator_id, snapshot.database, lambda: open_stream(False)
            )
        except BaseException:
            self.failed(checkpoint_id)
            raise
        if handle is None:
            return (), 0
        size = sum(stream.size for stream in handle.shared.values())
        return (handle,), size - handle.checkpointed_bytes

    def completed(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: later ones may refer to it."""
        if checkpoint_id not in self._undecided:
            return
        self._complete_id = checkpoint_id
        self._undecided = {id_: of for id_, of in self._undecided.items() if id_ > checkpoint_id}
        self._since = {id_: of for id_, of in self._since.items() if id_ > checkpoint_id}
        # In place, and of a copy: the thread that writes adds to it.
        for earlier_id in list(self._written):
            if earlier_id < checkpoint_id:
                del self._written[earlier_id]

    def failed(self, checkpoint_id: int) -> None:
        """A checkpoint could not be written to its end: deletes what nobody will hear of."""
        for state in self._written.pop(checkpoint_id, {}).values():
            state.discard_own(checkpoint_id, self._files)

    def aborted(self, checkpoint_id: int) -> None:
        """A checkpoint will not be complete.

        Deletes the wholes that it was to be the first to have, but for those that are named by what
        is written: these are the JobMaster's to delete, once nobody can find the checkpoint, whose
        metadata may be there.
        """
        wholes = self._undecided.pop(checkpoint_id, None) or {}
        self._since.pop(checkpoint_id, None)
        written = self._written.pop(checkpoint_id, {})
        self.discard({id_: whole for id_, whole in wholes.items() if id_ not in written})

    # ---- beside checkpoints ----------------------------------------------------------------

    @property
    def is_whole_wanted(self) -> bool:
        """Return whether there is a log, and no newer whole on its way to a checkpoint."""
        has_log = any(state.segments for state in self._complete.values())
        return has_log and self._whole_id is None

    @property
    def is_log_long(self) -> bool:
        """Return whether the whole should be written before its time."""
        for state in self._complete.values():
            inline = [s.stream for s in state.segments if isinstance(s.stream, ByteStreamHandle)]
            size = sum(stream.size for stream in inline)
            if len(state.segments) > _MOST_SEGMENTS or size > _MOST_INLINE_BYTES:
                return True
        return False

    def begin_whole(self, snapshot_id: int) -> None:
        """A snapshot is about to be written as a whole."""
        self._whole_id = snapshot_id

    def write_whole(
        self,
        snapshot: OperatorSnapshot,
        folder: DatabaseFolder | None,
        open_stream: Callable[[], StateOutputStream],
    ) -> Whole:
        """Writes the keyed state of an operator as a whole; any thread.

        Raises:
            OSError: It cannot be written; nothing is left of it.
        """
        return write_whole(
            snapshot,
            folder,
            open_stream,
            compresses=self._compresses,
            threads=self._threads,
            files=self._files,
        )

    def end_whole(self, wholes: Mapping[bytes, Whole]) -> None:
        """Note the written full snapshots, from which the next checkpoint continues."""
        self._ready = dict(wholes)
        if not wholes:
            self._whole_id = None

    def close(self) -> None:
        """Deletes what no checkpoint has."""
        self.discard(self._ready)
        self._ready = {}

    # ---- inside ----------------------------------------------------------------------------

    @property
    def _complete(self) -> dict[bytes, LoggedState]:
        return self._written.get(self._complete_id, {})

    def _needed(self) -> frozenset[int]:
        """The snapshots that a segment may go on from, now or later."""
        needed = {self._complete_id, *self._undecided}.union(*self._since.values())
        if self._whole_id is not None:
            needed.add(self._whole_id)
        for of_checkpoint in list(self._written.values()):
            for state in list(of_checkpoint.values()):
                needed.update(s.since for s in state.segments if s.stream.size <= self._few_bytes)
        return frozenset(needed)

    def discard(self, wholes: Mapping[bytes, Whole]) -> None:
        """Deletes what no checkpoint has; any thread."""
        try:
            discard_wholes(wholes.values(), self._files)
        except OSError as error:
            logger.warning("state that was written is of no use, and was not deleted: %s", error)

    def _retried(self, write: Callable[[], T]) -> T:
        for attempt in range(1, self._attempts):
            try:
                return write()
            except OSError as error:
                logger.warning(
                    "attempt %d of %d to write the log of state: %s", attempt, self._attempts, error
                )
                self._sleep(self._delay_s)
        return write()
