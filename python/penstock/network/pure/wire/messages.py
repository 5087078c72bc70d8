"""The frames of the data plane, byte for byte (internals M17).

Every frame begins with nine bytes, everything big-endian::

    i32 length of the whole frame | u32 0xBADC0FFE | u8 message id | body

====  =====================  =======  ====================================================
id    message                sent by  body
====  =====================  =======  ====================================================
0     BufferResponse         server   receiver 16, subpartition i32, sequence i32, backlog
                                      i32, data type u8, compressed u8, size i32, payload
1     ErrorResponse          server   error, u8 has receiver, [receiver 16]
2     PartitionRequest       client   partition 60, i32 first and i32 last subpartition,
                                      receiver 16, initial credit i32
3     TaskEventRequest       client   i32 length and event, partition 60, receiver 16
4     CancelPartitionRequest client   receiver 16
5     CloseRequest           client   nothing
6     AddCredit              client   i32 credit, receiver 16
7     ResumeConsumption      client   receiver 16
8     AckAllRecordsProcessed client   receiver 16
9     BacklogAnnouncement    server   i32 backlog, receiver 16
10    NewBufferSize          client   i32 size, receiver 16
11    SegmentId              client   i32 subpartition, i32 segment, receiver 16
====  =====================  =======  ====================================================

Between executors of one host there are three more (``docs/formats/same-host.md``):

====  =====================  =======  ====================================================
12    UseSharedMemory        client   nothing
13    BufferReference        server   as a BufferResponse up to its payload, u64 offset
14    ReturnReferences       client   i32 count
====  =====================  =======  ====================================================

An error is ``u16 code``, the number of its kind in ``penstock/network/error_codes.py``, then ``i32
length`` and the message in UTF-8.  Unknown numbers are not an error.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from penstock.errors import CorruptStreamError

MAGIC = 0xBADC0FFE
FRAME_HEADER = struct.Struct(">iIB")
BUFFER_HEADER = struct.Struct(">16siiiBBi")
FRAME_HEADER_BYTES = FRAME_HEADER.size
BUFFER_RESPONSE_HEADER_BYTES = FRAME_HEADER_BYTES + BUFFER_HEADER.size
PARTITION_ID_BYTES = 60
RECEIVER_ID_BYTES = 16

MAX_CONTROL_FRAME_BYTES = 1 << 20
"""Longest frame that is not a BufferResponse."""

MAX_EVENT_BYTES = 10 << 20
"""Longest event in a BufferResponse; data is limited by the segment size."""

# Longer messages are truncated, so that an error fits into a frame.
_MAX_ERROR_TEXT_BYTES = 16 << 10

BUFFER_RESPONSE = 0
ERROR_RESPONSE = 1
PARTITION_REQUEST = 2
TASK_EVENT_REQUEST = 3
CANCEL_PARTITION_REQUEST = 4
CLOSE_REQUEST = 5
ADD_CREDIT = 6
RESUME_CONSUMPTION = 7
ACK_ALL_RECORDS_PROCESSED = 8
BACKLOG_ANNOUNCEMENT = 9
NEW_BUFFER_SIZE = 10
SEGMENT_ID = 11
USE_SHARED_MEMORY = 12
BUFFER_REFERENCE = 13
RETURN_REFERENCES = 14

_I32 = struct.Struct(">i")
_ERROR_HEADER = struct.Struct(">Hi")
_U64 = struct.Struct(">Q")
_I32_RECEIVER = struct.Struct(">i16s")
_TWO_I32_RECEIVER = struct.Struct(">ii16s")
_PARTITION_REQUEST = struct.Struct(">60sii16si")


@dataclass(frozen=True, slots=True)
class BufferHeader:
    """The header of a BufferResponse's payload."""

    receiver: bytes
    subpartition: int
    sequence_number: int
    backlog: int
    data_type: int
    is_compressed: bool
    size: int


@dataclass(frozen=True, slots=True)
class RemoteError:
    """An error: the number of its kind (``error_codes.ErrorCode``) and its message."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """A channel's producer failed; without a receiver the whole connection failed."""

    error: RemoteError
    receiver: bytes | None


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """Requests subpartitions ``first`` to ``last`` (inclusive) of a partition."""

    partition_id: bytes
    first: int
    last: int
    receiver: bytes
    credit: int


@dataclass(frozen=True, slots=True)
class TaskEventRequest:
    """Carries an event from a consumer to its producer."""

    event: bytes
    partition_id: bytes
    receiver: bytes


@dataclass(frozen=True, slots=True)
class CancelPartitionRequest:
    """The channel needs no more data."""

    receiver: bytes


@dataclass(frozen=True, slots=True)
class CloseRequest:
    """The client will close the connection."""


@dataclass(frozen=True, slots=True)
class AddCredit:
    """The channel has room for more buffers."""

    credit: int
    receiver: bytes


@dataclass(frozen=True, slots=True)
class ResumeConsumption:
    """The channel continues after a blocking event."""

    receiver: bytes


@dataclass(frozen=True, slots=True)
class AckAllRecordsProcessed:
    """The consumer has processed every record."""

    receiver: bytes


@dataclass(frozen=True, slots=True)
class BacklogAnnouncement:
    """A producer without credit announces its backlog."""

    backlog: int
    receiver: bytes


@dataclass(frozen=True, slots=True)
class NewBufferSize:
    """The consumer requests buffers of another size, in bytes."""

    size: int
    receiver: bytes


@dataclass(frozen=True, slots=True)
class SegmentId:
    """The consumer requests a segment of tiered storage."""

    subpartition: int
    segment: int
    receiver: bytes


@dataclass(frozen=True, slots=True)
class UseSharedMemory:
    """The consumer has mapped the producer's shared memory."""


@dataclass(frozen=True, slots=True)
class BufferReference:
    """A BufferResponse whose payload is ``offset`` bytes into the shared memory."""

    header: BufferHeader
    offset: int


@dataclass(frozen=True, slots=True)
class ReturnReferences:
    """The consumer has copied the buffers of the oldest ``count`` references."""

    count: int


ServerMessage = ErrorResponse | BacklogAnnouncement | BufferReference
ClientMessage = (
    PartitionRequest
    | TaskEventRequest
    | CancelPartitionRequest
    | CloseRequest
    | AddCredit
    | ResumeConsumption
    | AckAllRecordsProcessed
    | NewBufferSize
    | SegmentId
    | UseSharedMemory
    | ReturnReferences
)
Message = ServerMessage | ClientMessage

_RECEIVER_ONLY: dict[type[Message], int] = {
    CancelPartitionRequest: CANCEL_PARTITION_REQUEST,
    ResumeConsumption: RESUME_CONSUMPTION,
    AckAllRecordsProcessed: ACK_ALL_RECORDS_PROCESSED,
}


def frame(message_id: int, body: bytes) -> bytes:
    """Return a body with the nine header bytes before it."""
    return FRAME_HEADER.pack(FRAME_HEADER_BYTES + len(body), MAGIC, message_id) + body


def encode_buffer_header(header: BufferHeader) -> bytes:
    """Return the 43 bytes that precede the payload."""
    length = BUFFER_RESPONSE_HEADER_BYTES + header.size
    return FRAME_HEADER.pack(length, MAGIC, BUFFER_RESPONSE) + _encode_buffer_fields(header)


def _encode_buffer_fields(header: BufferHeader) -> bytes:
    return BUFFER_HEADER.pack(
        header.receiver,
        header.subpartition,
        header.sequence_number,
        header.backlog,
        header.data_type,
        header.is_compressed,
        header.size,
    )


def decode_buffer_header(body: bytes | bytearray | memoryview) -> BufferHeader:
    """Read the 34 bytes between frame header and payload."""
    receiver, subpartition, sequence, backlog, data_type, compressed, size = BUFFER_HEADER.unpack(
        body
    )
    return BufferHeader(
        receiver, subpartition, sequence, backlog, data_type, bool(compressed), size
    )


def encode(message: Message) -> bytes:
    """Return the frame of a message."""
    match message:
        case ErrorResponse():
            body = _encode_error(message.error)
            body += b"\0" if message.receiver is None else b"\1" + message.receiver
            return frame(ERROR_RESPONSE, body)
        case PartitionRequest():
            return frame(
                PARTITION_REQUEST,
                _PARTITION_REQUEST.pack(
                    message.partition_id,
                    message.first,
                    message.last,
                    message.receiver,
                    message.credit,
                ),
            )
        case TaskEventRequest():
            return frame(
                TASK_EVENT_REQUEST,
                _I32.pack(len(message.event))
                + message.event
                + message.partition_id
                + message.receiver,
            )
        case CancelPartitionRequest() | ResumeConsumption() | AckAllRecordsProcessed():
            return frame(_RECEIVER_ONLY[type(message)], message.receiver)
        case CloseRequest():
            return frame(CLOSE_REQUEST, b"")
        case AddCredit():
            return frame(ADD_CREDIT, _I32_RECEIVER.pack(message.credit, message.receiver))
        case BacklogAnnouncement():
            return frame(
                BACKLOG_ANNOUNCEMENT, _I32_RECEIVER.pack(message.backlog, message.receiver)
            )
        case NewBufferSize():
            return frame(NEW_BUFFER_SIZE, _I32_RECEIVER.pack(message.size, message.receiver))
        case SegmentId():
            return frame(
                SEGMENT_ID,
                _TWO_I32_RECEIVER.pack(message.subpartition, message.segment, message.receiver),
            )
        case UseSharedMemory():
            return frame(USE_SHARED_MEMORY, b"")
        case BufferReference():
            fields = _encode_buffer_fields(message.header)
            return frame(BUFFER_REFERENCE, fields + _U64.pack(message.offset))
        case ReturnReferences():
            return frame(RETURN_REFERENCES, _I32.pack(message.count))


def decode(message_id: int, body: bytes) -> Message:
    """Read the body of any message but BufferResponse.

    Raises:
        CorruptStreamError: the id is unknown or the body does not match it.
    """
    try:
        return _decode(message_id, body)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptStreamError(
            f"message {message_id} with a body of {len(body)} bytes: {error}"
        ) from error


def _decode(message_id: int, body: bytes) -> Message:
    match message_id:
        case 1:
            return _decode_error_response(body)
        case 2:
            return PartitionRequest(*_PARTITION_REQUEST.unpack(body))
        case 3:
            return _decode_task_event(body)
        case 4:
            return CancelPartitionRequest(_receiver(body))
        case 5:
            _expect_length(body, 0)
            return CloseRequest()
        case 6:
            return AddCredit(*_I32_RECEIVER.unpack(body))
        case 7:
            return ResumeConsumption(_receiver(body))
        case 8:
            return AckAllRecordsProcessed(_receiver(body))
        case 9:
            return BacklogAnnouncement(*_I32_RECEIVER.unpack(body))
        case 10:
            return NewBufferSize(*_I32_RECEIVER.unpack(body))
        case 11:
            return SegmentId(*_TWO_I32_RECEIVER.unpack(body))
        case 12:
            _expect_length(body, 0)
            return UseSharedMemory()
        case 13:
            return _decode_reference(body)
        case 14:
            return ReturnReferences(*_I32.unpack(body))
    raise CorruptStreamError(
        f"no message has the id {message_id}; does the peer run another version of penstock?"
    )


def _expect_length(body: bytes, length: int) -> None:
    if len(body) != length:
        raise CorruptStreamError(f"body of {len(body)} bytes where {length} belong")


def _receiver(body: bytes) -> bytes:
    _expect_length(body, RECEIVER_ID_BYTES)
    return body


def _decode_task_event(body: bytes) -> TaskEventRequest:
    length: int = _I32.unpack_from(body)[0]
    _expect_length(body, 4 + length + PARTITION_ID_BYTES + RECEIVER_ID_BYTES)
    end = 4 + length
    return TaskEventRequest(
        body[4:end], body[end : end + PARTITION_ID_BYTES], body[end + PARTITION_ID_BYTES :]
    )


def _decode_reference(body: bytes) -> BufferReference:
    _expect_length(body, BUFFER_HEADER.size + _U64.size)
    header = decode_buffer_header(body[: BUFFER_HEADER.size])
    if header.is_compressed or header.size <= 0:
        raise CorruptStreamError(f"a reference to {header}")
    return BufferReference(header, *_U64.unpack_from(body, BUFFER_HEADER.size))


def _encode_error(error: RemoteError) -> bytes:
    data = error.message.encode("utf-8", "replace")[:_MAX_ERROR_TEXT_BYTES]
    return _ERROR_HEADER.pack(error.code, len(data)) + data


def _decode_error_response(body: bytes) -> ErrorResponse:
    code, length = _ERROR_HEADER.unpack_from(body)
    start = _ERROR_HEADER.size
    if not 0 <= length <= len(body) - start:
        raise CorruptStreamError(f"text of {length} bytes in a body of {len(body)}")
    rest = body[start + length :]
    error = RemoteError(code, body[start : start + length].decode("utf-8", "replace"))
    if rest[:1] == b"\0":
        _expect_length(rest, 1)
        return ErrorResponse(error, None)
    _expect_length(rest, 1 + RECEIVER_ID_BYTES)
    return ErrorResponse(error, rest[1:])
