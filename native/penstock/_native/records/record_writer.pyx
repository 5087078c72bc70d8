"""The native record writer, twin of ``penstock.network.pure.record_writer``.

A record is encoded directly into the open buffer of its channel: four bytes reserved for the
length, the record's tag, the value.  If the buffer ends first, the encoder moves the record to a
scratch block (see ``wire.pxd``), from which the finished record is written: into the next buffer if
that wastes little of the present one, else across both.  Thus small records do not span buffers,
which saves the reader a copy, and nothing is allocated per record.

The marker limits the part of an open buffer that the reader may see; it is stored with release
order after each record.  The GIL is released only to wait for a buffer and for records that span
buffers.
"""

import random

from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF
from libc.stdint cimport INT64_MIN, int32_t, uint64_t
from libc.stdlib cimport calloc, free

from penstock._native.evaluator.expression cimport DROPPED, ENDED, FIELDS, ExpressionIterator, Step
from penstock._native.evaluator.registers cimport PsMade, ps_end
from penstock._native.keys.channel_selector cimport ALL_CHANNELS, SEVERAL_CHANNELS, CustomSelector
from penstock._native.records.capi cimport import_capi, ps_commit, raise_last_error
from penstock._native.records.computed_records cimport NO_CHANNEL, computed_records
from penstock._native.wire.failure cimport fail_too_large
from penstock._native.wire.limits cimport MAX_RECORD_BYTES
from penstock._native.wire.wire cimport ps_copy, ps_store32, put8, put64, reserve

from penstock.network.stream_element import (
    encode_internal_watermark, encode_latency_marker, encode_record_attributes, encode_status,
    encode_watermark,
)

cdef enum:
    RECORD_WITH_TIMESTAMP = 0
    RECORD = 1
    LENGTH_BYTES = 4
    # To keep a record unbroken, the rest of a buffer is skipped if it is at most this fraction of
    # the buffer.
    WASTE_FRACTION = 16


cdef class RecordWriter(Output):
    """Writes to one partition; used by the task's thread only.

    Attributes:
        records_out: Records passed to :meth:`collect`.
        records_computed: Those written from a program's registers, without a Python object.
        bytes_out: Bytes written for all records; a broadcast record counts once per channel.
        last_watermark: The last watermark written; the least timestamp before the first one.
        batches: Splits and encodes batches (``BatchExchange``); None if their records are written
            one by one.
    """

    def __cinit__(self, partition, ChannelSelector selector not None, Codec codec not None):
        if selector.num_channels != partition.num_subpartitions:
            raise ValueError(
                f"a selector of {selector.num_channels} channels for a partition of "
                f"{partition.num_subpartitions}"
            )
        self.api = import_capi()
        self.partition = partition
        self.handle = <PsPartition *>PyCapsule_GetPointer(partition._handle, "penstock.partition")
        self.selector = selector
        self.codec = codec
        self.computed = computed_records(selector, codec)
        self.num_channels = partition.num_subpartitions
        self.flush_always = partition.flush_timeout_ms == 0
        self.random = random.Random()
        self.writer.numbered = True
        self.last_watermark = INT64_MIN
        self.cursors = <PsCursor *>calloc(self.num_channels + 1, sizeof(PsCursor))
        if self.cursors == NULL:
            raise MemoryError
        partition._attach(self)

    def __dealloc__(self):
        free(self.cursors)
        free(self.writer.scratch)

    cpdef collect(self, object value, long long timestamp):
        """Write a record to the channel that the selector chooses.

        Raises:
            SerializationError: the value is not of the declared type.
            CancelTaskError: the partition was released.
        """
        write_record(self, self.selector.choose(value), value, timestamp)

    cpdef collect_all(self, object values, long long timestamp):
        """Write records of one timestamp, each before the next is requested."""
        if self.computed is not None and type(values) is ExpressionIterator:
            self.collect_computed(<ExpressionIterator>values, timestamp)
            return
        for value in values:
            write_record(self, self.selector.choose(value), value, timestamp)

    cpdef collect_batch(self, object batch):
        """Write the records of a batch, as one record per channel if that is worthwhile."""
        cdef object channel, part, payload
        if self.batches is None:
            Output.collect_batch(self, batch)
            return
        for channel, part, payload in self.batches.split(batch):
            if payload is None:
                Output.collect_batch(self, part)
            else:
                self.write_batch(channel, payload, len(part))

    cdef int collect_computed(
        self, ExpressionIterator values, long long timestamp
    ) except -1:
        """Write records as `collect_all` does, without tuples that only the exchange would see."""
        cdef PsMade made
        cdef PyObject *result
        cdef Step step
        cdef object value
        while True:
            step = values.step(&made, &result)
            if step == ENDED:
                return 0
            if step == DROPPED:
                continue
            if step == FIELDS:
                try:
                    if self.write_computed(&made, timestamp):
                        continue
                    value = values.made_tuple(&made)
                finally:
                    ps_end(&made)
            else:
                value = <object>result
                Py_DECREF(value)
            write_record(self, self.selector.choose(value), value, timestamp)

    cdef bint write_computed(self, const PsMade *made, long long timestamp) except -1:
        """Write a tuple without creating it; return whether that is possible."""
        cdef int channel = self.computed.channel_of(made)
        if channel == NO_CHANNEL:
            return False
        begin_record(self, channel, timestamp)
        self.computed.encode_into(&self.writer, made)
        end_record(self, channel)
        self.records_computed += 1
        return True

    def emit(self, value, long long timestamp=INT64_MIN):
        """Write a record as :meth:`collect` does, by default without a timestamp."""
        write_record(self, self.selector.choose(value), value, timestamp)

    def broadcast_emit(self, value, long long timestamp=INT64_MIN):
        """Write a record to every channel, whatever the selector; it is serialized once."""
        write_record(self, ALL_CHANNELS, value, timestamp)

    def random_emit(self, value, long long timestamp=INT64_MIN):
        """Write a record to a random channel."""
        write_record(self, self.random.randrange(self.num_channels), value, timestamp)

    cpdef emit_watermark(self, long long timestamp):
        """Write a watermark to every channel."""
        self.last_watermark = timestamp
        self.broadcast(encode_watermark(timestamp))

    cpdef emit_status(self, bint idle):
        """Write a change of idleness to every channel."""
        self.broadcast(encode_status(idle))

    def emit_record_attributes(self, bint is_backlog):
        """Write to every channel whether the following records are a backlog."""
        self.broadcast(encode_record_attributes(is_backlog))

    def emit_internal_watermark(self, long long timestamp):
        """Write to every channel a watermark that names its subpartition."""
        cdef bytes payload, framed
        cdef int channel
        for channel in range(self.num_channels):
            payload = encode_internal_watermark(timestamp, channel)
            framed = len(payload).to_bytes(LENGTH_BYTES, "big") + payload
            self.write(channel, <const uint8_t *><const char *>framed, len(framed))
            self.bytes_out += len(framed)
        if self.flush_always:
            self.flush_channel(ALL_CHANNELS)

    cpdef emit_latency_marker(self, long long marked_time, long long operator_id_lower,
                              long long operator_id_upper, int subtask):
        """Write a latency marker to a random channel."""
        cdef bytes payload = encode_latency_marker(
            marked_time, operator_id_lower, operator_id_upper, subtask
        )
        cdef bytes framed = len(payload).to_bytes(LENGTH_BYTES, "big") + payload
        cdef int channel = self.random.randrange(self.num_channels)
        self.write(channel, <const uint8_t *><const char *>framed, len(framed))
        self.bytes_out += len(framed)
        if self.flush_always:
            self.flush_channel(channel)

    cpdef broadcast_event(self, bytes event, int data_type):
        """Send a serialized event to every channel, behind all data written so far."""
        cdef const uint8_t *data = <const uint8_t *><const char *>event
        cdef size_t size = len(event)
        cdef int32_t status
        # Whether or not the event is sent, no cursor has an open builder afterwards.
        self.void_cursors(0, self.num_channels + 1)
        with nogil:
            status = self.api.partition_event(self.handle, data, size, data_type)
        if status < 0:
            raise_last_error(self.api)
        if self.flush_always:
            self.flush_channel(ALL_CHANNELS)

    def overtake(self, bytes event, int data_type):
        """Send an event ahead of all waiting data; return the data that it overtakes."""
        self.void_cursors(0, self.num_channels + 1)
        return self.partition.overtake(event, data_type)

    cpdef flush(self):
        """Make all written data readable."""
        self.flush_channel(ALL_CHANNELS)

    def flush_all(self):
        """Make all written data readable; Flink's name of :meth:`flush`."""
        self.flush_channel(ALL_CHANNELS)

    def is_available(self):
        """Return whether a record can begin without waiting for a buffer."""
        return self.partition.is_available()

    def _void(self):
        """Forget the open buffers: the partition finishes them."""
        self.void_cursors(0, self.num_channels + 1)

    cdef inline PsCursor *cursor_of(self, int channel) noexcept:
        return &self.cursors[self.num_channels if channel == ALL_CHANNELS else channel]

    cdef int write(self, int channel, const uint8_t *data, size_t size) except -1:
        """Write a framed record."""
        cdef PsCursor *cursor = self.cursor_of(channel)
        if size > cursor.capacity - cursor.position:
            return self.write_beyond(channel, data, size)
        ps_copy(cursor.data + cursor.position, data, size)
        cursor.position += <unsigned int>size
        ps_commit(cursor)
        return 0

    cdef int write_batch(self, int channel, bytes payload, Py_ssize_t records) except -1:
        """Write a batch as one record: its length, the tag and its bytes."""
        cdef size_t size = len(payload)
        if size - LENGTH_BYTES > MAX_RECORD_BYTES:
            fail_too_large()
        self.write(channel, <const uint8_t *><const char *>payload, size)
        self.records_out += records
        self.bytes_out += size * (self.num_channels if channel == ALL_CHANNELS else 1)
        if self.flush_always:
            self.flush_channel(channel)
        return 0

    cdef int write_beyond(self, int channel, const uint8_t *data, size_t size) except -1:
        """Write a framed record that does not fit into the open buffer."""
        cdef PsCursor *cursor = self.cursor_of(channel)
        cdef int32_t status
        if (cursor.capacity - cursor.position) * WASTE_FRACTION <= cursor.capacity:
            self.next_buffer(channel)
            if size <= cursor.capacity - cursor.position:
                return self.write(channel, data, size)
        with nogil:
            status = self.api.partition_append(self.handle, channel, cursor, data, size)
        if status < 0:
            self.void_cursors(0, self.num_channels + 1)
            return raise_last_error(self.api)
        return 0

    cdef int next_buffer(self, int channel) except -1:
        """Open the next buffer of a channel, waiting for one if necessary."""
        cdef PsCursor *cursor = self.cursor_of(channel)
        cdef int32_t status
        status = self.api.partition_try_next_buffer(self.handle, channel, cursor)
        if status == 1:
            with nogil:
                status = self.api.partition_next_buffer(self.handle, channel, cursor)
        if status < 0:
            self.void_cursors(0, self.num_channels + 1)
            return raise_last_error(self.api)
        # The partition has finished the builders of the other kind.
        if channel == ALL_CHANNELS:
            self.void_cursors(0, self.num_channels)
        else:
            self.void_cursors(self.num_channels, self.num_channels + 1)
        return 0

    cdef int broadcast(self, bytes payload) except -1:
        cdef bytes framed = len(payload).to_bytes(LENGTH_BYTES, "big") + payload
        cdef const uint8_t *data = <const uint8_t *><const char *>framed
        cdef int channel
        if self.selector.is_broadcast:
            self.write(ALL_CHANNELS, data, len(framed))
        else:
            # Keep the channels' open buffers: a shared buffer would finish all of them.
            for channel in range(self.num_channels):
                self.write(channel, data, len(framed))
        self.bytes_out += len(framed) * self.num_channels
        if self.flush_always:
            self.flush_channel(ALL_CHANNELS)
        return 0

    cdef int flush_channel(self, int channel) except -1:
        if self.api.partition_flush(self.handle, channel) < 0:
            return raise_last_error(self.api)
        return 0

    cdef void void_cursors(self, int first, int last) noexcept:
        """Forget the open buffers of the cursors from `first` up to but not including `last`."""
        cdef int i
        for i in range(first, last):
            self.cursors[i].capacity = 0
            self.cursors[i].position = 0
            self.cursors[i].data = NULL


cdef inline int begin_record(RecordWriter self, int channel, long long timestamp) except -1:
    """Prepare the writer at the end of a channel's open buffer, and write the record's tag."""
    cdef PsCursor *cursor = self.cursor_of(channel)
    cdef Writer *writer = &self.writer
    writer.data = cursor.data + cursor.position
    writer.capacity = cursor.capacity - cursor.position
    writer.position = 0
    reserve(writer, LENGTH_BYTES + 9)
    writer.position = LENGTH_BYTES
    if timestamp == INT64_MIN:
        put8(writer, RECORD)
    else:
        put8(writer, RECORD_WITH_TIMESTAMP)
        put64(writer, <uint64_t>timestamp)
    return 0


cdef inline int end_record(RecordWriter self, int channel) except -1:
    """Write the length in front of a record, and publish it to the reader."""
    cdef PsCursor *cursor = self.cursor_of(channel)
    cdef Writer *writer = &self.writer
    if writer.position - LENGTH_BYTES > MAX_RECORD_BYTES:
        fail_too_large()
    ps_store32(writer.data, <int32_t>(writer.position - LENGTH_BYTES))
    if writer.data == cursor.data + cursor.position:
        cursor.position += <unsigned int>writer.position
        ps_commit(cursor)
    else:
        self.write_beyond(channel, writer.data, writer.position)
    self.records_out += 1
    if channel == ALL_CHANNELS:
        self.bytes_out += writer.position * self.num_channels
    else:
        self.bytes_out += writer.position
    if self.flush_always:
        self.flush_channel(channel)
    return 0


cdef int write_to_several(RecordWriter self, object value, long long timestamp) except -1:
    """Write a record to each channel that the user's partitioner has chosen."""
    cdef list channels = (<CustomSelector>self.selector).chosen
    for channel in channels:
        write_record(self, channel, value, timestamp)
    return 0


cdef inline int write_record(
    RecordWriter self, int channel, object value, long long timestamp
) except -1:
    if channel == SEVERAL_CHANNELS:
        return write_to_several(self, value, timestamp)
    begin_record(self, channel, timestamp)
    self.codec.encode_into(&self.writer, value)
    return end_record(self, channel)
