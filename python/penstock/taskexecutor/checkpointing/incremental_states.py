"""Keyed state of which a checkpoint writes only the key groups that have changed (internals M61).

A handle names several streams; of each key group it takes one, and the streams of earlier
checkpoints stay as long as a checkpoint names them, which is the JobMaster's affair.  A task refers
to streams of checkpoints only that it knows to be complete.
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
    from penstock.taskexecutor.state.snapshot import OperatorSnapshot

#: Streams that one handle names at most: a restore opens each.
_MOST_STREAMS: Final = 16

#: A stream of which less than this share of its key groups is in use is not referred to any more.
_LEAST_SHARE: Final = 0.25

#: No checkpoint has this number.
_NO_CHECKPOINT: Final = -1


@dataclass(frozen=True)
class _Piece:
    """Part of a stream to which a handle refers.

    Attributes:
        stream: The stream.
        offsets: Where each key group begins in it, of those that are taken.
        num_groups: How many the stream has.
    """

    stream: StreamHandle
    offsets: Mapping[int, int]
    num_groups: int


class IncrementalBase:
    """State of an operator in a complete checkpoint, to which a later one refers.

    Attributes:
        checkpoint_id: The complete checkpoint.
        kept: What the later one takes from it, by the names of streams, once that is decided.
    """

    def __init__(self, checkpoint_id: int, pieces: Mapping[str, _Piece]) -> None:
        """Of the pieces of the complete checkpoint nothing is taken yet."""
        self.checkpoint_id = checkpoint_id
        self.kept: dict[str, _Piece] = {}
        self._pieces = pieces

    def keep(self, changed: set[int]) -> set[int]:
        """Decides what is taken; gives those key groups.

        Args:
            changed: The key groups that have changed since, which are not.
        """
        left = {
            name: replace(
                piece, offsets={g: at for g, at in piece.offsets.items() if g not in changed}
            )
            for name, piece in self._pieces.items()
        }
        used = [name for name, of in left.items() if len(of.offsets) > _LEAST_SHARE * of.num_groups]
        # With the one that is written; those with few groups cost least to be written again.
        used.sort(key=lambda name: len(left[name].offsets), reverse=True)
        self.kept = {name: left[name] for name in used[: _MOST_STREAMS - 1]}
        return {group for piece in self.kept.values() for group in piece.offsets}


class IncrementalBases:
    """Complete checkpoints to which a new one may refer, by operator.

    That there is a base says that the checkpoint is an incremental one: each operator has one, also
    where there is nothing to refer to.
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
        #: Those of which it is not known whether they will be complete.
        self._undecided: set[int] = set()
        self._complete_id = _NO_CHECKPOINT

    def begin(self, checkpoint_id: int, *, is_full: bool = False) -> IncrementalBases:
        """A checkpoint is about to be taken; gives what it may refer to.

        Nothing while an earlier one is undecided: once that is complete, what it does not refer to
        is deleted.  Nor for one that is to be full.
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
        """The handle of an operator's keyed state, none without state; and the bytes referred to.

        Args:
            operator_id: The operator.
            snapshot: Its state, without the key groups that are kept of the base.
            base: What ``begin`` gave of it; None for nothing.
            open_stream: Opens a stream of this checkpoint alone, or, given True, of several.

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
        """A checkpoint is complete: later ones may refer to it."""
        if checkpoint_id not in self._written:
            return
        self._complete_id = checkpoint_id
        self._undecided = {id_ for id_ in self._undecided if id_ > checkpoint_id}
        # In place, and of a copy: the thread that writes adds to it.
        for earlier_id in list(self._written):
            if earlier_id < checkpoint_id:
                del self._written[earlier_id]

    def failed(self, checkpoint_id: int) -> None:
        """A checkpoint could not be written to its end: deletes what nobody will hear of."""
        for pieces in self._written.pop(checkpoint_id, {}).values():
            own = pieces.get(str(checkpoint_id))
            if own is not None:
                discard_streams((own.stream,), self._files)

    def aborted(self, checkpoint_id: int) -> None:
        """A checkpoint will not be complete."""
        self._undecided.discard(checkpoint_id)
        self._written.pop(checkpoint_id, None)


def placed(name: str, offsets: Mapping[int, int]) -> tuple[str, int, list[int]]:
    """A stream's name and where its key groups begin, as descriptions of handles have them."""
    first, last = min(offsets), max(offsets)
    return name, first, [offsets.get(group, -1) for group in range(first, last + 1)]


def _size(stream: StreamHandle) -> int:
    return stream.size if isinstance(stream, FileHandle) else len(stream.data)
