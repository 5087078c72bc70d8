"""The bytes of frames, events and the handshake (internals M12, M17, M73)."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock import errors
from penstock.errors import AuthenticationError, CorruptStreamError
from penstock.network import error_codes
from penstock.network.data_type import DataType
from penstock.network.events import (
    Alignment,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfChannelState,
    EndOfData,
    EndOfPartition,
    EndOfSegment,
    EndOfSuperstep,
    EventAnnouncement,
    RecoveryMetadata,
    SavepointFormat,
    SnapshotKind,
    StopMode,
    SubtaskConnectionDescriptor,
    TaskEvent,
    data_type_of,
    parse_event,
    serialize_event,
)
from penstock.network.pure.transport.frame_decoder import FrameDecoder
from penstock.network.pure.transport.handshake import ClientHandshake, ServerHandshake
from penstock.network.pure.wire import messages as wire

ID = bytes(range(16))
PARTITION = bytes(range(60))


def test_golden_frames():
    """J: AddCredit(3) is 29 bytes, CancelPartitionRequest 25, a BufferResponse header 43."""
    credit = wire.encode(wire.AddCredit(3, ID))
    assert credit == bytes.fromhex("0000001DBADC0FFE0600000003") + ID
    assert len(wire.encode(wire.CancelPartitionRequest(ID))) == 25
    header = wire.BufferHeader(ID, 1, 2, 3, 4, True, 5)
    assert wire.encode_buffer_header(header) == bytes.fromhex(
        "00000030 BADC0FFE 00".replace(" ", "")
    ) + ID + bytes.fromhex("000000010000000200000003040100000005")
    assert wire.BUFFER_RESPONSE_HEADER_BYTES == 43
    request = wire.encode(wire.PartitionRequest(PARTITION, 1, 1, ID, 2))
    assert request[9:] == PARTITION + bytes.fromhex("0000000100000001") + ID + b"\0\0\0\2"


INTS = st.integers(-(2**31), 2**31 - 1)
IDS = st.binary(min_size=16, max_size=16)
TEXTS = st.text(max_size=30)
ERRORS = st.builds(
    wire.RemoteError,
    st.integers(0, 2**16 - 1),
    TEXTS,
)
MESSAGES = st.one_of(
    st.builds(wire.ErrorResponse, ERRORS, st.none() | IDS),
    st.builds(wire.PartitionRequest, st.binary(min_size=60, max_size=60), INTS, INTS, IDS, INTS),
    st.builds(
        wire.TaskEventRequest, st.binary(max_size=40), st.binary(min_size=60, max_size=60), IDS
    ),
    st.builds(wire.CancelPartitionRequest, IDS),
    st.just(wire.CloseRequest()),
    st.builds(wire.AddCredit, INTS, IDS),
    st.builds(wire.ResumeConsumption, IDS),
    st.builds(wire.AckAllRecordsProcessed, IDS),
    st.builds(wire.BacklogAnnouncement, INTS, IDS),
    st.builds(wire.NewBufferSize, INTS, IDS),
    st.builds(wire.SegmentId, INTS, INTS, IDS),
    st.just(wire.UseSharedMemory()),
    st.builds(
        wire.BufferReference,
        st.builds(
            wire.BufferHeader,
            IDS,
            INTS,
            INTS,
            INTS,
            st.integers(0, 255),
            st.just(value=False),
            st.integers(1, 2**31 - 1),
        ),
        st.integers(0, 2**64 - 1),
    ),
    st.builds(wire.ReturnReferences, INTS),
)
BUFFERS = st.tuples(
    st.builds(
        wire.BufferHeader, IDS, INTS, INTS, INTS, st.integers(0, 255), st.booleans(), st.just(0)
    ),
    st.binary(max_size=50),
)


class Sink:
    """Collects what a decoder finds; buffers of receivers in ``skip`` are not stored."""

    def __init__(self, skip=()):
        self.items = []
        self.skip = skip
        self.target = None

    def on_message(self, message):
        self.items.append(message)

    def on_buffer_header(self, header):
        self.target = bytearray(header.size)
        return None if header.receiver in self.skip else memoryview(self.target)

    def on_buffer_complete(self, header):
        self.items.append((header, bytes(self.target)))


def sized(header, payload):
    return wire.BufferHeader(
        header.receiver,
        header.subpartition,
        header.sequence_number,
        header.backlog,
        header.data_type,
        header.is_compressed,
        len(payload),
    )


@given(st.lists(st.one_of(MESSAGES, BUFFERS), max_size=8), st.lists(st.integers(1, 90)))
def test_any_chunking(items, cuts):
    """C3: messages and buffers do not depend on how the stream is cut into pieces."""
    stream, expected = b"", []
    for item in items:
        if isinstance(item, tuple):
            header, payload = sized(*item), item[1]
            stream += wire.encode_buffer_header(header) + payload
            expected.append((header, payload))
        else:
            stream += wire.encode(item)
            expected.append(item)
    sink = Sink()
    decoder = FrameDecoder(sink, accepts_buffers=True)
    offset = 0
    for cut in [*cuts, len(stream)]:
        decoder.feed(memoryview(stream)[offset : offset + cut])
        offset += cut
    if offset < len(stream):
        decoder.feed(memoryview(stream)[offset:])
    assert sink.items == expected
    assert decoder.is_at_frame_start


def test_skipped_buffers_keep_the_stream_in_step():
    """C3: the payload of a released channel is skipped."""
    stream = b""
    for receiver in (b"a" * 16, b"b" * 16):
        header = wire.BufferHeader(receiver, 0, 0, 0, 1, False, 7)
        stream += wire.encode_buffer_header(header) + b"payload"
    sink = Sink(skip=[b"a" * 16])
    FrameDecoder(sink, accepts_buffers=True).feed(memoryview(stream))
    assert [data for _, data in sink.items] == [bytes(7), b"payload"]


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_awaited(data):
    """No bytes make the decoder fail with another error than CorruptStreamError."""
    decoder = FrameDecoder(Sink(), accepts_buffers=True)
    try:
        decoder.feed(memoryview(data))
    except CorruptStreamError:
        return
    assert len(data) < 9 or data[4:8] == b"\xba\xdc\x0f\xfe"


@given(st.integers(1, 15), st.binary(max_size=120))
def test_garbage_bodies(message_id, body):
    """A body either decodes to a message that encodes to the same bytes, or is corrupt."""
    try:
        message = wire.decode(message_id, body)
    except CorruptStreamError:
        return
    if not isinstance(message, wire.ErrorResponse):  # its texts may have been repaired
        assert wire.encode(message) == wire.frame(message_id, body)


def test_limits():
    """Lengths are rejected before anything is allocated for them."""
    for message_id, length in (
        (wire.ADD_CREDIT, wire.MAX_CONTROL_FRAME_BYTES + 100),
        (wire.BUFFER_RESPONSE, wire.MAX_EVENT_BYTES + 100),
        (wire.BUFFER_RESPONSE, 42),
        (wire.ADD_CREDIT, 0),
    ):
        header = wire.FRAME_HEADER.pack(length, wire.MAGIC, message_id)
        with pytest.raises(CorruptStreamError):
            FrameDecoder(Sink(), accepts_buffers=True).feed(memoryview(header))


def test_errors_travel_as_numbers():
    """The numbers of errors that Rust knows, and their classes in Python."""
    data = wire.encode(wire.ErrorResponse(wire.RemoteError(5, "boom"), None))
    assert data[9:] == b"\0\5\0\0\0\4boom\0"
    kinds = [
        errors.InsufficientBuffersError,
        errors.CancelTaskError,
        errors.PartitionConnectionError,
        errors.PartitionNotFoundError,
        errors.ProducerFailedError,
        errors.CorruptStreamError,
        errors.AuthenticationError,
        errors.IllegalStateError,
        errors.NetworkError,
    ]
    for number, kind in enumerate(kinds, 1):
        error = error_codes.exception_of(number, "text")
        assert type(error) is kind
        assert str(error) == "text"
        assert error_codes.code_of(error) == number
    assert error_codes.code_of(errors.SinkError("of no kind")) == error_codes.ErrorCode.IO
    unknown = error_codes.exception_of(10, "text")
    assert type(unknown) is errors.NetworkError
    assert str(unknown) == "error 10 of the data plane: text"


def test_long_errors_fit_a_frame():
    """The text of an error is truncated, so that the peer accepts the frame."""
    text = "x" * (1 << 20)
    error = wire.RemoteError(1, text)
    data = wire.encode(wire.ErrorResponse(error, ID))
    assert len(data) <= wire.MAX_CONTROL_FRAME_BYTES
    decoded = wire.decode(wire.ERROR_RESPONSE, data[9:])
    assert decoded.error.message == text[: 16 << 10]


SAVEPOINT_BYTES = "00000001 00000000000000070000000000000008 0101 000000026162 02 0000000000000009"

EVENTS = {
    "00000000": EndOfPartition(),
    "00000001 0000000000000007 0000000000000008 00 ffffffff 01 7fffffffffffffff": CheckpointBarrier(
        7, 8
    ),
    SAVEPOINT_BYTES: CheckpointBarrier(
        7, 8, SnapshotKind.SAVEPOINT, SavepointFormat.NATIVE, b"ab", Alignment.UNALIGNED, 9
    ),
    "00000002": EndOfSuperstep(),
    "00000003 0001 78 0102": TaskEvent("x", b"\1\2"),
    "00000004 ffffffffffffffff": CancelCheckpointMarker(-1),
    "00000005": EndOfChannelState(),
    "00000006 00000005 00000000": EventAnnouncement(EndOfPartition(), 5),
    "00000007 00000001 00000002": SubtaskConnectionDescriptor(1, 2),
    "00000008 00": EndOfData(StopMode.DRAIN),
    "00000008 01": EndOfData(StopMode.NO_DRAIN),
    "00000009": EndOfSegment(),
    "0000000a 00000003": RecoveryMetadata(3),
}


@pytest.mark.parametrize("text", EVENTS)
def test_event_bytes(text):
    """B5: every event has these bytes and is read back; truncated or longer ones are rejected."""
    data, event = bytes.fromhex(text.replace(" ", "")), EVENTS[text]
    assert serialize_event(event) == data
    assert parse_event(data) == event
    for end in range(len(data)):
        if not (isinstance(event, TaskEvent) and end >= 7):
            with pytest.raises(CorruptStreamError):
                parse_event(data[:end])
    if not isinstance(event, TaskEvent):
        with pytest.raises(CorruptStreamError, match="follow"):
            parse_event(data + b"\0")


def test_barrier_sizes():
    """J: a barrier has 34 bytes, a savepoint's 35, plus the bytes of the location."""
    assert len(serialize_event(CheckpointBarrier(1, 1))) == 34
    savepoint = CheckpointBarrier(1, 1, SnapshotKind.SAVEPOINT)
    assert len(serialize_event(savepoint)) == 35


@given(st.binary(max_size=60))
def test_event_garbage(data):
    """Bytes either decode to an event that encodes to the same bytes, or are corrupt."""
    try:
        event = parse_event(data)
    except CorruptStreamError:
        return
    assert serialize_event(event) == data


def test_nested_announcements_are_refused():
    """An announcement of an announcement of … cannot exhaust the stack."""
    with pytest.raises(CorruptStreamError, match="announce"):
        parse_event(b"\0\0\0\6\0\0\0\0" * 5000 + b"\0\0\0\0")


def test_event_data_types():
    """A2: the mapping from event to buffer type."""
    assert data_type_of(EndOfPartition()) is DataType.END_OF_PARTITION
    assert data_type_of(EndOfData()) is DataType.END_OF_DATA
    assert data_type_of(EndOfSegment()) is DataType.END_OF_SEGMENT
    assert data_type_of(EndOfChannelState()) is DataType.RECOVERY_COMPLETION
    assert data_type_of(RecoveryMetadata(0)) is DataType.RECOVERY_METADATA
    assert data_type_of(CancelCheckpointMarker(1)) is DataType.EVENT_BUFFER
    aligned = CheckpointBarrier(1, 1)
    assert data_type_of(aligned) is DataType.ALIGNED_CHECKPOINT_BARRIER
    assert data_type_of(aligned, priority=True) is DataType.PRIORITIZED_EVENT_BUFFER
    timeoutable = CheckpointBarrier(1, 1, aligned_timeout_ms=5)
    assert data_type_of(timeoutable) is DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
    for alignment in (Alignment.AT_LEAST_ONCE, Alignment.UNALIGNED):
        barrier = CheckpointBarrier(1, 1, alignment=alignment)
        assert data_type_of(barrier) is DataType.EVENT_BUFFER
    forced = CheckpointBarrier(1, 1, alignment=Alignment.FORCED_ALIGNED, aligned_timeout_ms=5)
    assert data_type_of(forced) is DataType.ALIGNED_CHECKPOINT_BARRIER


def test_data_type_table():
    """A2: ordinals and properties of the table; no type is both urgent and announced."""
    assert [kind.name for kind in DataType][:4] == [
        "NONE",
        "DATA_BUFFER",
        "EVENT_BUFFER",
        "PRIORITIZED_EVENT_BUFFER",
    ]
    assert [int(kind) for kind in DataType if kind.is_buffer] == [1, 8]
    assert [int(kind) for kind in DataType if kind.is_event] == [2, 3, 4, 5, 6, 7, 9, 10, 11]
    assert [int(kind) for kind in DataType if kind.is_blocking_upstream] == [4, 5, 6]
    assert [int(kind) for kind in DataType if kind.has_priority] == [3]
    assert [int(kind) for kind in DataType if kind.requires_announcement] == [5]
    assert [int(kind) for kind in DataType if kind.is_partial_record_allowed] == [1]


def test_handshake():
    """Both ends prove the token; a proof is HMAC-SHA256 of the other's nonce and the role."""
    server, client = ServerHandshake(b"token"), ClientHandshake(b"token")
    nonce = server.greeting()
    reply, done = client.answer(nonce)
    assert (len(nonce), len(reply), done, client.greeting()) == (32, 64, False, b"")
    assert reply[32:] == hmac.new(b"token", nonce + b"client", hashlib.sha256).digest()
    proof, done = server.answer(reply)
    assert done
    assert proof == hmac.new(b"token", reply[:32] + b"server", hashlib.sha256).digest()
    assert client.answer(proof) == (b"", True)


def test_handshake_with_another_token():
    """Either end rejects the other; a proof cannot be sent back to its sender."""
    server, client = ServerHandshake(b"token"), ClientHandshake(b"other")
    reply, _ = client.answer(server.greeting())
    with pytest.raises(AuthenticationError):
        server.answer(reply)
    with pytest.raises(AuthenticationError):
        client.answer(reply[32:])
