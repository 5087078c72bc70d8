"""The events that travel between records, and their bytes (internals M12).

An event is ``i32 type id`` followed by its fields, everything big-endian:

====  ========================  =====================================================
id    event                     fields
====  ========================  =====================================================
0     EndOfPartition            none
1     CheckpointBarrier         i64 id, i64 timestamp, u8 kind, [u8 format], i32 location
                                length (-1: default) and bytes, u8 alignment, i64 timeout
2     EndOfSuperstep            none
3     TaskEvent                 u16 length and UTF-8 name, then the event's own bytes
4     CancelCheckpointMarker    i64 checkpoint id
5     EndOfChannelState         none
6     EventAnnouncement         i32 sequence number, then the announced event
7     SubtaskConnection…        i32 input subtask, i32 output subtask
8     EndOfData                 u8 stop mode
9     EndOfSegment              none
10    RecoveryMetadata          i32 subpartition of the last buffer
====  ========================  =====================================================

Both runtimes use this module: events are rare, so one implementation serves.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Final, TypeAlias, TypeVar

from penstock.errors import CorruptStreamError
from penstock.network.data_type import DataType

_E = TypeVar("_E", bound=enum.IntEnum)

NO_ALIGNMENT_TIMEOUT_MS = 2**63 - 1
"""The aligned timeout that means "never switch to an unaligned checkpoint"."""

_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_TWO_I32 = struct.Struct(">ii")
_TWO_I64 = struct.Struct(">qq")
_U16 = struct.Struct(">H")


class SnapshotKind(enum.IntEnum):
    """The reason for a barrier."""

    CHECKPOINT = 0
    SAVEPOINT = 1
    SAVEPOINT_SUSPEND = 2
    SAVEPOINT_TERMINATE = 3
    FULL_CHECKPOINT = 4

    @property
    def is_savepoint(self) -> bool:
        """Return whether the snapshot belongs to the user."""
        return self in (
            SnapshotKind.SAVEPOINT,
            SnapshotKind.SAVEPOINT_SUSPEND,
            SnapshotKind.SAVEPOINT_TERMINATE,
        )


class SavepointFormat(enum.IntEnum):
    """Format of a savepoint."""

    CANONICAL = 0
    NATIVE = 1


class Alignment(enum.IntEnum):
    """Alignment of channels at a barrier."""

    AT_LEAST_ONCE = 0
    ALIGNED = 1
    UNALIGNED = 2
    FORCED_ALIGNED = 3


class StopMode(enum.IntEnum):
    """The end of a stopped task: DRAIN emits the results of the end of its input first."""

    DRAIN = 0
    NO_DRAIN = 1


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """The last event of a channel."""

    TYPE_ID: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class CheckpointBarrier:
    """Separates the records before a checkpoint from those after it.

    Args:
        checkpoint_id: Number of the checkpoint, greater than those before it.
        timestamp_ms: Time of its trigger since 1970.
        kind: The reason for it.
        savepoint_format: Format of a savepoint.
        location: Encoded directory of the snapshot; None for the default one.
        alignment: Whether channels that delivered it wait for the others.
        aligned_timeout_ms: Time after which an aligned barrier becomes unaligned.
    """

    TYPE_ID: ClassVar[int] = 1

    checkpoint_id: int
    timestamp_ms: int
    kind: SnapshotKind = SnapshotKind.CHECKPOINT
    savepoint_format: SavepointFormat = SavepointFormat.CANONICAL
    location: bytes | None = None
    alignment: Alignment = Alignment.ALIGNED
    aligned_timeout_ms: int = NO_ALIGNMENT_TIMEOUT_MS

    @property
    def needs_alignment(self) -> bool:
        """Return whether a channel that delivered it is blocked until the others have, too."""
        return self.alignment in (Alignment.ALIGNED, Alignment.FORCED_ALIGNED)

    @property
    def is_timeoutable(self) -> bool:
        """Return whether it may become unaligned after a timeout."""
        return (
            self.alignment is Alignment.ALIGNED
            and self.aligned_timeout_ms != NO_ALIGNMENT_TIMEOUT_MS
        )

    @property
    def as_unaligned(self) -> CheckpointBarrier:
        """Return the barrier that overtakes data."""
        return replace(
            self, alignment=Alignment.UNALIGNED, aligned_timeout_ms=NO_ALIGNMENT_TIMEOUT_MS
        )

    @property
    def as_forced_aligned(self) -> CheckpointBarrier:
        """Return the barrier for an edge without overtaking; itself if it overtakes no data."""
        if self.alignment is Alignment.UNALIGNED or self.is_timeoutable:
            return replace(self, alignment=Alignment.FORCED_ALIGNED)
        return self

    @property
    def as_before_it_was_forced(self) -> CheckpointBarrier:
        """Return the barrier after such an edge, where it may overtake data again."""
        if self.alignment is not Alignment.FORCED_ALIGNED:
            return self
        if self.aligned_timeout_ms != NO_ALIGNMENT_TIMEOUT_MS:
            return replace(self, alignment=Alignment.ALIGNED)
        return replace(self, alignment=Alignment.UNALIGNED)


@dataclass(frozen=True, slots=True)
class EndOfSuperstep:
    """One round of a bulk iteration is over."""

    TYPE_ID: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """An application event: a name that both ends know, and bytes in a format they agree on.

    The name selects nothing here: no class is looked up from bytes of the network.

    Args:
        name: Name of the event.
        body: Content of the event.
    """

    TYPE_ID: ClassVar[int] = 3

    name: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class CancelCheckpointMarker:
    """Aborts a checkpoint downstream.

    Args:
        checkpoint_id: Number of the checkpoint.
    """

    TYPE_ID: ClassVar[int] = 4

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class EndOfChannelState:
    """The recovered in-flight data of a channel ends here."""

    TYPE_ID: ClassVar[int] = 5


@dataclass(frozen=True, slots=True)
class EventAnnouncement:
    """Announces an event that is still queued after data."""

    TYPE_ID: ClassVar[int] = 6

    event: Event
    sequence_number: int


@dataclass(frozen=True, slots=True)
class SubtaskConnectionDescriptor:
    """Selects the virtual channel of rescaled in-flight data."""

    TYPE_ID: ClassVar[int] = 7

    input_subtask: int
    output_subtask: int


@dataclass(frozen=True, slots=True)
class EndOfData:
    """No record follows; watermarks, barriers and EndOfPartition may.

    Args:
        mode: Whether the task emits the results of the end of its input first.
    """

    TYPE_ID: ClassVar[int] = 8

    mode: StopMode = StopMode.DRAIN


@dataclass(frozen=True, slots=True)
class EndOfSegment:
    """The consumer continues with another segment of the same subpartition."""

    TYPE_ID: ClassVar[int] = 9


@dataclass(frozen=True, slots=True)
class RecoveryMetadata:
    """Names the subpartition of the last recovered buffer."""

    TYPE_ID: ClassVar[int] = 10

    last_subpartition: int


Event: TypeAlias = (
    EndOfPartition
    | CheckpointBarrier
    | EndOfSuperstep
    | TaskEvent
    | CancelCheckpointMarker
    | EndOfChannelState
    | EventAnnouncement
    | SubtaskConnectionDescriptor
    | EndOfData
    | EndOfSegment
    | RecoveryMetadata
)

_WITHOUT_FIELDS: dict[int, Event] = {
    event.TYPE_ID: event
    for event in (EndOfPartition(), EndOfSuperstep(), EndOfChannelState(), EndOfSegment())
}


def serialize_event(event: Event) -> bytes:
    """Return the bytes of an event.

    Raises:
        ValueError: a task event's name is longer than 65535 bytes.
    """
    head = _I32.pack(event.TYPE_ID)
    match event:
        case CheckpointBarrier():
            return head + _serialize_barrier(event)
        case TaskEvent():
            name = event.name.encode()
            if len(name) > 0xFFFF:
                raise ValueError(f"event name of {len(name)} bytes; at most 65535 fit")
            return head + _U16.pack(len(name)) + name + event.body
        case CancelCheckpointMarker():
            return head + _I64.pack(event.checkpoint_id)
        case EventAnnouncement():
            return head + _I32.pack(event.sequence_number) + serialize_event(event.event)
        case SubtaskConnectionDescriptor():
            return head + _TWO_I32.pack(event.input_subtask, event.output_subtask)
        case EndOfData():
            return head + bytes((event.mode,))
        case RecoveryMetadata():
            return head + _I32.pack(event.last_subpartition)
        case EndOfPartition() | EndOfSuperstep() | EndOfChannelState() | EndOfSegment():
            return head


def parse_event(data: bytes | bytearray | memoryview) -> Event:
    """Read one event that fills ``data`` exactly.

    Raises:
        CorruptStreamError: the bytes are incomplete, too many, or of no known event.
    """
    content = bytes(data)
    return (
        _read_barrier(content)
        if content[:4] == _I32.pack(CheckpointBarrier.TYPE_ID)
        else _read(content)
    )


def _read(content: bytes) -> Event:
    reader = _Reader(content)
    if len(reader.data) < 4:
        raise CorruptStreamError(f"incomplete event: {len(reader.data)} bytes")
    event = _parse(reader)
    if reader.position != len(reader.data):
        left = len(reader.data) - reader.position
        raise CorruptStreamError(f"{left} bytes follow the event {type(event).__name__}")
    return event


#: The tasks of a worker get the same barrier at about the same time, and none can change it.
_read_barrier: Final = lru_cache(maxsize=16)(_read)


def data_type_of(event: Event, *, priority: bool = False) -> DataType:
    """Return the buffer type that an event travels as (internals M2)."""
    if priority:
        return DataType.PRIORITIZED_EVENT_BUFFER
    match event:
        case EndOfChannelState():
            return DataType.RECOVERY_COMPLETION
        case EndOfData():
            return DataType.END_OF_DATA
        case EndOfPartition():
            return DataType.END_OF_PARTITION
        case EndOfSegment():
            return DataType.END_OF_SEGMENT
        case RecoveryMetadata():
            return DataType.RECOVERY_METADATA
        case CheckpointBarrier() if event.needs_alignment:
            if event.is_timeoutable:
                return DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
            return DataType.ALIGNED_CHECKPOINT_BARRIER
        case _:
            return DataType.EVENT_BUFFER


def _serialize_barrier(barrier: CheckpointBarrier) -> bytes:
    parts = [
        _TWO_I64.pack(barrier.checkpoint_id, barrier.timestamp_ms),
        bytes((barrier.kind,)),
    ]
    if barrier.kind.is_savepoint:
        parts.append(bytes((barrier.savepoint_format,)))
    if barrier.location is None:
        parts.append(_I32.pack(-1))
    else:
        parts += [_I32.pack(len(barrier.location)), barrier.location]
    parts += [bytes((barrier.alignment,)), _I64.pack(barrier.aligned_timeout_ms)]
    return b"".join(parts)


class _Reader:
    """A position in an event's bytes; reading beyond the end is a corrupt stream."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self.data):
            raise CorruptStreamError(
                f"incomplete event: {count} bytes wanted at {self.position} of {len(self.data)}"
            )
        part = self.data[self.position : end]
        self.position = end
        return part

    def u8(self) -> int:
        return self.take(1)[0]

    def i32(self) -> int:
        value: int = _I32.unpack(self.take(4))[0]
        return value

    def i64(self) -> int:
        value: int = _I64.unpack(self.take(8))[0]
        return value


def _parse(reader: _Reader) -> Event:
    type_id = reader.i32()
    if type_id in _WITHOUT_FIELDS:
        return _WITHOUT_FIELDS[type_id]
    match type_id:
        case CheckpointBarrier.TYPE_ID:
            return _parse_barrier(reader)
        case TaskEvent.TYPE_ID:
            name = reader.take(_U16.unpack(reader.take(2))[0])
            try:
                text = name.decode()
            except UnicodeDecodeError as error:
                raise CorruptStreamError(f"event name is not UTF-8: {name!r}") from error
            return TaskEvent(text, reader.take(len(reader.data) - reader.position))
        case CancelCheckpointMarker.TYPE_ID:
            return CancelCheckpointMarker(reader.i64())
        case EventAnnouncement.TYPE_ID:
            sequence_number = reader.i32()
            if reader.data[reader.position : reader.position + 4] == _I32.pack(type_id):
                # Nesting has no meaning, and unbounded nesting would exhaust the stack.
                raise CorruptStreamError("an announcement announces an announcement")
            return EventAnnouncement(_parse(reader), sequence_number)
        case SubtaskConnectionDescriptor.TYPE_ID:
            return SubtaskConnectionDescriptor(reader.i32(), reader.i32())
        case EndOfData.TYPE_ID:
            return EndOfData(_member(StopMode, reader.u8()))
        case RecoveryMetadata.TYPE_ID:
            return RecoveryMetadata(reader.i32())
    raise CorruptStreamError(f"no event has the type id {type_id}")


def _parse_barrier(reader: _Reader) -> CheckpointBarrier:
    checkpoint_id, timestamp_ms = reader.i64(), reader.i64()
    kind = _member(SnapshotKind, reader.u8())
    savepoint_format = SavepointFormat.CANONICAL
    if kind.is_savepoint:
        savepoint_format = _member(SavepointFormat, reader.u8())
    length = reader.i32()
    if length < -1:
        raise CorruptStreamError(f"location of {length} bytes")
    location = None if length == -1 else reader.take(length)
    alignment = _member(Alignment, reader.u8())
    return CheckpointBarrier(
        checkpoint_id, timestamp_ms, kind, savepoint_format, location, alignment, reader.i64()
    )


def _member(kind: type[_E], value: int) -> _E:
    try:
        return kind(value)
    except ValueError as error:
        raise CorruptStreamError(f"{value} is no {kind.__name__}") from error
