"""Tags of stream elements in a record's payload (internals M13).

====  =======================  ==============================================================
tag   element                  fields, big-endian
====  =======================  ==============================================================
0     record with timestamp    i64 timestamp in ms, then the value
1     record without           the value
2     watermark                i64 timestamp in ms
3     latency marker           i64 marked time in ms, i64 and i64 operator id, i32 subtask
4     watermark status         i32: 0 active, -1 idle
5     record attributes        u8: whether the source works off a backlog
6     internal watermark       i32 subpartition, i64 timestamp in ms
7     batch of records         as docs/formats/column-batch.md says
====  =======================  ==============================================================

An internal watermark belongs to the subpartition that it names, if a channel reads several.
"""

import operator
import struct
from typing import Final

RECORD_WITH_TIMESTAMP: Final = 0
RECORD: Final = 1
WATERMARK: Final = 2
LATENCY_MARKER: Final = 3
WATERMARK_STATUS: Final = 4
RECORD_ATTRIBUTES: Final = 5
INTERNAL_WATERMARK: Final = 6
RECORD_BATCH: Final = 7

ACTIVE: Final = 0
IDLE: Final = -1

#: The timestamp of a record without one.
MIN_TIMESTAMP: Final = -(2**63)

WATERMARK_FORM: Final = struct.Struct(">Bq")
LATENCY_MARKER_FORM: Final = struct.Struct(">Bqqqi")
WATERMARK_STATUS_FORM: Final = struct.Struct(">Bi")
RECORD_ATTRIBUTES_FORM: Final = struct.Struct(">B?")
INTERNAL_WATERMARK_FORM: Final = struct.Struct(">Biq")


def encode_watermark(timestamp: int) -> bytes:
    """Return the payload of a watermark.

    Raises:
        OverflowError: the timestamp has more than 64 bits.
        TypeError: the timestamp is no integer.
    """
    try:
        return WATERMARK_FORM.pack(WATERMARK, operator.index(timestamp))
    except struct.error as error:
        raise OverflowError(f"the timestamp {timestamp} has more than 64 bits") from error


def encode_status(idle: bool) -> bytes:
    """Return the payload of a watermark status."""
    return WATERMARK_STATUS_FORM.pack(WATERMARK_STATUS, IDLE if idle else ACTIVE)


def encode_latency_marker(
    marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
) -> bytes:
    """Return the payload of a latency marker."""
    return LATENCY_MARKER_FORM.pack(
        LATENCY_MARKER, marked_time, operator_id_lower, operator_id_upper, subtask
    )


def encode_record_attributes(is_backlog: bool) -> bytes:
    """Return the payload of record attributes."""
    return RECORD_ATTRIBUTES_FORM.pack(RECORD_ATTRIBUTES, is_backlog)


def encode_internal_watermark(timestamp: int, subpartition: int) -> bytes:
    """Return the payload of a subpartition's watermark."""
    return INTERNAL_WATERMARK_FORM.pack(INTERNAL_WATERMARK, subpartition, timestamp)
