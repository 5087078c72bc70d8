"""Keyed state of which a checkpoint writes only the key groups that have changed (SEMANTICS F10).

A handle names several streams; of each key group it takes one, and the streams of earlier
checkpoints stay as long as a checkpoint names them, which is the JobMaster's affair.  A task refers
to streams of checkpoints only that it knows to be complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.checkpoint_storage.disposal import discard_streams
from penstock.checkpoint_storage.handles import FileHandle, IncrementalKeyGroupsHandle
from penstock.serialization.codec import codec_for
from penstock.taskexecutor.checkpointing.snapshot_format import write_keyed

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.checkpoint_storage.handles import StreamHandle
    from penstock.checkpoint_storage.streams import StateOutputStream
    from penstock.taskexecutor.state.snapshot import OperatorSnapshot

#: Streams that one handle names at most: a restore opens each.
_MOST_STREAMS: Final = 16

#: A stream of which less than this share of its key groups is in use is not referred to any more.
_LEAST_SHARE: Final = 0.25

#: A stream and where each key group begins in it, of those that are taken from it.
_Piece = tuple["StreamHandle", dict[int, int]]


class IncrementalStates:
    """What the operators of a task have written, for later checkpoints to refer to.

    ``write`` and ``failed`` run in the thread that writes, the rest in the task's.
    """

    def __init__(self, files: FileSystems, *, compresses: bool = False) -> None:
        """Starts without: the first checkpoint is whole.

        Args:
            files: Where files are deleted.
            compresses: Whether what is written is compressed.
        """
        self._files = files
        self._compresses = compresses
        self._written: dict[int, dict[bytes, dict[str, _Piece]]] = {}

    def write(
        self,
        operator_id: bytes,
        snapshot: OperatorSnapshot,
        base_id: int | None,
        changed: set[int],
        open_stream: Callable[[bool], StateOutputStream],
    ) -> tuple[tuple[IncrementalKeyGroupsHandle, ...], int]:
        """The handle of an operator's keyed state, none without state; and the bytes referred to.

        Args:
            operator_id: The operator.
            snapshot: Its state.
            base_id: The complete checkpoint that it may refer to; None for none.
            changed: The key groups that differ from that one.
            open_stream: Opens a stream of this checkpoint alone, or, given True, of several.

        Raises:
            OSError: A stream cannot be written.
        """
        checkpoint_id = snapshot.checkpoint_id
        pieces = self._kept(operator_id, base_id, changed)
        kept = {group for _, offsets in pieces.values() for group in offsets}
        groups = {
            group
            for states in (snapshot.keyed, snapshot.timers)
            for _, of_state in states.values()
            for group in of_state
        }
        referred_bytes = sum(_size(stream) for stream, _ in pieces.values())
        written_bytes = 0
        stream = open_stream(True)
        try:
            if offsets := write_keyed(stream, snapshot, groups - kept, compresses=self._compresses):
                written_bytes = stream.position
                handle = stream.handle()
                assert handle is not None, "something was written"
                pieces[str(checkpoint_id)] = handle, offsets
        finally:
            stream.close()
        self._written.setdefault(checkpoint_id, {})[operator_id] = pieces
        if not pieces:
            return (), 0
        try:
            meta = open_stream(False)
            try:
                placed = [_placed(name, *pieces[name]) for name in pieces]
                meta.write(codec_for(None).encode(placed))
                meta_handle = meta.handle()
            finally:
                meta.close()
        except BaseException:
            self.failed(checkpoint_id)
            raise
        assert meta_handle is not None, "something was written"
        first, last = min(groups), max(groups)
        handle_ = IncrementalKeyGroupsHandle(
            checkpoint_id,
            operator_id.hex(),
            first,
            last - first + 1,
            written_bytes,
            meta_handle,
            {name: piece[0] for name, piece in pieces.items()},
            {},
        )
        return (handle_,), referred_bytes

    def completed(self, checkpoint_id: int) -> bool:
        """A checkpoint is complete; whether later ones may refer to it."""
        if checkpoint_id not in self._written:
            return False
        # In place: the thread that writes adds to it.
        for earlier_id in [id_ for id_ in self._written if id_ < checkpoint_id]:
            del self._written[earlier_id]
        return True

    def failed(self, checkpoint_id: int) -> None:
        """A checkpoint could not be written to its end: deletes what nobody will hear of."""
        for pieces in self._written.pop(checkpoint_id, {}).values():
            own = pieces.get(str(checkpoint_id))
            if own is not None:
                discard_streams((own[0],), self._files)

    def aborted(self, checkpoint_id: int) -> None:
        """A checkpoint will not be complete."""
        self._written.pop(checkpoint_id, None)

    def _kept(
        self, operator_id: bytes, base_id: int | None, changed: set[int]
    ) -> dict[str, _Piece]:
        """What is taken from streams of earlier checkpoints."""
        # A later checkpoint may have been completed meanwhile: then this one is whole.
        base = {} if base_id is None else self._written.get(base_id, {}).get(operator_id, {})
        kept: dict[str, _Piece] = {}
        for name, (stream, offsets) in base.items():
            left = {group: at for group, at in offsets.items() if group not in changed}
            if len(left) > _LEAST_SHARE * len(offsets):
                kept[name] = stream, left
        return kept if len(kept) < _MOST_STREAMS else {}


def _placed(name: str, stream: StreamHandle, offsets: dict[int, int]) -> tuple[str, int, list[int]]:
    del stream
    first, last = min(offsets), max(offsets)
    return name, first, [offsets.get(group, -1) for group in range(first, last + 1)]


def _size(stream: StreamHandle) -> int:
    return stream.size if isinstance(stream, FileHandle) else len(stream.data)
