"""Keyed state of which a checkpoint writes only the changed key groups (internals M61).

A handle names several streams and takes each key group from one of them.  Streams of earlier
checkpoints stay as long as a checkpoint names them; the JobMaster tracks that.  A task refers only
to streams of checkpoints that it knows to be complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint_storage.disposal import discard_streams
from penstock.checkpoint_storage.handles import FileHandle, IncrementalKeyGroupsHandle
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.checkpointing.snapshot_format import write_keyed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.checkpoint_storage.handles import StreamHandle
    from penstock.checkpoint_storage.streams import StateOutputStream
    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot

#: Most streams that one handle names: a restore opens each.
_MOST_STREAMS: Final = 16

#: A stream with less than this share of its key groups in use is not referred to any more.
_LEAST_SHARE: Final = 0.25

#: No checkpoint has this number.
_NO_CHECKPOINT: Final = -1


@dataclass(frozen=True)
class _Piece:
    """Part of a stream to which a handle refers.

    Attributes:
        stream: The stream.
        offsets: Offset in it of each key group that is used.
        num_groups: Number of key groups in the stream.
    """

    stream: StreamHandle
    offsets: Mapping[int, int]
    num_groups: int


class IncrementalBase:
    """State of an operator in a complete checkpoint, to which a later one refers.

    Attributes:
        checkpoint_id: The complete checkpoint.
        kept: The pieces that the later checkpoint uses, by stream name, once ``keep`` chose them.
    """

    def __init__(self, checkpoint_id: int, pieces: Mapping[str, _Piece]) -> None:
        """Create a base whose pieces are not used yet."""
        self.checkpoint_id = checkpoint_id
        self.kept: dict[str, _Piece] = {}
        self._pieces = pieces

    def keep(self, changed: set[int]) -> set[int]:
        """Choose the pieces to refer to and return their key groups.

        Args:
            changed: Key groups that have changed since, which are left out.
        """
        left = {
            name: replace(
                piece, offsets={g: at for g, at in piece.offsets.items() if g not in changed}
            )
            for name, piece in self._pieces.items()
        }
        used = [name for name, of in left.items() if len(of.offsets) > _LEAST_SHARE * of.num_groups]
        # One stream is being written; those with few groups are cheapest to write again.
        used.sort(key=lambda name: len(left[name].offsets), reverse=True)
        self.kept = {name: left[name] for name in used[: _MOST_STREAMS - 1]}
        return {group for piece in self.kept.values() for group in piece.offsets}


class IncrementalBases:
    """Complete checkpoints to which a new one may refer, by operator.

    A base marks the checkpoint as incremental: each operator has one, even if there is nothing to
    refer to.
    """

    def __init__(self, checkpoint_id: int, written: Mapping[bytes, Mapping[str, _Piece]]) -> None:
        """Create the bases of a complete checkpoint from each operator's written state."""
        self._checkpoint_id = checkpoint_id
        self._written = written
        self._asked_for: dict[bytes, IncrementalBase] = {}

    def of(self, operator_id: bytes) -> IncrementalBase:
        """Return an operator's base; the same on every call."""
        base = self._asked_for.get(operator_id)
        if base is None:
            pieces = self._written.get(operator_id)
            checkpoint_id = _NO_CHECKPOINT if pieces is None else self._checkpoint_id
            base = self._asked_for[operator_id] = IncrementalBase(checkpoint_id, pieces or {})
        return base


class IncrementalStates:
    """Written state of a task's operators, to which later checkpoints refer.

    ``write`` and ``failed`` run in the writing thread, the rest in the task's.
    """

    def __init__(self, files: FileSystems, *, compresses: bool = False) -> None:
        """Create states without a base: the first checkpoint is full.

        Args:
            files: File systems on which files are deleted.
            compresses: Whether written state is compressed.
        """
        self._files = files
        self._compresses = compresses
        self._written: dict[int, dict[bytes, dict[str, _Piece]]] = {}
        #: Checkpoints that are neither complete nor aborted.
        self._undecided: set[int] = set()
        self._complete_id = _NO_CHECKPOINT

    def begin(self, checkpoint_id: int, *, is_full: bool = False) -> IncrementalBases:
        """Return the bases to which a checkpoint that is about to be taken may refer.

        There are none while an earlier checkpoint is pending: when that one completes, all streams
        it does not refer to are deleted.  Nor are there any for a full checkpoint.
        """
        is_whole = is_full or bool(self._undecided)
        self._undecided.add(checkpoint_id)
        written = {} if is_whole else self._written.get(self._complete_id, {})
        return IncrementalBases(self._complete_id, written)

    def write(
        self,
        operator_id: bytes,
        snapshot: OperatorSnapshot,
        base: IncrementalBase | None,
        open_stream: Callable[[bool], StateOutputStream],
    ) -> tuple[tuple[IncrementalKeyGroupsHandle, ...], int]:
        """Write an operator's keyed state; return its handle, if any, and the bytes referred to.

        Args:
            operator_id: The operator.
            snapshot: Its state, without the key groups kept from the base.
            base: The base from ``begin``, if there is one.
            open_stream: Opens a stream of this checkpoint alone or, given True, a shared one.

        Raises:
            OSError: A stream cannot be written.
        """
        checkpoint_id = snapshot.checkpoint_id
        pieces = {} if base is None else dict(base.kept)
        referred_bytes = sum(_size(piece.stream) for piece in pieces.values())
        written_bytes = 0
        stream = open_stream(True)
        try:
            if offsets := write_keyed(stream, snapshot, compresses=self._compresses):
                written_bytes = stream.position
                handle = stream.handle()
                assert handle is not None, "something was written"
                pieces[str(checkpoint_id)] = _Piece(handle, offsets, len(offsets))
        finally:
            stream.close()
        self._written.setdefault(checkpoint_id, {})[operator_id] = pieces
        if not pieces:
            return (), 0
        try:
            meta = open_stream(False)
            try:
                places = [placed(name, piece.offsets) for name, piece in pieces.items()]
                meta.write(TypeSerializer[Any]().serialize(places))
                meta_handle = meta.handle()
            finally:
                meta.close()
        except BaseException:
            self.failed(checkpoint_id)
            raise
        assert meta_handle is not None, "something was written"
        groups = {group for piece in pieces.values() for group in piece.offsets}
        first, last = min(groups), max(groups)
        handle_ = IncrementalKeyGroupsHandle(
            checkpoint_id,
            operator_id.hex(),
            first,
            last - first + 1,
            written_bytes,
            meta_handle,
            {name: piece.stream for name, piece in pieces.items()},
            {},
        )
        return (handle_,), referred_bytes

    def completed(self, checkpoint_id: int) -> None:
        """Note a complete checkpoint, to which later ones may refer."""
        if checkpoint_id not in self._written:
            return
        self._complete_id = checkpoint_id
        self._undecided = {id_ for id_ in self._undecided if id_ > checkpoint_id}
        # Delete in place, from a copy of the keys: the writing thread adds entries.
        for earlier_id in list(self._written):
            if earlier_id < checkpoint_id:
                del self._written[earlier_id]

    def failed(self, checkpoint_id: int) -> None:
        """Delete the files of a checkpoint that could not be written completely."""
        for pieces in self._written.pop(checkpoint_id, {}).values():
            own = pieces.get(str(checkpoint_id))
            if own is not None:
                discard_streams((own.stream,), self._files)

    def aborted(self, checkpoint_id: int) -> None:
        """Forget a checkpoint that will not complete."""
        self._undecided.discard(checkpoint_id)
        self._written.pop(checkpoint_id, None)


def placed(name: str, offsets: Mapping[int, int]) -> tuple[str, int, list[int]]:
    """Return a stream's name, first key group and offsets, as handle descriptions store them."""
    first, last = min(offsets), max(offsets)
    return name, first, [offsets.get(group, -1) for group in range(first, last + 1)]


def _size(stream: StreamHandle) -> int:
    return stream.size if isinstance(stream, FileHandle) else len(stream.data)
