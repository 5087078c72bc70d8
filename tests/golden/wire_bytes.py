"""Values of each kind that is sent between processes, with their encoders and decoders.

A name stands for one value for ever: the bytes of each release are stored under it.
"""

import datetime
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from penstock.columns.batch_bytes import BatchCodec
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.common import Instant, Row, RowKind, Types
from penstock.network.events import (
    Alignment,
    CheckpointBarrier,
    EndOfData,
    EventAnnouncement,
    RecoveryMetadata,
    SavepointFormat,
    SnapshotKind,
    StopMode,
    SubtaskConnectionDescriptor,
    TaskEvent,
    parse_event,
    serialize_event,
)
from penstock.network.pure.wire import messages as wire
from penstock.rpc import messages
from penstock.rpc.message import encode_message
from penstock.serialization.pure.codec import Codec
from penstock.serialization.type_schema import schema_of

ID = bytes(range(16))
PARTITION = bytes(range(60))
HEADER = wire.BufferHeader(ID, 1, 2, 3, 4, False, 5)
ROW = Types.ROW_NAMED(["number", "text"], [Types.LONG(), Types.STRING()])


@dataclass(frozen=True)
class Sample:
    """A value, its encoder, and its decoder; `decode` returns an equal of `value`."""

    value: Any
    encode: Callable[[], bytes]
    decode: Callable[[bytes], Any]


def _frame(message):
    def decode(data):
        assert wire.FRAME_HEADER.unpack_from(data)[:2] == (len(data), wire.MAGIC)
        return wire.decode(data[8], data[wire.FRAME_HEADER.size :])

    return Sample(message, lambda: wire.encode(message), decode)


def _event(event):
    return Sample(event, lambda: serialize_event(event), parse_event)


def _control(message, decoder):
    return Sample(message, lambda: encode_message(message), lambda data: decoder().decode(data))


def _value(value, type_info):
    codec = Codec(schema_of(type_info))
    return Sample(value, lambda: codec.encode(value), codec.decode)


def _columns(timestamps, kinds=None):
    schema = batch_schema(ROW)
    codec = BatchCodec(ROW, schema)
    data = pa.RecordBatch.from_pydict({"number": [1, None], "text": ["a", "é"]}, schema)

    def parts(batch):
        changes = None if batch.kinds is None else batch.kinds.to_pylist()
        return batch.data.to_pylist(), batch.timestamp_list(), changes

    batch = ColumnBatch(data, ROW, timestamps, kinds)
    return Sample(
        parts(batch), lambda: bytes(codec.encode(batch)), lambda data: parts(codec.decode(data))
    )


def retracted(row):
    row.set_row_kind(RowKind.DELETE)
    return row


SAMPLES = {
    "frame: error": _frame(wire.ErrorResponse(wire.RemoteError(5, "boom"), ID)),
    "frame: partition request": _frame(wire.PartitionRequest(PARTITION, 1, 2, ID, 2)),
    "frame: task event": _frame(wire.TaskEventRequest(b"event", PARTITION, ID)),
    "frame: cancel": _frame(wire.CancelPartitionRequest(ID)),
    "frame: close": _frame(wire.CloseRequest()),
    "frame: credit": _frame(wire.AddCredit(3, ID)),
    "frame: resume": _frame(wire.ResumeConsumption(ID)),
    "frame: all records processed": _frame(wire.AckAllRecordsProcessed(ID)),
    "frame: backlog": _frame(wire.BacklogAnnouncement(9, ID)),
    "frame: buffer size": _frame(wire.NewBufferSize(4096, ID)),
    "frame: segment": _frame(wire.SegmentId(1, 2, ID)),
    "frame: shared memory": _frame(wire.UseSharedMemory()),
    "frame: reference": _frame(wire.BufferReference(HEADER, 77)),
    "frame: returned references": _frame(wire.ReturnReferences(6)),
    "event: barrier": _event(CheckpointBarrier(7, 8)),
    "event: barrier of a savepoint": _event(
        CheckpointBarrier(
            7, 8, SnapshotKind.SAVEPOINT, SavepointFormat.NATIVE, b"ab", Alignment.UNALIGNED, 9
        )
    ),
    "event: end of data": _event(EndOfData(StopMode.NO_DRAIN)),
    "event: announcement": _event(EventAnnouncement(CheckpointBarrier(1, 2), 5)),
    "event: connection": _event(SubtaskConnectionDescriptor(1, 2)),
    "event: recovery": _event(RecoveryMetadata(3)),
    "event: of a task": _event(TaskEvent("name", b"body")),
    "control: shutdown": _control(messages.Shutdown("over"), messages.task_executor_decoder),
    "control: split request": _control(
        messages.RequestSplit(ID, ID[::-1], bytes(16)), messages.driver_decoder
    ),
    "control: registration": _control(
        messages.RegisterTaskExecutor("worker", 1, "localhost", (ID,), 2, 77, "1.0"),
        messages.driver_decoder,
    ),
    "control: checkpoint": _control(
        messages.TriggerCheckpoint((ID,), 7, 8, 1, 0, 9, 1, b"ab"), messages.task_executor_decoder
    ),
    "columns: with timestamps": _columns(pa.array([7, 8], pa.int64())),
    "columns: with changes": _columns(7, pa.array([1, 2], pa.int8())),
    "value: undeclared": _value(
        (None, True, -1, 2**70, 1.5, "é", b"\0", [1], {"a": {2}}, (datetime.date(2024, 2, 29),)),
        None,
    ),
    "value: row": _value(Row(number=1, text=None), ROW),
    "value: retracted row": _value(retracted(Row(number=1, text="a")), ROW),
    "value: instant": _value(Instant.of_epoch_milli(1_709_210_401_250), Types.INSTANT()),
    "value: decimal": _value(decimal.Decimal("1.50"), Types.BIG_DEC()),
    "value: moment": _value(
        datetime.datetime(2024, 2, 29, 12, 30, 1, 250_000), Types.SQL_TIMESTAMP()
    ),
    "value: map": _value({"a": [1, 2]}, Types.MAP(Types.STRING(), Types.LIST(Types.LONG()))),
}
