"""Sorts records by key and time within managed memory; the rest is sorted on disk.

Records stay in memory until no more can be reserved.  Then they are written as a run: in the order
of their keys' bytes, and for each key by time.  In the end the runs and the records in memory are
merged, so that one key may have more records than fit into memory.

The native sorter (``penstock._native.records.external_sorter``) stores serialised records in
segments, with an index of normalised keys.  Its twin here groups the records themselves.  Both
order keys alike: integers, then texts, each in their own order, then other keys by their serialised
form.
"""

from __future__ import annotations

import heapq
import itertools
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, final

from penstock.errors import TemporaryFileError
from penstock.network import IOManager, key_of
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.compiled import LOADED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.taskexecutor.compiled import Input
    from penstock.taskexecutor.worker.memory_manager import MemoryManager

#: The size of a reservation.  The first one needs no managed memory: with a few KiB of it, every
#: few records would become a run.
_RESERVED_BYTES: Final = 1 << 20

#: One record in this many is measured.
_MEASURED: Final = 64

#: A record in memory takes about this many bytes, plus this multiple of its serialised size.
_ELEMENT_BYTES: Final = 150
_OBJECTS: Final = 3

#: Approximate size of a block of a run.
_BLOCK_BYTES: Final = 128 << 10

#: A record of a run: the bytes of its key, its time, the number of its input, its value.
_Record = tuple[bytes, int, int, Any]

_BY_TIME: Final = itemgetter(0)
_BY_KEY_AND_TIME: Final = itemgetter(0, 1)


def create_sorter(memory: MemoryManager, temp_directory: Callable[[], str]) -> ExternalSorter:
    """Create the sorter of the runtime in use; arguments as of `ExternalSorter`."""
    if LOADED == "native":
        from penstock._native.records.external_sorter import ExternalSorter as NativeSorter

        return NativeSorter(memory, temp_directory)
    return ExternalSorter(memory, temp_directory)


def key_bytes(identity: object) -> bytes:
    """Return the bytes that a key sorts by, given its identity in state."""
    if type(identity) is str:
        return b"\2" + identity.encode("utf-8", "surrogatepass")
    if type(identity) is int and -(2**63) <= identity < 2**63:
        return b"\1" + (identity + 2**63).to_bytes(8, "big")
    return b"\3" + TypeSerializer[Any]().serialize(key_of(identity))


def spill_failure(error: OSError, folder: str) -> TemporaryFileError:
    """Return the error of a sorter that cannot write a run."""
    return TemporaryFileError(
        "the records of a sorted input exceed managed memory, and cannot be written to a file in "
        f"{folder}: {error.strerror}; make room there, name other folders in io.tmp.dirs, or raise "
        "taskmanager.memory.managed.size"
    )


@final
class ExternalSorter:
    """Collects records, then emits them key by key, each in the order of time."""

    def __init__(
        self, memory: MemoryManager, temp_directory: Callable[[], str], most_runs: int = 64
    ) -> None:
        """Start without records.

        Args:
            memory: The memory for records, besides a first block.
            temp_directory: Creates the folder of the runs.
            most_runs: Maximum number of runs merged at a time: each has an open file.
        """
        self._most_runs = most_runs
        self._memory = memory
        self._temp_directory = temp_directory
        self._groups: dict[Any, list[tuple[int, int, Any]]] = {}
        self._io: Any = None
        self._runs: list[_Run] = []
        self._until_measured = 1
        self._used_bytes = 0
        self._reserved_bytes = _RESERVED_BYTES

    @property
    def num_runs(self) -> int:
        """Number of runs on disk."""
        return len(self._runs)

    def add(self, identity: object, timestamp: int, input_number: int, value: object) -> None:
        """Add a record.

        Args:
            identity: The identity of its key, as a ``KeyReader`` returns it.
            timestamp: Its time, in ms.
            input_number: The input by which it arrived.
            value: The value of the record.

        Raises:
            TemporaryFileError: Managed memory is full, and so is the disk.
            SerializationError: The record cannot be serialised.
        """
        group = self._groups.get(identity)
        if group is None:
            self._groups[identity] = [(timestamp, input_number, value)]
        else:
            group.append((timestamp, input_number, value))
        self._until_measured -= 1
        if self._until_measured == 0:
            self._until_measured = _MEASURED
            size = len(TypeSerializer[Any]().serialize(value)) * _OBJECTS + _ELEMENT_BYTES
            self._used_bytes += size * _MEASURED
            if self._used_bytes > self._reserved_bytes:
                self._grow()

    def drain(self, targets: Sequence[Input], end_key: Callable[[], object]) -> None:
        """Emit all records by key, and for each key in the order of time; called once.

        Records of a key and a time are emitted in the order in which they were added.

        Args:
            targets: The receivers, by the number of the input.
            end_key: Called after the last record of each key.
        """
        for _, records in itertools.groupby(self._merged(), itemgetter(0)):
            for _, timestamp, input_number, value in records:
                targets[input_number].process(value, timestamp)
            end_key()

    def close(self) -> None:
        """Release memory and remove files."""
        self._groups.clear()
        for run in self._runs:
            run.delete()
        self._runs.clear()
        self._memory.release_all(self)
        if self._io is not None:
            self._io.close()
            self._io = None

    def _grow(self) -> None:
        """Reserve memory for the records so far, or write all of them to a run."""
        wanted = -(-(self._used_bytes - self._reserved_bytes) // _RESERVED_BYTES) * _RESERVED_BYTES
        if self._memory.reserve(self, wanted):
            self._reserved_bytes += wanted
            return
        if len(self._runs) == self._most_runs:
            merged = self._write(heapq.merge(*self._runs, key=_BY_KEY_AND_TIME))
            for run in self._runs:
                run.delete()
            self._runs = [merged]
        self._runs.append(self._write(self._sorted()))
        self._memory.release_all(self)
        self._reserved_bytes = _RESERVED_BYTES
        self._used_bytes = 0

    def _merged(self) -> Iterator[_Record]:
        # For equal key and time, the record of the earlier run comes first.
        return heapq.merge(*self._runs, self._sorted(), key=_BY_KEY_AND_TIME)

    def _sorted(self) -> Iterator[_Record]:
        """Yield the records in memory in order, and release them."""
        keys = [(key_bytes(identity), identity) for identity in self._groups]
        keys.sort(key=itemgetter(0))
        for key, identity in keys:
            group = self._groups.pop(identity)
            group.sort(key=_BY_TIME)
            for timestamp, input_number, value in group:
                yield key, timestamp, input_number, value

    def _write(self, records: Iterator[_Record]) -> _Run:
        folder = self._temp_directory()
        try:
            if self._io is None:
                self._io = IOManager([folder])
            run = _Run(self._io)
            run.write(records)
        except OSError as error:
            raise spill_failure(error, folder) from error
        return run


class _Run:
    """Sorted records in a file."""

    def __init__(self, io: IOManager) -> None:
        self._io = io
        self._channel = io.create_channel()
        self._sizes: list[int] = []
        self._reader: Any = None

    def write(self, records: Iterator[_Record]) -> None:
        encode = TypeSerializer[Any]().serialize
        writer = self._io.create_block_writer(self._channel, synchronous=True)
        count = 1
        try:
            while block := list(itertools.islice(records, count)):
                data = encode(block)
                writer.write_block(data)
                self._sizes.append(len(data))
                if len(data) < _BLOCK_BYTES // 2:
                    count *= 2
                elif len(data) > _BLOCK_BYTES:
                    count = max(1, count // 2)
        except BaseException:
            writer.close_and_delete()
            raise
        writer.close()

    def __iter__(self) -> Iterator[_Record]:
        decode = TypeSerializer[Any]().deserialize
        reader = self._reader = self._io.create_block_reader(self._channel, synchronous=True)
        for size in self._sizes:
            reader.request(size)
            for record in decode(reader.next()):
                yield tuple(record)
        self.delete()

    def delete(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close_and_delete()
