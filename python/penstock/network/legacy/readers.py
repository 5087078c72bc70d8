"""Readers of the older interface: buffers or records of a gate, events and supersteps (M14).

A reader consumes everything that a gate delivers.  EndOfPartition and EndOfSuperstep end a round of
reading, task events go to listeners, anything else is an error.  Both runtimes use this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, Self, TypeVar

from penstock.errors import CorruptStreamError, IllegalStateError, NetworkError
from penstock.network.data_type import DataType
from penstock.network.events import (
    EndOfPartition,
    EndOfSuperstep,
    TaskEvent,
    parse_event,
    serialize_event,
)
from penstock.network.legacy.spanning import SpillingAdaptiveSpanningRecordDeserializer
from penstock.network.legacy.task_events import TaskEventHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from penstock.network.events import Event
    from penstock.network.legacy.task_events import TaskEventListener
    from penstock.network.pure.gate.input_gate import InputGate

_WAIT_FOREVER = -1


class ReadableRecord(Protocol):
    """A record that reads itself from bytes."""

    def read(self, payload: bytes | memoryview) -> int:
        """Read the value from ``payload``; return the number of bytes read."""


R = TypeVar("R", bound=ReadableRecord)


class AbstractReader:
    """Events and supersteps of a gate."""

    def __init__(self, gate: InputGate) -> None:
        self._gate = gate
        self._handler = TaskEventHandler()
        self._is_iterative = False
        self._superstep_ends = 0

    @property
    def is_finished(self) -> bool:
        """Return whether every channel has ended."""
        return self._gate.is_finished()

    def register_task_event_listener(self, listener: TaskEventListener, name: str) -> None:
        """Call ``listener`` for every task event of that name that arrives."""
        self._handler.subscribe(listener, name)

    def send_task_event(self, event: TaskEvent) -> None:
        """Send an event to the producers of all channels that have not ended.

        Raises:
            IllegalStateError: the gate's partitions were not requested, or the event is too long.
            CancelTaskError: the gate was closed.
        """
        self._gate.send_task_event(serialize_event(event))

    def set_iterative_reader(self) -> None:
        """Expect the ends of supersteps."""
        self._is_iterative = True

    def start_next_superstep(self) -> None:
        """Start to read the next superstep.

        Raises:
            IllegalStateError: the reader is not iterative, or the superstep has not ended.
        """
        if not self._is_iterative:
            raise IllegalStateError("a superstep of a reader that is not iterative")
        if self._superstep_ends != self._gate.num_channels:
            raise IllegalStateError(
                f"the superstep has ended on {self._superstep_ends} of "
                f"{self._gate.num_channels} channels; the next one cannot start"
            )
        self._superstep_ends = 0

    @property
    def has_reached_end_of_superstep(self) -> bool:
        """Return whether every channel has ended its superstep."""
        return self._is_iterative and self._superstep_ends == self._gate.num_channels

    def handle_event(self, event: Event) -> bool:
        """Handle an event; return True if it ends a partition, or a superstep on the last channel.

        Raises:
            NetworkError: the event is not allowed here, or a superstep ends twice.  Its cause is an
                IllegalStateError.
        """
        try:
            match event:
                case EndOfPartition():
                    return True
                case EndOfSuperstep():
                    return self._end_superstep_of_channel()
                case TaskEvent():
                    self._handler.publish(event)
                    return False
                case _:
                    raise IllegalStateError(f"a reader takes no {type(event).__name__}")
        except IllegalStateError as error:
            raise NetworkError(f"while handling {type(event).__name__}: {error}") from error

    def _end_superstep_of_channel(self) -> bool:
        if not self._is_iterative:
            raise IllegalStateError("the end of a superstep at a reader that is not iterative")
        if self._superstep_ends == self._gate.num_channels:
            raise IllegalStateError(
                f"a superstep ended more than once on each of {self._gate.num_channels} channels"
            )
        self._superstep_ends += 1
        return self._superstep_ends == self._gate.num_channels

    def _take(self) -> tuple[int, DataType, bytes] | None:
        """Wait for a buffer or an event; return None when every channel has ended."""
        while True:
            taken = self._gate.next_buffer(_WAIT_FOREVER)
            if taken is not None:
                channel, data_type, data = taken
                return channel, DataType(data_type), data
            if self._gate.is_finished():
                return None


class BufferReader(AbstractReader):
    """Reads whole buffers.

    Args:
        gate: The gate, whose partitions were requested.
    """

    def get_next_buffer(self) -> bytes | None:
        """Return the next buffer; None when a partition or a superstep has ended.

        Raises:
            NetworkError: a channel failed, or an event is not allowed here.
        """
        while (taken := self._take()) is not None:
            _, data_type, data = taken
            if data_type.is_buffer:
                return data
            if self.handle_event(parse_event(data)):
                return None
        return None


class AbstractRecordReader(AbstractReader):
    """Splits the buffers of a gate into records, channel by channel."""

    _deserializer_class: ClassVar = SpillingAdaptiveSpanningRecordDeserializer

    def __init__(
        self, gate: InputGate, temp_directories: Sequence[str | PathLike[str]] = ()
    ) -> None:
        super().__init__(gate)
        self._deserializers = [
            self._deserializer_class(temp_directories) for _ in range(gate.num_channels)
        ]
        self._current: SpillingAdaptiveSpanningRecordDeserializer | None = None

    def clear_buffers(self) -> None:
        """Drop unread data and its spill files."""
        self._current = None
        for deserializer in self._deserializers:
            deserializer.clear()

    def _read_into(self, target: ReadableRecord) -> bool:
        while True:
            if self._current is not None:
                result, payload = self._current.get_next_record()
                if result.is_buffer_consumed:
                    self._current = None
                if payload is not None:
                    _fill(target, payload)
                    return True
                continue
            taken = self._take()
            if taken is None:
                return False
            channel, data_type, data = taken
            deserializer = self._deserializers[channel]
            if data_type.is_buffer:
                deserializer.set_next_buffer(data)
                self._current = deserializer
                continue
            if deserializer.has_unfinished_data:
                raise CorruptStreamError(
                    f"broken serialization: {data_type.name} on channel {channel} inside a record"
                )
            if self.handle_event(parse_event(data)) and (
                self.is_finished or self.has_reached_end_of_superstep
            ):
                return False


def _fill(target: ReadableRecord, payload: bytes | memoryview) -> None:
    consumed = target.read(payload)
    if consumed != len(payload):
        raise CorruptStreamError(
            f"{type(target).__name__} has read {consumed} of {len(payload)} bytes of a record"
        )


class MutableRecordReader(AbstractRecordReader):
    """Fills records of the caller.

    Args:
        gate: The gate, whose partitions were requested.
        temp_directories: Directories for records of more than 5 MiB; without any, that of
            `tempfile.gettempdir`.
    """

    def next(self, target: ReadableRecord) -> bool:
        """Read the next record into ``target``; return False at the end of input or superstep.

        Raises:
            CorruptStreamError: a record reads more or less than its bytes, or an event occurs
                inside a record.
            NetworkError: a channel failed, or an event is not allowed here.
        """
        return self._read_into(target)


class RecordReader(AbstractRecordReader, Generic[R]):
    """Creates a record for each one read.

    Args:
        gate: The gate, whose partitions were requested.
        make: Creates an empty record, which then reads itself.
        temp_directories: Directories for records of more than 5 MiB; without any, that of
            `tempfile.gettempdir`.
    """

    def __init__(
        self,
        gate: InputGate,
        make: Callable[[], R],
        temp_directories: Sequence[str | PathLike[str]] = (),
    ) -> None:
        super().__init__(gate, temp_directories)
        self._make = make
        self._next: R | None = None

    def has_next(self) -> bool:
        """Return whether another record precedes the end of the input or of the superstep.

        Raises:
            CorruptStreamError, NetworkError: as for ``MutableRecordReader.next``.
        """
        if self._next is None:
            record = self._make()
            if self._read_into(record):
                self._next = record
        return self._next is not None

    def next(self) -> R | None:
        """Return the next record, or None.

        Raises:
            CorruptStreamError, NetworkError: as for ``MutableRecordReader.next``.
        """
        if not self.has_next():
            return None
        record, self._next = self._next, None
        return record

    def __iter__(self) -> Self:
        """Return an iterator up to the end of the input, or of the superstep."""
        return self

    def __next__(self) -> R:
        """Return the next record."""
        record = self.next()
        if record is None:
            raise StopIteration
        return record
