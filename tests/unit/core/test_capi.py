"""The C function table of ``penstock._core``, called as the Cython extensions call it.

Goal: its layout is that of ``capi.h``, records written in place arrive at a gate, and failures set
their class and text.  Method: the same structures declared with ctypes.
"""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

import pytest
from penstock import _core as core
from penstock.network.error_codes import ErrorCode
from support.capi_structures import ABI_VERSION, Batch, Cursor, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITION = bytes(range(60))
EVENT_BUFFER, END_OF_PARTITION = 2, 10
NONE, DATA, EVENT, END = range(4)
SEGMENT_SIZE = 64


def payloads(batch: Batch) -> list[bytes]:
    """Return the payloads of all records."""
    found = []
    if batch.spanning:
        found.append(ctypes.string_at(batch.spanning, batch.spanning_len))
    rest = ctypes.string_at(batch.records, batch.records_len) if batch.records_len else b""
    while rest:
        (length,) = struct.unpack_from(">i", rest)
        found.append(rest[4 : 4 + length])
        rest = rest[4 + length :]
    return found


def pointer_of(capsule: object, name: bytes) -> int:
    """Return the address that a capsule holds."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    pointer = get(capsule, name)
    assert isinstance(pointer, int)
    return pointer


API = Table.from_address(pointer_of(core._C_API, b"penstock._core._C_API"))


def last_error() -> tuple[int, str]:
    """Return the kind and text of this thread's last failure."""
    text = ctypes.create_string_buffer(4096)
    size = API.last_error(text, len(text))
    return int.from_bytes(text.raw[:2], "big"), text.raw[2:size].decode()


class Plane:
    """A partition with two subpartitions, one read locally, one through TCP."""

    def __init__(self) -> None:
        settings: dict[str, Any] = {
            "token": b"t" * 32,
            "num_segments": 64,
            "segment_size": SEGMENT_SIZE,
        }
        self.producer = core.NetworkEnvironment(executor_id="producer", **settings)
        self.consumer = core.NetworkEnvironment(executor_id="consumer", **settings)
        self.partition = self.producer.create_result_partition(PARTITION, 2, flush_timeout_ms=-1)
        self.local = self.producer.create_input_gate([(PARTITION, 0, None)])
        self.remote = self.consumer.create_input_gate([(PARTITION, 1, self.producer.address)])
        self.gates = [self.local, self.remote]
        for gate in self.gates:
            gate.request_partitions()
        self.handle = pointer_of(self.partition._handle, b"penstock.partition")
        self.gate_handles = [pointer_of(gate._handle, b"penstock.gate") for gate in self.gates]

    def close(self) -> None:
        """Close both ends."""
        self.consumer.close()
        self.producer.close()

    def next(self, gate: int, timeout_ms: int = 30_000) -> Batch:
        """Return the next batch of a gate."""
        batch = Batch()
        assert API.gate_next(self.gate_handles[gate], timeout_ms, batch) == 0, last_error()
        return batch


@pytest.fixture
def plane() -> Iterator[Plane]:
    """Yield a partition and its readers."""
    plane = Plane()
    yield plane
    plane.close()


def write_in_place(cursor: Cursor, data: bytes) -> None:
    """Write a record that fits in place, as the Cython writer does."""
    assert cursor.capacity - cursor.position >= len(data)
    ctypes.memmove(cursor.data + cursor.position, data, len(data))
    cursor.position += len(data)
    cursor.marker[0] = cursor.position
    cursor.dirty[0] = 1


def record(payload: bytes) -> bytes:
    """Frame a payload."""
    return struct.pack(">i", len(payload)) + payload


def test_layout_is_that_of_the_header() -> None:
    assert API.abi_version == ABI_VERSION
    assert API.struct_size == ctypes.sizeof(Table)


@pytest.mark.parametrize("subpartition", [0, 1])
def test_record_written_in_place_is_read_after_a_flush(plane: Plane, subpartition: int) -> None:
    cursor = Cursor()
    assert API.partition_next_buffer(plane.handle, subpartition, cursor) == 0
    assert (cursor.position, cursor.capacity) == (0, SEGMENT_SIZE)
    write_in_place(cursor, record(b"first"))
    assert API.partition_flush(plane.handle, subpartition) == 0
    batch = plane.next(subpartition)
    assert (batch.kind, batch.channel, batch.data_type) == (DATA, 0, 1)
    assert payloads(batch) == [b"first"]
    write_in_place(cursor, record(b"") + record(b"second"))
    assert API.partition_flush(plane.handle, -1) == 0
    assert payloads(plane.next(subpartition)) == [b"", b"second"]


@pytest.mark.parametrize("subpartition", [0, 1])
def test_records_span_buffers(plane: Plane, subpartition: int) -> None:
    cursor = Cursor()
    written = [bytes([index]) * (index * 7) for index in range(40)]
    received: list[bytes] = []
    for payload in written:
        data = record(payload)
        assert API.partition_append(plane.handle, subpartition, cursor, data, len(data)) == 0, (
            last_error()
        )
        assert API.partition_flush(plane.handle, subpartition) == 0
        while len(received) < 1 or received[-1] != payload:
            received += payloads(plane.next(subpartition))
    assert received == written


def test_broadcast_reaches_every_subpartition_in_order(plane: Plane) -> None:
    unicast, broadcast = Cursor(), Cursor()
    for subpartition in (0, 1):
        assert API.partition_next_buffer(plane.handle, subpartition, unicast) == 0
        write_in_place(unicast, record(b"before"))
    assert API.partition_next_buffer(plane.handle, -1, broadcast) == 0
    write_in_place(broadcast, record(b"to all"))
    assert API.partition_event(plane.handle, b"\0\0\0\x02", 4, EVENT_BUFFER) == 0
    for gate in (0, 1):
        assert payloads(plane.next(gate)) == [b"before"]
        assert payloads(plane.next(gate)) == [b"to all"]
        batch = plane.next(gate)
        assert (batch.kind, batch.data_type) == (EVENT, EVENT_BUFFER)
        assert ctypes.string_at(batch.records, batch.records_len) == b"\0\0\0\x02"
    plane.partition.finish()
    for gate in (0, 1):
        assert plane.next(gate).data_type == END_OF_PARTITION
        assert plane.next(gate).kind == END


def test_nothing_to_read(plane: Plane) -> None:
    batch = Batch(kind=7)
    assert API.gate_try_next(plane.gate_handles[0], batch) == 0
    assert batch.kind == NONE
    plane.local.wakeup()
    assert plane.next(0, timeout_ms=-1).kind == NONE


def test_pool_runs_out_without_waiting(plane: Plane) -> None:
    cursor = Cursor()
    for _ in range(1000):
        answer = API.partition_try_next_buffer(plane.handle, 0, cursor)
        if answer != 0:
            break
        write_in_place(cursor, bytes(SEGMENT_SIZE))
    assert answer == 1
    assert not plane.partition.is_available()


def test_failure_leaves_kind_and_text(plane: Plane) -> None:
    plane.partition.finish()
    assert API.partition_next_buffer(plane.handle, 0, Cursor()) == -1
    kind, message = last_error()
    assert kind == ErrorCode.ILLEGAL_STATE
    assert "finished" in message
    assert API.partition_flush(plane.handle, 2) == -1
    assert "2" in last_error()[1]
    assert API.partition_event(plane.handle, b"", 0, 99) == -1
    assert "99" in last_error()[1]


def test_closed_gate_cancels_the_reader(plane: Plane) -> None:
    plane.local.close()
    assert API.gate_next(plane.gate_handles[0], -1, Batch()) == -1
    assert last_error()[0] == ErrorCode.CANCEL_TASK


def test_failed_producer_is_named(plane: Plane) -> None:
    plane.partition.fail("the disk of subtask 3 is full")
    for gate in (0, 1):
        assert API.gate_next(plane.gate_handles[gate], 30_000, Batch()) == -1
        kind, message = last_error()
        assert kind == ErrorCode.PRODUCER_FAILED
        assert "the disk of subtask 3 is full" in message
    assert API.partition_next_buffer(plane.handle, 0, Cursor()) == -1
    assert last_error()[0] == ErrorCode.CANCEL_TASK
