"""The bytes of a ``_metadata`` file; `docs/formats/checkpoint.md` has the table."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata, OperatorState
from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    ChannelStateHandle,
    FileHandle,
    IncrementalKeyGroupsHandle,
    KeyGroupsHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    PartitionableState,
    StreamHandle,
)
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

MAGIC: Final = 0x4960672D
VERSION: Final = 7

_NULL, _BYTES, _FILE, _OPERATOR_STATE, _RELATIVE_FILE = 0, 1, 2, 4, 6
_INCREMENTAL, _KEY_GROUPS = 11, 12
_MODES: Final = ("split", "union", "broadcast")
_U8, _U16, _I32 = struct.Struct(">B"), struct.Struct(">H"), struct.Struct(">i")
_U32, _I64 = struct.Struct(">I"), struct.Struct(">q")


def serialize_metadata(metadata: CheckpointMetadata, location: str) -> bytes:
    """Serialise the metadata of a checkpoint.

    Args:
        metadata: The checkpoint.
        location: Its directory; files in it are named relative to it.
    """
    writer = _Writer(location)
    writer.u32(MAGIC)
    writer.i32(VERSION)
    writer.i64(metadata.checkpoint_id)
    writer.i32(0)  # master states
    writer.i32(len(metadata.operators))
    for operator in metadata.operators.values():
        _write_operator(writer, operator)
    writer.i64(metadata.timestamp_ms)
    writer.texts(metadata.properties)
    data = bytes(writer.data)
    return data + _U32.pack(zlib.crc32(data))


def deserialize_metadata(data: bytes, location: str) -> CheckpointMetadata:
    """Deserialise the checkpoint that `serialize_metadata` wrote.

    Args:
        data: The bytes of the whole file.
        location: The present directory of the file.

    Raises:
        CorruptCheckpointError: The bytes are not metadata, torn, changed, or of another version.
    """
    reader = _Reader(data[:-4], location)
    if len(data) < 12 or reader.u32() != MAGIC:
        raise reader.corrupt(
            "it is not a metadata file: it may belong to another program, or contain state"
        )
    version = reader.i32()
    if version != VERSION:
        raise reader.corrupt(f"its version is {version}; this version of penstock reads {VERSION}")
    if zlib.crc32(data[:-4]) != _U32.unpack(data[-4:])[0]:
        raise reader.corrupt("its checksum is wrong: it is torn, or was changed")
    checkpoint_id = reader.i64()
    if reader.count() != 0:
        raise reader.corrupt("it has master states, which this version of penstock does not know")
    operators = {}
    for _ in range(reader.count()):
        operator = _read_operator(reader)
        operators[operator.operator_id] = operator
    timestamp_ms = reader.i64()
    properties = reader.texts()
    reader.end()
    return CheckpointMetadata(checkpoint_id, timestamp_ms, operators, properties)


def _write_operator(writer: _Writer, operator: OperatorState) -> None:
    writer.text(operator.name)
    writer.text(operator.uid)
    writer.raw(operator.operator_id)
    writer.i32(operator.parallelism)
    writer.i32(operator.max_parallelism)
    coordinator = operator.coordinator
    writer.stream(None if coordinator is None else ByteStreamHandle("coordinator", coordinator))
    writer.texts(operator.types)
    if operator.is_fully_finished:
        writer.i32(-1)
        return
    present = sorted(set(operator.subtasks) | operator.finished_subtasks)
    writer.i32(len(present))
    for index in present:
        if index in operator.finished_subtasks:
            writer.i32(-(index + 1))
        else:
            writer.i32(index)
            _write_subtask(writer, operator.subtasks[index])


def _read_operator(reader: _Reader) -> OperatorState:
    name, uid, operator_id = reader.text(), reader.text(), reader.raw(16)
    parallelism, max_parallelism = reader.i32(), reader.i32()
    coordinator = reader.stream()
    types = reader.texts()
    subtasks: dict[int, OperatorSubtaskState] = {}
    finished: set[int] = set()
    count = reader.i32()
    if count == -1:
        finished.update(range(parallelism))
    for _ in range(reader.checked(max(count, 0))):
        index = reader.i32()
        if index < 0:
            finished.add(-index - 1)
        else:
            subtasks[index] = _read_subtask(reader)
    return OperatorState(
        operator_id,
        parallelism,
        max_parallelism,
        name,
        uid,
        subtasks,
        frozenset(finished),
        coordinator.data if isinstance(coordinator, ByteStreamHandle) else None,
        types,
    )


def _write_subtask(writer: _Writer, state: OperatorSubtaskState) -> None:
    for operator_states in (state.managed_operator, state.raw_operator):
        writer.i32(len(operator_states))
        for operator_state in operator_states:
            _write_operator_state(writer, operator_state)
    for keyed in (state.managed_keyed, state.raw_keyed):
        writer.i32(len(keyed))
        for handle in keyed:
            _write_keyed(writer, handle)
    for channels in (state.input_channels, state.result_subpartitions):
        writer.i32(len(channels))
        for channel in channels:
            writer.i32(channel.index)
            writer.i32(channel.channel)
            writer.i32(channel.of)
            writer.i64(channel.size)
            writer.offsets(channel.offsets)
            writer.stream(channel.stream)


def _read_subtask(reader: _Reader) -> OperatorSubtaskState:
    managed_operator, raw_operator = (reader.all(_read_operator_state) for _ in range(2))
    managed_keyed = reader.all(_read_keyed)
    raw_keyed = reader.all(_read_raw_keyed)
    input_channels, result_subpartitions = (reader.all(_read_channel) for _ in range(2))
    return OperatorSubtaskState(
        managed_keyed,
        raw_keyed,
        managed_operator,
        raw_operator,
        input_channels,
        result_subpartitions,
    )


def _write_operator_state(writer: _Writer, handle: OperatorStateHandle) -> None:
    writer.u8(_OPERATOR_STATE)
    writer.i32(len(handle.states))
    for name, state in handle.states.items():
        writer.text(name)
        writer.u8(_MODES.index(state.mode))
        writer.offsets(state.offsets)
    writer.stream(handle.stream)


def _read_operator_state(reader: _Reader) -> OperatorStateHandle:
    reader.expect(_OPERATOR_STATE)
    states = {}
    for _ in range(reader.count()):
        name, mode = reader.text(), reader.u8()
        if mode >= len(_MODES):
            raise reader.corrupt(f"unknown mode of operator state: {mode}")
        states[name] = PartitionableState(_MODES[mode], reader.offsets())
    return OperatorStateHandle(states, reader.some_stream())


def _write_keyed(writer: _Writer, handle: KeyGroupsHandle | IncrementalKeyGroupsHandle) -> None:
    if isinstance(handle, KeyGroupsHandle):
        writer.u8(_KEY_GROUPS)
        writer.i32(handle.first_group)
        writer.offsets(handle.offsets)
        writer.stream(handle.stream)
        writer.text(handle.handle_id)
        return
    writer.u8(_INCREMENTAL)
    writer.i64(handle.checkpoint_id)
    writer.text(handle.backend_id)
    writer.i32(handle.first_group)
    writer.i32(handle.num_groups)
    writer.i64(handle.checkpointed_bytes)
    writer.stream(handle.meta)
    for files in (handle.shared, handle.private):
        writer.i32(len(files))
        for name, stream in files.items():
            writer.text(name)
            writer.stream(stream)


def _read_keyed(reader: _Reader) -> KeyGroupsHandle | IncrementalKeyGroupsHandle:
    kind = reader.u8()
    if kind == _KEY_GROUPS:
        first, offsets = reader.i32(), reader.offsets()
        return KeyGroupsHandle(first, offsets, reader.some_stream(), reader.text())
    if kind != _INCREMENTAL:
        raise reader.corrupt(f"unknown kind of keyed state handle: {kind}")
    checkpoint_id, backend_id = reader.i64(), reader.text()
    first, number, written, meta = reader.i32(), reader.i32(), reader.i64(), reader.some_stream()
    shared, private = (
        {reader.text(): reader.some_stream() for _ in range(reader.count())} for _ in range(2)
    )
    return IncrementalKeyGroupsHandle(
        checkpoint_id, backend_id, first, number, written, meta, shared, private
    )


def _read_raw_keyed(reader: _Reader) -> KeyGroupsHandle:
    handle = _read_keyed(reader)
    if not isinstance(handle, KeyGroupsHandle):
        raise reader.corrupt("raw keyed state is incremental")
    return handle


def _read_channel(reader: _Reader) -> ChannelStateHandle:
    index, channel, of, size = reader.i32(), reader.i32(), reader.i32(), reader.i64()
    offsets = reader.offsets()
    return ChannelStateHandle(index, channel, of, offsets, size, reader.some_stream())


class _Writer:
    def __init__(self, location: str) -> None:
        self.data = bytearray()
        self._prefix = location.rstrip("/") + "/"

    def u8(self, value: int) -> None:
        self.data += _U8.pack(value)

    def i32(self, value: int) -> None:
        self.data += _I32.pack(value)

    def u32(self, value: int) -> None:
        self.data += _U32.pack(value)

    def i64(self, value: int) -> None:
        self.data += _I64.pack(value)

    def raw(self, value: bytes) -> None:
        self.data += value

    def text(self, value: str) -> None:
        encoded = value.encode()
        self.data += _U16.pack(len(encoded)) + encoded

    def texts(self, values: dict[str, str]) -> None:
        self.i32(len(values))
        for key, value in values.items():
            self.text(key)
            self.text(value)

    def offsets(self, values: tuple[int, ...]) -> None:
        self.i32(len(values))
        self.data += struct.pack(f">{len(values)}q", *values)

    def stream(self, handle: StreamHandle | None) -> None:
        if handle is None:
            self.u8(_NULL)
        elif isinstance(handle, ByteStreamHandle):
            self.u8(_BYTES)
            self.text(handle.name)
            self.i32(len(handle.data))
            self.raw(handle.data)
        else:
            relative = handle.path.removeprefix(self._prefix)
            self.u8(_FILE if relative == handle.path else _RELATIVE_FILE)
            self.i64(handle.size)
            self.i32(len(handle.checksums))
            for checksum in handle.checksums:
                self.u32(checksum)
            self.text(relative)


class _Reader:
    """Reads fields; raises an error that names the file if one does not fit."""

    def __init__(self, data: bytes, location: str) -> None:
        self._data = data
        self._at = 0
        self._location = location

    def corrupt(self, what: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(f"{self._location}/_metadata: {what}")

    def raw(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise self.corrupt(f"it ends in the middle of a field, at byte {self._at}")
        part = self._data[self._at : end]
        self._at = end
        return part

    def u8(self) -> int:
        return self.raw(1)[0]

    def i32(self) -> int:
        return int(_I32.unpack(self.raw(4))[0])

    def u32(self) -> int:
        return int(_U32.unpack(self.raw(4))[0])

    def i64(self) -> int:
        return int(_I64.unpack(self.raw(8))[0])

    def checked(self, count: int) -> int:
        """Check a number of following items, each of at least one byte, and return it."""
        if not 0 <= count <= len(self._data) - self._at:
            raise self.corrupt(f"{count} items do not fit after byte {self._at}")
        return count

    def count(self) -> int:
        return self.checked(self.i32())

    def text(self) -> str:
        try:
            return self.raw(int(_U16.unpack(self.raw(2))[0])).decode()
        except UnicodeDecodeError:
            raise self.corrupt(f"the text at byte {self._at} is not UTF-8") from None

    def texts(self) -> dict[str, str]:
        return {self.text(): self.text() for _ in range(self.count())}

    def offsets(self) -> tuple[int, ...]:
        count = self.count()
        return struct.unpack(f">{count}q", self.raw(8 * count))

    def stream(self) -> StreamHandle | None:
        kind = self.u8()
        if kind == _NULL:
            return None
        if kind == _BYTES:
            name = self.text()
            return ByteStreamHandle(name, self.raw(self.count()))
        if kind not in (_FILE, _RELATIVE_FILE):
            raise self.corrupt(f"unknown kind of stream handle: {kind}")
        size, blocks = self.i64(), self.count()
        checksums = struct.unpack(f">{blocks}I", self.raw(4 * blocks))
        path = self.text()
        if kind == _RELATIVE_FILE:
            path = f"{self._location}/{path}"
        return FileHandle(path, size, checksums)

    def some_stream(self) -> StreamHandle:
        handle = self.stream()
        if handle is None:
            raise self.corrupt("a stream is missing")
        return handle

    def all(self, read: Callable[[_Reader], _T]) -> tuple[_T, ...]:
        return tuple(read(self) for _ in range(self.count()))

    def expect(self, kind: int) -> None:
        found = self.u8()
        if found != kind:
            raise self.corrupt(f"a handle is of kind {found}, not {kind}")

    def end(self) -> None:
        if self._at != len(self._data):
            raise self.corrupt(f"{len(self._data) - self._at} bytes follow its end")
