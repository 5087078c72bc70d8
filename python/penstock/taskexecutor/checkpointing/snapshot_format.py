"""The format of an operator's state in a checkpoint: `docs/formats/checkpoint.md`."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.checkpoint_storage.handles import (
    CHECKED_BYTES,
    IncrementalKeyGroupsHandle,
    KeyGroupsHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    PartitionableState,
)
from penstock.checkpoint_storage.streams import read_part, read_stream
from penstock.errors import CorruptCheckpointError
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.checkpointing.uploaded_files import file_name
from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot
from penstock.taskexecutor.state.snapshots.snapshot_contents import (
    CHANGED,
    FILES_FORMAT,
    FILES_VERSION,
    FILES_VERSIONS,
    ROWS,
    DatabaseFiles,
    EncodedValues,
    LogSegment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.checkpoint_storage.handles import ChannelStateHandle, StreamHandle
    from penstock.checkpoint_storage.streams import Copies, StateOutputStream

FORMAT_VERSION: Final = 2

#: Version of keyed state whose key groups are compressed one by one.
COMPRESSED_VERSION: Final = 3

#: Format and version of a change log, in the description of a handle.
CHANGELOG_FORMAT: Final = "changelog"
CHANGELOG_VERSION: Final = 1

#: Compression named in the head; fast rather than small, since a task waits for checkpoints.
_COMPRESSION: Final = "zlib"
_LEVEL: Final = 1

_U8, _U16, _U32 = struct.Struct(">B"), struct.Struct(">H"), struct.Struct(">I")
_U64 = struct.Struct(">Q")
_TIMER: Final = "timer"
_RAW: Final = "raw"

#: `KeyedStates` while they are filled.
_Groups = dict[str, tuple[str, dict[int, bytes]]]


class OperatorSnapshotWriter:
    """Writes the snapshots of one subtask's operators."""

    def __init__(
        self, open_stream: Callable[[], StateOutputStream], *, compresses: bool = False
    ) -> None:
        """Create a writer for one subtask.

        Args:
            open_stream: Opens a stream; called once for each kind of state.
            compresses: Whether keyed state is compressed.
        """
        self._open_stream = open_stream
        self._compresses = compresses

    def write(
        self,
        snapshot: OperatorSnapshot,
        keyed: tuple[KeyGroupsHandle | IncrementalKeyGroupsHandle, ...] | None = None,
    ) -> OperatorSubtaskState:
        """Write one operator's state and return its handles.

        Args:
            snapshot: The snapshot to write.
            keyed: The handles of keyed state that is already written; None to write it.

        Raises:
            OSError: A stream cannot be written; all streams of the operator are deleted.
        """
        if keyed is None:
            has_keyed = snapshot.keyed or snapshot.timers
            keyed = self._groups(snapshot, self._write_keyed) if has_keyed else ()
        has_states = snapshot.lists or snapshot.union_lists or snapshot.broadcast
        return OperatorSubtaskState(
            managed_keyed=keyed,
            raw_keyed=(self._groups(snapshot, self._write_raw_keyed) if snapshot.raw_keyed else ()),
            managed_operator=self._operator_states(snapshot) if has_states else (),
            raw_operator=self._raw_operator(snapshot) if snapshot.raw_operator else (),
            types=dict(snapshot.types),
        )

    def _groups(
        self,
        snapshot: OperatorSnapshot,
        write: Callable[[StateOutputStream, OperatorSnapshot], dict[int, int]],
    ) -> tuple[KeyGroupsHandle, ...]:
        stream = self._open_stream()
        try:
            offsets = write(stream, snapshot)
            if not offsets:
                return ()
            handle = stream.handle()
        finally:
            stream.close()
        assert handle is not None, "something was written"
        first, last = min(offsets), max(offsets)
        return (
            KeyGroupsHandle(
                first, tuple(offsets.get(group, -1) for group in range(first, last + 1)), handle
            ),
        )

    def _write_keyed(self, stream: StateOutputStream, snapshot: OperatorSnapshot) -> dict[int, int]:
        return write_keyed(stream, snapshot, compresses=self._compresses)

    def _write_raw_keyed(
        self, stream: StateOutputStream, snapshot: OperatorSnapshot
    ) -> dict[int, int]:
        offsets: dict[int, int] = {}
        for group, data in sorted(snapshot.raw_keyed.items()):
            offsets[group] = stream.position
            stream.write(_U32.pack(len(data)) + data)
        return offsets

    def _operator_states(self, snapshot: OperatorSnapshot) -> tuple[OperatorStateHandle, ...]:
        states: dict[str, PartitionableState] = {}
        stream = self._open_stream()
        try:
            by_mode = {
                "split": snapshot.lists,
                "union": snapshot.union_lists,
                "broadcast": snapshot.broadcast,
            }
            for mode, of_mode in by_mode.items():
                for name, values in of_mode.items():
                    offsets = []
                    for block in values.blocks:
                        offsets.append(stream.position)
                        _write_block(stream, block)
                    states[f"{mode}:{name}"] = PartitionableState(mode, tuple(offsets))
            return self._operator_handle(stream, states)
        finally:
            stream.close()

    def _raw_operator(self, snapshot: OperatorSnapshot) -> tuple[OperatorStateHandle, ...]:
        stream = self._open_stream()
        try:
            offsets = []
            for partition in snapshot.raw_operator:
                offsets.append(stream.position)
                stream.write(_U32.pack(len(partition)) + partition)
            states = {_RAW: PartitionableState("split", tuple(offsets))} if offsets else {}
            return self._operator_handle(stream, states)
        finally:
            stream.close()

    @staticmethod
    def _operator_handle(
        stream: StateOutputStream, states: dict[str, PartitionableState]
    ) -> tuple[OperatorStateHandle, ...]:
        handle = stream.handle()
        return () if handle is None else (OperatorStateHandle(states, handle),)


def write_keyed(
    stream: StateOutputStream,
    snapshot: OperatorSnapshot,
    *,
    compresses: bool = False,
) -> dict[int, int]:
    """Write keyed states and timers; return the offset of each key group.

    Args:
        stream: The stream to write to; it stays empty without state.
        snapshot: The snapshot with the states.
        compresses: Whether to compress each key group.
    """
    states = [
        (name, kind, groups)
        for of in (snapshot.keyed, snapshot.timers)
        for name, (kind, groups) in of.items()
    ]
    groups = sorted({group for *_, of_state in states for group in of_state})
    if not groups:
        return {}
    stream.write(_U8.pack(COMPRESSED_VERSION if compresses else FORMAT_VERSION))
    head: dict[str, Any] = {"states": [(name, kind) for name, kind, _ in states]}
    if compresses:
        head["compression"] = _COMPRESSION
    _write_block(stream, TypeSerializer[Any]().serialize(head))
    offsets: dict[int, int] = {}
    for group in groups:
        offsets[group] = stream.position
        parts = _group_parts(of_state.get(group) for *_, of_state in states)
        if compresses:
            compressor = zlib.compressobj(_LEVEL)
            packed = [*map(compressor.compress, parts), compressor.flush()]
            stream.write(_U64.pack(sum(map(len, packed))))
            parts = iter(packed)
        for part in parts:
            stream.write(part)
    return offsets


def _group_parts(states: Iterable[bytes | None]) -> Iterator[bytes]:
    """Yield the bytes of a key group, given its entries in each state."""
    for index, entries in enumerate(states):
        if entries is not None:
            yield _U16.pack(index + 1) + _U64.pack(len(entries))
            yield entries
    yield _U16.pack(0)


def _write_block(stream: StateOutputStream, data: bytes) -> None:
    stream.write(_U32.pack(len(data)))
    stream.write(data)


class OperatorSnapshotReader:
    """Reads the state from which a subtask starts."""

    def __init__(self, key_groups: range, files: FileSystems, copies: Copies | None = None) -> None:
        """Create a reader for one subtask.

        Args:
            key_groups: Key groups whose state is read.
            files: File systems of the checkpoint files.
            copies: Local copies, read in preference; None for none.
        """
        self._files = files
        self._copies = copies
        self._key_groups = key_groups
        self._serializer = TypeSerializer[Any]()
        self._streams: dict[str, bytes] = {}
        # Last range read of a partly read stream: its name, its start, and the bytes.
        self._window = "", 0, b""

    def read(self, checkpoint_id: int, state: OperatorSubtaskState) -> OperatorSnapshot:
        """Read the snapshot of one operator.

        Raises:
            CheckpointStorageError: A stream cannot be read.
            CorruptCheckpointError: A stream differs from what was written.
        """
        keyed: _Groups = {}
        timers: _Groups = {}
        files: list[DatabaseFiles] = []
        log: list[LogSegment] = []
        for handle in state.managed_keyed:
            if isinstance(handle, KeyGroupsHandle):
                self._read_keyed(handle, keyed, timers)
                continue
            meta = self._serializer.deserialize(read_stream(handle.meta, self._files, self._copies))
            if isinstance(meta, dict) and meta.get("format") == CHANGELOG_FORMAT:
                log += self._read_log(handle, meta, keyed, timers, files)
                continue
            if isinstance(meta, dict):
                files.append(self._database_files(handle, meta, timers))
                log += self._entries_beside(meta)
                continue
            for name, first, offsets in meta:
                part = KeyGroupsHandle(first, tuple(offsets), handle.shared[name])
                self._read_keyed(part, keyed, timers)
        raw_keyed: dict[int, bytes] = {}
        for handle in state.raw_keyed:
            for group, block in self._groups(handle):
                raw_keyed[group] = block.take(block.u32())
        lists: dict[str, EncodedValues] = {}
        union: dict[str, EncodedValues] = {}
        broadcast: dict[str, EncodedValues] = {}
        by_mode = {"split": lists, "union": union, "broadcast": broadcast}
        for named, mode, blocks in self._operator_values(state.managed_operator):
            name = named.partition(":")[2]
            by_mode[mode].setdefault(name, EncodedValues()).blocks.extend(blocks)
        raw_operator: list[bytes] = []
        for handle_ in state.raw_operator:
            for offset in handle_.states[_RAW].offsets:
                block = self._block(handle_.stream, offset)
                raw_operator.append(block.take(block.u32()))
        return OperatorSnapshot(
            checkpoint_id,
            dict(keyed),
            dict(timers),
            lists,
            union,
            broadcast,
            raw_keyed,
            tuple(raw_operator),
            state.types,
            tuple(files),
            tuple(log),
        )

    def _read_log(
        self,
        handle: IncrementalKeyGroupsHandle,
        meta: dict[str, Any],
        keyed: _Groups,
        timers: _Groups,
        files: list[DatabaseFiles],
    ) -> list[LogSegment]:
        """Return the log of a handle; add its full snapshot to the other states."""
        if meta.get("version") != CHANGELOG_VERSION:
            raise CorruptCheckpointError(
                f"{_named(handle.meta)}: change log of version {meta.get('version')}; this version "
                f"of penstock reads {CHANGELOG_VERSION}"
            )

        def part(name: str, first: int, offsets: list[int]) -> KeyGroupsHandle:
            return KeyGroupsHandle(first, tuple(offsets), handle.shared[name])

        if "database" in meta:
            shared = {name: handle.shared[name] for name in meta["files"]}
            whole = msgspec.structs.replace(handle, shared=shared)
            files.append(self._database_files(whole, meta["database"], timers))
        for piece in meta["whole"]:
            self._read_keyed(part(*piece), keyed, timers)
        log = []
        for piece in meta["log"]:
            changed: tuple[_Groups, _Groups] = {}, {}
            self._read_keyed(part(*piece), *changed)
            # Register the state, so that it is known without reading the log.
            for of, known in zip(changed, (keyed, timers), strict=True):
                for name, (kind, _) in of.items():
                    if kind != ROWS:
                        known.setdefault(name[1:], (kind, {}))
            log.append(LogSegment(dict(changed[0]), dict(changed[1])))
        return log

    def _database_files(
        self, handle: IncrementalKeyGroupsHandle, meta: dict[str, Any], timers: _Groups
    ) -> DatabaseFiles:
        """Return the files that a handle names; add the timers beside them to ``timers``."""
        if meta.get("format") != FILES_FORMAT or meta.get("version") not in FILES_VERSIONS:
            raise CorruptCheckpointError(
                f"{_named(handle.meta)}: keyed state of format {meta.get('format')!r}, version "
                f"{meta.get('version')}; this version of penstock reads {FILES_FORMAT!r}, "
                f"up to version {FILES_VERSION}"
            )
        for name, (kind, groups) in meta["timers"].items():
            known = timers.setdefault(str(name), (str(kind), {}))[1]
            known.update({g: data for g, data in groups.items() if g in self._key_groups})
        return DatabaseFiles(
            meta,
            {**{file_name(name): s for name, s in handle.shared.items()}, **handle.private},
            range(handle.first_group, handle.first_group + handle.num_groups),
            self._files,
            self._copies,
        )

    def _entries_beside(self, meta: dict[str, Any]) -> list[LogSegment]:
        """Return the entries in a file description that are newer than the rows."""
        changed: _Groups = {
            CHANGED + str(name): (
                str(kind),
                {group: data for group, data in groups.items() if group in self._key_groups},
            )
            for name, (kind, groups) in meta.get("changed", {}).items()
        }
        return [LogSegment(dict(changed), {})] if changed else []

    def read_buffers(self, handle: ChannelStateHandle) -> list[bytes]:
        """Return the buffers of a channel or subpartition, in order.

        Raises:
            CheckpointStorageError: The stream cannot be read.
            CorruptCheckpointError: The stream differs from what was written.
        """
        buffers = []
        for offset in handle.offsets:
            block = self._block(handle.stream, offset)
            buffers.append(block.take(block.u32()))
        return buffers

    def _read_keyed(self, handle: KeyGroupsHandle, keyed: _Groups, timers: _Groups) -> None:
        runs = self._runs(handle)
        # Read the head together with the first groups, unless they are far from it.
        is_near = runs and runs[0].start < CHECKED_BYTES
        start = self._part(handle.stream, 0, runs[0].stop if is_near else _U8.size + _U32.size)
        version = start.take(1)[0]
        if version not in (FORMAT_VERSION, COMPRESSED_VERSION):
            raise CorruptCheckpointError(
                f"{_named(handle.stream)}: keyed state of format {version}; this version of "
                f"penstock reads {FORMAT_VERSION} and {COMPRESSED_VERSION}"
            )
        head_bytes = start.u32()
        start = self._part(handle.stream, _U8.size + _U32.size, start.position + head_bytes)
        header = self._serializer.deserialize(start.take(head_bytes))
        if header.get("compression", _COMPRESSION) != _COMPRESSION:
            raise CorruptCheckpointError(
                f"{_named(handle.stream)}: keyed state compressed by {header['compression']!r}; "
                f"this version of penstock reads {_COMPRESSION}"
            )
        states = [
            (timers if kind == _TIMER else keyed).setdefault(str(name), (str(kind), {}))[1]
            for name, kind in header["states"]
        ]
        for group, stored in self._groups(handle):
            block = stored.unpacked() if version == COMPRESSED_VERSION else stored
            while index := block.u16():
                states[index - 1][group] = block.take(block.u64())

    def _groups(self, handle: KeyGroupsHandle) -> Iterable[tuple[int, _Block]]:
        offsets = dict(self._wanted(handle))
        for run in self._runs(handle):
            for group in [group for group, offset in offsets.items() if offset in run]:
                yield group, self._part(handle.stream, offsets[group], run.stop)

    def _wanted(self, handle: KeyGroupsHandle) -> Iterable[tuple[int, int]]:
        """Yield the key groups to read, and their offsets."""
        for index, offset in enumerate(handle.offsets):
            group = handle.first_group + index
            if offset >= 0 and group in self._key_groups:
                yield group, offset

    def _runs(self, handle: KeyGroupsHandle) -> list[range]:
        """Return the byte ranges to read, in order; adjacent groups are read at once."""
        begins = sorted(offset for offset in handle.offsets if offset >= 0)
        ends = dict(pairwise([*begins, handle.stream.size]))
        runs: list[range] = []
        for start in sorted(offset for _, offset in self._wanted(handle)):
            if runs and runs[-1].stop == start:
                runs[-1] = range(runs[-1].start, ends[start])
            else:
                runs.append(range(start, ends[start]))
        return runs

    def _part(self, handle: StreamHandle, start: int, end: int) -> _Block:
        """Return a block at position ``start`` of a stream, readable up to ``end``."""
        name = _named(handle)
        read_name, base, data = self._window
        if read_name != name or not base <= start <= end <= base + len(data):
            base, data = read_part(handle, start, end, self._files, self._copies)
            self._window = name, base, data
        return _Block(name, data, start, base)

    def _operator_values(
        self, handles: Iterable[OperatorStateHandle]
    ) -> Iterable[tuple[str, str, list[bytes]]]:
        for handle in handles:
            for name, state in handle.states.items():
                blocks = []
                for offset in state.offsets:
                    block = self._block(handle.stream, offset)
                    blocks.append(block.take(block.u32()))
                yield name, state.mode, blocks

    def _block(self, handle: StreamHandle, offset: int) -> _Block:
        name = _named(handle)
        data = self._streams.get(name)
        if data is None:
            data = self._streams[name] = read_stream(handle, self._files, self._copies)
        return _Block(name, data, offset)


class _Block:
    """A position in a stream; reading past the end means that the checkpoint is corrupt."""

    def __init__(self, name: str, data: bytes, position: int, base: int = 0) -> None:
        """Create a block at ``position``; ``data`` begins at ``base``."""
        self._name = name
        self._data = data
        self._base = base
        self.position = position

    def take(self, size: int) -> bytes:
        start = self.position - self._base
        if start + size > len(self._data):
            raise CorruptCheckpointError(
                f"{self._name} is truncated: expected {size} bytes at {self.position}, the size is "
                f"{self._base + len(self._data)}"
            )
        self.position += size
        return self._data[start : start + size]

    def unpacked(self) -> _Block:
        """Return the uncompressed block."""
        try:
            return _Block(self._name, zlib.decompress(self.take(self.u64())), 0)
        except zlib.error as error:
            raise CorruptCheckpointError(f"{self._name}: {error}") from error

    def u16(self) -> int:
        return int(_U16.unpack(self.take(2))[0])

    def u32(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def u64(self) -> int:
        return int(_U64.unpack(self.take(8))[0])


def _named(handle: StreamHandle) -> str:
    return str(getattr(handle, "path", None) or getattr(handle, "name", ""))
