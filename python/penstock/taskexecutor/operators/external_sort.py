"""Sorts records by key and time within managed memory; what exceeds it is sorted on disk.

Records are grouped in memory until no more can be reserved for them.  Then they are written as a
run: in the order of their keys' bytes, those of a key by time.  In the end the runs and what is in
memory are merged, so that a key may have more records than fit into memory.
"""

from __future__ import annotations

import heapq
import itertools
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from penstock.network import IOManager, key_of
from penstock.serialization.type_serializer import TypeSerializer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.taskexecutor.worker.memory_manager import MemoryManager

#: The size of a reservation.  The first one needs no managed memory: with a few KiB of it, every
#: few records would become a run.
_RESERVED_BYTES: Final = 1 << 20

#: The size of one record in so many is measured.
_MEASURED: Final = 64

#: A record in memory takes about so many bytes, and times as many as its serialised form.
_ELEMENT_BYTES: Final = 150
_OBJECTS: Final = 3

#: About how many bytes a block of a run has.
_BLOCK_BYTES: Final = 128 << 10

#: Runs that are merged at a time: each has an open file.
_MOST_RUNS: Final = 64

#: Of a record in a run: the bytes of its key, its time, the number of its input, its value.
_Record = tuple[bytes, int, int, Any]

_BY_TIME: Final = itemgetter(0)
_BY_KEY_AND_TIME: Final = itemgetter(0, 1)


class ExternalSorter:
    """Takes records, then gives them key by key."""

    def __init__(self, memory: MemoryManager, temp_directory: Callable[[], str]) -> None:
        """Starts without records.

        Args:
            memory: What records are kept in, besides a first block.
            temp_directory: Makes the folder of the runs.
        """
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

    def add(self, identity: Any, timestamp: int, input_number: int, value: Any) -> None:
        """Takes a record.

        Args:
            identity: What stands for its key.
            timestamp: Its time.
            input_number: The input that it came by.
            value: It.

        Raises:
            OSError: The disk does not take it.
            SerializationError: It cannot be written.
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

    def groups(self) -> Iterator[Iterable[tuple[int, int, Any]]]:
        """The records of each key in the order of time: time, number of the input, value.

        Each is to be read before the next one; to be asked for once.
        """
        if not self._runs:
            while self._groups:
                # Taken out one by one, so that the memory of a key is free once it is done.
                group = self._groups.pop(next(iter(self._groups)))
                group.sort(key=_BY_TIME)
                yield group
            return
        for _, records in itertools.groupby(self._merged(), itemgetter(0)):
            yield (record[1:] for record in records)

    def close(self) -> None:
        """Gives back memory and removes files."""
        self._groups.clear()
        for run in self._runs:
            run.delete()
        self._runs.clear()
        self._memory.release_all(self)
        if self._io is not None:
            self._io.close()
            self._io = None

    def _grow(self) -> None:
        """Reserves memory for what has come, or writes all of it."""
        wanted = -(-(self._used_bytes - self._reserved_bytes) // _RESERVED_BYTES) * _RESERVED_BYTES
        if self._memory.reserve(self, wanted):
            self._reserved_bytes += wanted
            return
        if len(self._runs) == _MOST_RUNS:
            merged = self._write(heapq.merge(*self._runs, key=_BY_KEY_AND_TIME))
            for run in self._runs:
                run.delete()
            self._runs = [merged]
        self._runs.append(self._write(self._sorted()))
        self._memory.release_all(self)
        self._reserved_bytes = _RESERVED_BYTES
        self._used_bytes = 0

    def _merged(self) -> Iterator[_Record]:
        # Of two records of a key and a time that of the earlier run comes first.
        return heapq.merge(*self._runs, self._sorted(), key=_BY_KEY_AND_TIME)

    def _sorted(self) -> Iterator[_Record]:
        """Yield the records in memory in order, and release them."""
        encode = TypeSerializer[Any]().serialize
        keys = [(encode(key_of(identity)), identity) for identity in self._groups]
        keys.sort(key=itemgetter(0))
        for key, identity in keys:
            group = self._groups.pop(identity)
            group.sort(key=_BY_TIME)
            for timestamp, input_number, value in group:
                yield key, timestamp, input_number, value

    def _write(self, records: Iterator[_Record]) -> _Run:
        if self._io is None:
            self._io = IOManager([self._temp_directory()])
        run = _Run(self._io)
        run.write(records)
        return run


class _Run:
    """Sorted records in a file."""

    def __init__(self, io: Any) -> None:
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
