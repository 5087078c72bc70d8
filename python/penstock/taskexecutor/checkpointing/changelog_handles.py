"""Checkpoint parts of keyed state with a change log: a full snapshot, and log segments.

`docs/formats/checkpoint.md` specifies the description stored with the handle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint_storage.disposal import discard_streams
from penstock.checkpoint_storage.handles import IncrementalKeyGroupsHandle
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.checkpointing.incremental_states import placed
from penstock.taskexecutor.checkpointing.snapshot_format import (
    CHANGELOG_FORMAT,
    CHANGELOG_VERSION,
    write_keyed,
)
from penstock.taskexecutor.checkpointing.uploaded_files import needed_names, write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.checkpoint_storage.handles import StreamHandle
    from penstock.checkpoint_storage.streams import StateOutputStream
    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot
    from penstock.taskexecutor.state.snapshots.snapshot_contents import DatabaseFolder

#: Stream name of a full snapshot that is not a database.
_WHOLE: Final = "whole"


@dataclass(frozen=True)
class Whole:
    """A full snapshot of keyed state.

    Attributes:
        snapshot_id: The snapshot's number.
        streams: Its streams: database files by name; or one stream, or none.
        offsets: Offset of each key group in the one stream.
        description: Description of the database's files; None without a database.
        key_groups: Key groups of the database.
        owner: The checkpoint that reported it first.
    """

    snapshot_id: int
    streams: Mapping[str, StreamHandle]
    offsets: Mapping[int, int] = field(default_factory=dict)
    description: Mapping[str, Any] | None = None
    key_groups: range = range(0)
    owner: int = -1

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(stream.size for stream in self.streams.values())


@dataclass(frozen=True)
class Segment:
    """A segment of the change log.

    Attributes:
        stream: The stream.
        offsets: Offset of each key group in the stream.
        since: The snapshot from which it continues.
        owner: The checkpoint that reported it first.
    """

    stream: StreamHandle
    offsets: Mapping[int, int]
    since: int
    owner: int


@dataclass(frozen=True)
class LoggedState:
    """Logged state of one operator in a checkpoint.

    Attributes:
        whole: The full snapshot.
        segments: The segments that follow, in order.
    """

    whole: Whole
    segments: tuple[Segment, ...] = ()

    @property
    def streams(self) -> dict[str, StreamHandle]:
        """Streams by their names in a handle: the owner checkpoint and their own name."""
        whole = self.whole
        named = {f"{whole.owner}/{name}": stream for name, stream in whole.streams.items()}
        return named | {f"{segment.owner}/log": segment.stream for segment in self.segments}

    def handle(
        self,
        checkpoint_id: int,
        operator_id: bytes,
        states: Mapping[str, object],
        open_stream: Callable[[], StateOutputStream],
    ) -> IncrementalKeyGroupsHandle | None:
        """Write the description and return the handle; None without any stream.

        Args:
            checkpoint_id: The checkpoint.
            operator_id: The operator.
            states: Current description of the database's states; empty without a database.
            open_stream: Opens the stream of the description.

        Raises:
            OSError: The description cannot be written.
        """
        named = self.streams
        if not named:
            return None
        whole = self.whole
        pieces = [(f"{segment.owner}/log", segment.offsets) for segment in self.segments]
        wholes = [(f"{whole.owner}/{_WHOLE}", whole.offsets)] if whole.offsets else []
        description: dict[str, Any] = {
            "format": CHANGELOG_FORMAT,
            "version": CHANGELOG_VERSION,
            "whole": [placed(*piece) for piece in wholes],
            "log": [placed(*piece) for piece in pieces],
        }
        groups = {group for _, offsets in (*wholes, *pieces) for group in offsets}
        if whole.description is not None:
            description["files"] = [f"{whole.owner}/{name}" for name in whole.streams]
            description["database"] = {**whole.description, **states}
            groups |= {whole.key_groups.start, whole.key_groups.stop - 1}
        meta = open_stream()
        try:
            meta.write(TypeSerializer[Any]().serialize(description))
            meta_handle = meta.handle()
        finally:
            meta.close()
        assert meta_handle is not None, "something was written"
        first, last = min(groups), max(groups)
        own = f"{checkpoint_id}/"
        return IncrementalKeyGroupsHandle(
            checkpoint_id,
            operator_id.hex(),
            first,
            last - first + 1,
            sum(stream.size for name, stream in named.items() if name.startswith(own)),
            meta_handle,
            named,
            {},
        )

    def discard_own(self, checkpoint_id: int, files: FileSystems) -> None:
        """Delete the files that a checkpoint was the first to contain.

        Raises:
            OSError: A file cannot be deleted.
        """
        own = f"{checkpoint_id}/"
        discard_streams((s for name, s in self.streams.items() if name.startswith(own)), files)


def write_whole(
    snapshot: OperatorSnapshot,
    folder: DatabaseFolder | None,
    open_stream: Callable[[], StateOutputStream],
    *,
    compresses: bool,
    threads: int,
    files: FileSystems,
    owner: int = -1,
) -> Whole:
    """Write a full snapshot of keyed state.

    Args:
        snapshot: The state.
        folder: The files of its database; None without a database.
        open_stream: Opens a stream, from any thread.
        compresses: Whether key groups are compressed; database files never are.
        threads: Number of files written at a time.
        files: File systems on which files are deleted.
        owner: The checkpoint; -1 beside checkpoints.

    Raises:
        OSError: A stream cannot be written; those already written are deleted.
    """
    if folder is None:
        stream, offsets = write_stream(snapshot, open_stream, compresses=compresses)
        streams = {} if stream is None else {_WHOLE: stream}
        return Whole(snapshot.checkpoint_id, streams, offsets, owner=owner)
    written: dict[str, StreamHandle] = {}
    try:
        names = needed_names(folder.path)
        write_files(folder.path, names, lambda _: open_stream(), threads, written)
    except BaseException:
        discard_streams(written.values(), files)
        raise
    return Whole(snapshot.checkpoint_id, written, {}, folder.meta, folder.key_groups, owner)


def write_stream(
    snapshot: OperatorSnapshot, open_stream: Callable[[], StateOutputStream], *, compresses: bool
) -> tuple[StreamHandle | None, Mapping[int, int]]:
    """Write keyed state to a stream; return the stream and the offset of each key group.

    Raises:
        OSError: The stream cannot be written; it is deleted.
    """
    stream = open_stream()
    try:
        offsets = write_keyed(stream, snapshot, compresses=compresses)
        return stream.handle(), offsets
    finally:
        stream.close()


def discard_wholes(wholes: Iterable[Whole], files: FileSystems) -> None:
    """Delete full snapshots that no checkpoint contains.

    Raises:
        OSError: A file cannot be deleted.
    """
    for whole in wholes:
        discard_streams(whole.streams.values(), files)
