"""Buffers that a consumer on the same host copies in place (docs/formats/same-host.md).

Method: each runtime against hand-made peers on the Unix socket, which read and share memory, and
against the other one.
"""

import contextlib
import fcntl
import mmap
import os
import struct
from pathlib import Path

import pytest
from penstock.errors import CorruptStreamError, PartitionConnectionError
from penstock.network.data_type import DataType
from penstock.network.pure.wire import messages as wire

from contract.plane import (
    PATIENCE_MS,
    Background,
    assert_all_returned,
    connect,
    eventually,
    partition_id,
    raw_frames,
)
from contract.raw_peer import RECEIVER, RawConsumer, SameHostConsumer, SameHostProducer

pytestmark = [
    pytest.mark.usefixtures("no_memory_stays"),
    pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="abstract names are Linux's"),
]

PID = partition_id()
PAGE = mmap.PAGESIZE
SEGMENT_BYTES = 1024
USE_SHARED_MEMORY, BUFFER_REFERENCE, RETURN_REFERENCES = 12, 13, 14
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def frame(message_id, body=b""):
    return wire.FRAME_HEADER.pack(9 + len(body), wire.MAGIC, message_id) + body


def returned(count):
    return frame(RETURN_REFERENCES, struct.pack(">i", count))


def reference(receiver, offset, size, *, sequence=0, data_type=1, compressed=0):
    fields = wire.BUFFER_HEADER.pack(receiver, 0, sequence, 0, data_type, compressed, size)
    return frame(BUFFER_REFERENCE, fields + struct.pack(">Q", offset))


def next_frame(peer):
    """Return the message id and body of the next frame."""
    length, _, message_id = wire.FRAME_HEADER.unpack(peer.exactly(9))
    return message_id, peer.exactly(length - 9)


def sealed(size=4 * PAGE, seals=SEALS):
    """Create sealed memory like an executor's; the caller closes the descriptor."""
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


@contextlib.contextmanager
def mapped(descriptor, access=mmap.ACCESS_READ):
    with mmap.mmap(descriptor, 0, access=access) as memory:
        yield memory


def is_mapped():
    """Return whether this process has mapped an executor's memory for reading."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return any("memfd:penstock" in line and " r--s " in line for line in maps)


# The hand-made consumer


@pytest.fixture
def lending(plane):
    """Yield a producer, its partition, and a consumer with which it has shared its memory."""
    producer = plane.environment()
    partition = producer.create_result_partition(PID, 1)
    with SameHostConsumer(producer.address) as consumer:
        yield producer, partition, consumer
    partition.release()
    assert_all_returned(producer)


def write(plane, partition, values):
    writing = plane.writing(partition, "GLOBAL")
    writing.write(*values)
    writing.flush()


def test_buffers_are_lent_until_they_are_returned(plane, lending):
    """A-16: references locate the bytes; buffers that are not returned are missing in the pool."""
    producer, partition, consumer = lending
    values = [bytes([number]) * 700 for number in range(4)]
    write(plane, partition, values)
    consumer.socket.sendall(frame(USE_SHARED_MEMORY))
    consumer.request(PID, credit=100)
    payloads, references = [], 0
    with mapped(consumer.descriptors[0]) as memory:
        while sum(map(len, payloads)) < sum(plane.framed_size(value) for value in values):
            message_id, body = next_frame(consumer)
            header = wire.decode_buffer_header(body[:34])
            if message_id == BUFFER_REFERENCE:
                (offset,) = struct.unpack(">Q", body[34:])
                payloads.append(memory[offset : offset + header.size])
                references += 1
            else:
                assert message_id == wire.BUFFER_RESPONSE
                assert header.size < 512
                payloads.append(body[34:])
    assert [len(record) for record in raw_frames(payloads)] == [
        plane.framed_size(value) - 4 for value in values
    ]
    assert references >= 2
    partition.release()
    assert producer.total_segments - producer.available_segments >= references
    consumer.socket.sendall(returned(references - 1) + returned(1))
    assert_all_returned(producer)


def test_shared_memory_can_only_be_read(lending):
    """Only the executor can write its memory, and no process can change its size."""
    _, _, consumer = lending
    assert len(consumer.descriptors) == 2
    for descriptor in consumer.descriptors:
        with pytest.raises(PermissionError):
            mmap.mmap(descriptor, 0, access=mmap.ACCESS_WRITE)
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 0)
        with pytest.raises(PermissionError):
            os.pwrite(descriptor, b"x", 0)


def test_without_acceptance_buffers_come_by_the_socket(plane, lending):
    """A consumer that does not accept the memory gets every byte through the socket."""
    _, partition, consumer = lending
    write(plane, partition, [b"\1" * 900])
    consumer.request(PID, credit=100)
    header, payload = consumer.receive()
    assert header.size == len(payload) == plane.framed_size(b"\1" * 900)


@pytest.mark.parametrize(
    "nonsense",
    [
        returned(1),
        frame(USE_SHARED_MEMORY) + returned(1),
        frame(USE_SHARED_MEMORY) + returned(0),
        frame(USE_SHARED_MEMORY) + returned(-1),
        frame(USE_SHARED_MEMORY) * 2,
        frame(USE_SHARED_MEMORY, b"\0"),
        frame(RETURN_REFERENCES),
        reference(RECEIVER, 0, 600),
    ],
)
def test_consumers_that_break_the_rules_are_dropped(plane, lending, nonsense):
    """C-11: returning a buffer that was not lent ends the connection; all buffers are back."""
    producer, partition, consumer = lending
    write(plane, partition, [b"\1" * 5000])
    consumer.socket.sendall(nonsense)
    assert consumer.is_closed_by_peer()
    partition.release()
    assert_all_returned(producer)


@pytest.mark.parametrize("ending", ["too many returned", "gone"])
def test_lent_buffers_return_when_the_connection_ends(plane, lending, ending):
    """C-11: the flag is raised before lent buffers are written again."""
    producer, partition, consumer = lending
    write(plane, partition, [b"\1" * 5000])
    consumer.socket.sendall(frame(USE_SHARED_MEMORY))
    consumer.request(PID, credit=100)
    assert next_frame(consumer)[0] == BUFFER_REFERENCE
    with mapped(consumer.descriptors[1]) as flag:
        assert flag[:4] == bytes(4)
        if ending == "too many returned":
            consumer.socket.sendall(returned(1000))
            assert consumer.is_closed_by_peer()
        else:
            consumer.socket.close()
        partition.release()
        assert_all_returned(producer)
        assert flag[:4] != bytes(4)


def test_a_port_without_the_path_shows_nothing(plane):
    """A peer over TCP may not refer to memory."""
    producer = plane.environment()
    with RawConsumer(producer.address) as consumer:
        consumer.socket.sendall(frame(USE_SHARED_MEMORY))
        assert consumer.is_closed_by_peer()


# The hand-made producer


@contextlib.contextmanager
def gate_on(plane, producer, descriptors):
    """Return a gate whose producer passes descriptors, the producer's end, the receiver's id."""
    consumer = plane.environment()
    gate = consumer.create_input_gate([(PID, 0, producer.address)])
    gate.request_partitions()
    with producer.accept(descriptors) as peer:
        yield gate, peer
    gate.close()
    assert_all_returned(consumer)


@pytest.fixture
def producer():
    with SameHostProducer() as producer:
        yield producer


@pytest.fixture
def shown():
    """Yield descriptors of a memory and a flag."""
    descriptors = [sealed(), sealed(PAGE)]
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


def accepted(peer):
    """Return the receiver's id, once the consumer has accepted the memory and sent its request."""
    assert next_frame(peer) == (USE_SHARED_MEMORY, b"")
    return peer.receive().receiver


def test_references_are_copied_and_returned(plane, producer, shown):
    """Every reference is returned, in batches, even if its buffer is not wanted."""
    os.pwrite(shown[0], b"a" * 600 + b"b" * 600, 3 * PAGE - 600)
    with gate_on(plane, producer, shown) as (gate, peer):
        receiver = accepted(peer)
        peer.socket.sendall(
            reference(receiver, 3 * PAGE - 600, 600)
            + reference(bytes(16), 0, 600)
            + reference(receiver, 3 * PAGE, 600, sequence=1)
        )
        assert gate.next_buffer(PATIENCE_MS) == (0, DataType.DATA_BUFFER, b"a" * 600)
        assert gate.next_buffer(PATIENCE_MS) == (0, DataType.DATA_BUFFER, b"b" * 600)
        count = 0
        while count < 3:
            message_id, body = next_frame(peer)
            if message_id == RETURN_REFERENCES:
                count += struct.unpack(">i", body)[0]
            else:
                assert message_id == wire.ADD_CREDIT
        assert count == 3


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda r: reference(r, 4 * PAGE - 599, 600), id="one byte too far"),
        pytest.param(lambda r: reference(r, 4 * PAGE, 600), id="behind the end"),
        pytest.param(lambda r: reference(r, 2**64 - 1, 600), id="wraps around"),
        pytest.param(lambda r: reference(r, 0, SEGMENT_BYTES + 1), id="larger than a segment"),
        pytest.param(lambda r: reference(r, 0, 2**31 - 1), id="larger than memory"),
        pytest.param(lambda r: reference(r, 0, 0), id="empty"),
        pytest.param(lambda r: reference(r, 0, -1), id="negative"),
        pytest.param(lambda r: reference(r, 0, 600, compressed=1), id="compressed"),
        pytest.param(lambda r: reference(r, 0, 600, data_type=2), id="an event"),
        pytest.param(lambda r: reference(r, 0, 600, sequence=1), id="out of order"),
        pytest.param(lambda r: reference(r, 0, 600)[:20] + bytes(31), id="other bytes"),
        pytest.param(lambda r: frame(BUFFER_REFERENCE, bytes(41)), id="short"),
        pytest.param(lambda r: frame(BUFFER_REFERENCE, bytes(43)), id="long"),
    ],
)
def test_references_that_cannot_be_right(plane, producer, shown, make):
    """C-11: an invalid reference is a corrupt stream of its connection; all buffers are back."""
    with gate_on(plane, producer, shown) as (gate, peer):
        receiver = accepted(peer)
        peer.socket.sendall(make(receiver))
        with pytest.raises(CorruptStreamError):
            while gate.next_buffer(PATIENCE_MS) is not None:
                pass


def test_more_references_than_credit(plane, producer, shown):
    """C5: references, too, are limited to the exclusive and floating buffers."""
    with gate_on(plane, producer, shown) as (gate, peer):
        receiver = accepted(peer)
        many = [reference(receiver, 0, 600, sequence=number) for number in range(11)]
        peer.socket.sendall(b"".join(many))
        assert peer.is_closed_by_peer()
        with pytest.raises(CorruptStreamError):
            while gate.next_buffer(PATIENCE_MS) is not None:
                pass


def test_references_without_memory(plane, producer):
    """A producer that has passed no memory cannot refer to it."""
    with gate_on(plane, producer, []) as (gate, peer):
        receiver = peer.receive().receiver
        peer.socket.sendall(reference(receiver, 0, 600))
        with pytest.raises(CorruptStreamError):
            gate.next_buffer(PATIENCE_MS)


def test_a_raised_flag_ends_the_connection(plane, producer, shown):
    """Memory that may have changed since it was sent is never read as if it were unchanged."""
    with gate_on(plane, producer, shown) as (gate, peer):
        receiver = accepted(peer)
        os.pwrite(shown[1], b"\1\0\0\0", 0)
        peer.socket.sendall(reference(receiver, 0, 600))
        with pytest.raises(PartitionConnectionError):
            gate.next_buffer(PATIENCE_MS)


def _regular_file():
    descriptor = os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
    os.ftruncate(descriptor, PAGE)
    return descriptor


def _huge_pages():
    """Create sealed memory, but without a page if the system has no huge pages to spare."""
    flags = os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC | os.MFD_HUGETLB
    try:
        descriptor = os.memfd_create("test", flags)
    except OSError as error:
        pytest.skip(f"no huge pages: {error}")
    os.ftruncate(descriptor, os.fstatvfs(descriptor).f_bsize)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    return descriptor


@pytest.mark.parametrize(
    "makers",
    [
        pytest.param([lambda: sealed(seals=0), sealed], id="unsealed memory"),
        pytest.param([sealed, lambda: sealed(seals=fcntl.F_SEAL_GROW)], id="a flag that shrinks"),
        pytest.param([lambda: sealed(0), sealed], id="no bytes"),
        pytest.param([sealed, lambda: sealed(PAGE - 1)], id="less than a page"),
        pytest.param([_huge_pages, sealed], id="huge pages"),
        pytest.param([_regular_file, sealed], id="a file"),
        pytest.param([lambda: os.open("/dev/null", os.O_RDWR), sealed], id="a device"),
        pytest.param([sealed], id="one"),
        pytest.param([sealed, sealed, sealed], id="three"),
    ],
)
def test_shared_memory_must_be_safe_to_map(plane, producer, makers):
    """Memory that could be truncated under the reader is not mapped."""
    descriptors = [make() for make in makers]
    with gate_on(plane, producer, descriptors) as (gate, _):
        for descriptor in descriptors:
            os.close(descriptor)
        with pytest.raises(CorruptStreamError):
            gate.next_buffer(PATIENCE_MS)


def test_memory_of_an_impostor_is_not_looked_at(plane, producer, shown):
    """Descriptors count only with a valid proof."""
    with gate_on(plane, producer, []):
        pass
    consumer = plane.environment()
    gate = consumer.create_input_gate([(PID, 0, producer.address)])
    gate.request_partitions()
    with producer.accept(shown, token=b"another token") as peer:
        assert peer.is_closed_by_peer()
    gate.close()
    assert_all_returned(consumer)


# Two executors


@pytest.mark.parametrize("same_host", [True, False])
def test_executors_of_one_host_lend_buffers(plane, other_plane, same_host):
    """Executors of one host lend to each other; the memory is unmapped with the connection."""
    producer = plane.environment(same_host_path=same_host)
    consumer = other_plane.environment(same_host_path=same_host)
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=1)
    gate = connect(other_plane, producer, consumer, [(PID, 0)], local=False)
    values = [bytes([number]) * 5000 for number in range(100)]

    def produce():
        plane.writing(partition, "GLOBAL").write(*values)
        partition.finish()

    background = Background(produce)
    reading = other_plane.reading(gate)
    reading.until(lambda seen: seen.values[0])
    assert is_mapped() == same_host
    assert reading.to_end().values[0] == values
    background.result()
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)
    other_plane.close()
    eventually(lambda: not is_mapped(), "the producer's memory is mapped still")


def test_executors_without_memory_to_share_use_the_socket(plane, limited_file_size):
    """If the system refuses shared memory, all data goes through the socket."""
    with limited_file_size(PAGE):
        producer = plane.environment()
    partition = producer.create_result_partition(PID, 1)
    write(plane, partition, [b"\1" * 5000])
    with SameHostConsumer(producer.address) as consumer:
        assert consumer.descriptors == []
        consumer.request(PID, credit=100)
        header, payload = consumer.receive()
        assert header.size == len(payload)
    partition.release()
    assert_all_returned(producer)
