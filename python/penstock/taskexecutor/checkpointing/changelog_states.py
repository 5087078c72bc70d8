"""Keyed state with a change log: checkpoints refer to a full snapshot and log segments (M66).

A handle names a full snapshot, taken at some time, and the log segments that follow it. Several
checkpoints may share these streams; the JobMaster decides when to delete them.  A task refers only
to streams of checkpoints that it knows to be complete: after an incomplete one, the next segment
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
from penstock.taskexecutor.state.backends.keyed_state_backend import LogBase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.checkpoint_storage.handles import IncrementalKeyGroupsHandle
    from penstock.checkpoint_storage.streams import StateOutputStream
    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot
    from penstock.taskexecutor.state.snapshots.snapshot_contents import DatabaseFolder

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: After so many segments a full snapshot is due early: a restore opens each segment.
_MOST_SEGMENTS: Final = 256

#: Or after so many bytes of segments inlined in the metadata of each checkpoint.
_MOST_INLINE_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class ChangelogBase(LogBase):
    """Base of an operator's next checkpoint.

    Attributes:
        state: The stored state to which the checkpoint refers.
    """

    state: LoggedState


class ChangelogStates:
    """Written state of a task's operators, to which later checkpoints refer.

    ``write`` and ``failed`` run in the writing thread, the rest in the task's.
    """

    def __init__(
        self,
        files: FileSystems,
        configuration: Mapping[str, str],
        *,
        compresses: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create states without a base: the first checkpoint is full.

        Args:
            files: File systems on which files are deleted.
            configuration: The job's configuration.
            compresses: Whether full snapshots are compressed.
            sleep: Sleeps for a number of seconds between two attempts to write.
        """
        self._files = files
        self._compresses = compresses
        self._compresses_log = changelog.COMPRESSION.read(configuration)
        retries = changelog.RETRY_POLICY.read(configuration) == "fixed"
        self._attempts = changelog.MAX_ATTEMPTS.read(configuration) if retries else 1
        self._delay_s = changelog.ATTEMPT_DELAY.read(configuration) / 1000
        #: A last segment of at most so many bytes is written again with the next one.
        self._few_bytes = INLINE_THRESHOLD.read(configuration)
        self._threads = TRANSFER_THREADS.read(configuration)
        self._sleep = sleep
        self._written: dict[int, dict[bytes, LoggedState]] = {}
        #: Pending checkpoints, and the full snapshots that each is the first to contain; None if
        #: the backend writes them itself.
        self._undecided: dict[int, dict[bytes, Whole] | None] = {}
        #: The snapshots from which segments of pending checkpoints continue: after a small segment
        #: of a complete checkpoint, the next segment begins where the small one did.
        self._since: dict[int, set[int]] = {}
        self._complete_id = -1
        #: The full snapshot being written, or written and not yet in any checkpoint.
        self._whole_id: int | None = None
        self._ready: dict[bytes, Whole] = {}

    # ---- checkpoints -----------------------------------------------------------------------

    def begin(self, checkpoint_id: int, *, is_full: bool = False) -> dict[bytes, ChangelogBase]:
        """Return the bases of a checkpoint that is about to be taken, by operator.

        There are none for a full checkpoint, nor while a pending one starts the log anew: once that
        completes, everything before it is deleted.
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
        """Write an operator's keyed state; return its handle, if any, and the bytes referred to.

        Args:
            operator_id: The operator.
            snapshot: Its full state, or with a base the changes since.
            folder: The files of its database for a full snapshot, also if the changes are unknown;
                else None.
            base: The base from ``begin``, if there is one.
            open_stream: Opens a stream of this checkpoint alone or, given True, a shared one; with
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
        """Note a complete checkpoint, to which later ones may refer."""
        if checkpoint_id not in self._undecided:
            return
        self._complete_id = checkpoint_id
        self._undecided = {id_: of for id_, of in self._undecided.items() if id_ > checkpoint_id}
        self._since = {id_: of for id_, of in self._since.items() if id_ > checkpoint_id}
        # Delete in place, from a copy of the keys: the writing thread adds entries.
        for earlier_id in list(self._written):
            if earlier_id < checkpoint_id:
                del self._written[earlier_id]

    def failed(self, checkpoint_id: int) -> None:
        """Delete the files of a checkpoint that could not be written completely."""
        for state in self._written.pop(checkpoint_id, {}).values():
            state.discard_own(checkpoint_id, self._files)

    def aborted(self, checkpoint_id: int) -> None:
        """Handle a checkpoint that will not complete.

        Delete the full snapshots that it was the first to contain, except those named by written
        state: the JobMaster deletes these once nobody can find the checkpoint, whose metadata may
        exist.
        """
        wholes = self._undecided.pop(checkpoint_id, None) or {}
        self._since.pop(checkpoint_id, None)
        written = self._written.pop(checkpoint_id, {})
        self.discard({id_: whole for id_, whole in wholes.items() if id_ not in written})

    # ---- beside checkpoints ----------------------------------------------------------------

    @property
    def is_whole_wanted(self) -> bool:
        """Return whether there is a log and no newer full snapshot under way."""
        has_log = any(state.segments for state in self._complete.values())
        return has_log and self._whole_id is None

    @property
    def is_log_long(self) -> bool:
        """Return whether a full snapshot is due before its interval is over."""
        for state in self._complete.values():
            inline = [s.stream for s in state.segments if isinstance(s.stream, ByteStreamHandle)]
            size = sum(stream.size for stream in inline)
            if len(state.segments) > _MOST_SEGMENTS or size > _MOST_INLINE_BYTES:
                return True
        return False

    def begin_whole(self, snapshot_id: int) -> None:
        """Note that a full snapshot is about to be written."""
        self._whole_id = snapshot_id

    def write_whole(
        self,
        snapshot: OperatorSnapshot,
        folder: DatabaseFolder | None,
        open_stream: Callable[[], StateOutputStream],
    ) -> Whole:
        """Write an operator's keyed state in full; any thread.

        Raises:
            OSError: Writing failed; the files written so far are deleted.
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
        """Delete full snapshots that no checkpoint contains."""
        self.discard(self._ready)
        self._ready = {}

    # ---- inside ----------------------------------------------------------------------------

    @property
    def _complete(self) -> dict[bytes, LoggedState]:
        return self._written.get(self._complete_id, {})

    def _needed(self) -> frozenset[int]:
        """Return the snapshots from which a segment may continue, now or later."""
        needed = {self._complete_id, *self._undecided}.union(*self._since.values())
        if self._whole_id is not None:
            needed.add(self._whole_id)
        for of_checkpoint in list(self._written.values()):
            for state in list(of_checkpoint.values()):
                needed.update(s.since for s in state.segments if s.stream.size <= self._few_bytes)
        return frozenset(needed)

    def discard(self, wholes: Mapping[bytes, Whole]) -> None:
        """Delete full snapshots that no checkpoint contains; any thread."""
        try:
            discard_wholes(wholes.values(), self._files)
        except OSError as error:
            logger.warning("unused state could not be deleted: %s", error)

    def _retried(self, write: Callable[[], T]) -> T:
        for attempt in range(1, self._attempts):
            try:
                return write()
            except OSError as error:
                logger.warning(
                    "attempt %d of %d to write the change log failed: %s",
                    attempt,
                    self._attempts,
                    error,
                )
                self._sleep(self._delay_s)
        return write()
