"""The native reading loop, twin of ``penstock.network.pure.input_processor``.

One call of the gate returns one buffer.  Its records are decoded in place, and each value is passed
to its operator by a direct call before the next one is decoded.  The GIL is released only to wait.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport INT64_MIN, int32_t, int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from penstock._native.records.capi cimport PS_RAISED, import_capi, ps_is_raised, raise_last_error
from penstock._native.records.gil_turn cimport ps_begin_gil_turn, ps_end_gil_turn
from penstock._native.wire.text cimport PsLookahead, ps_learn, ps_look_ahead, text_cache
from penstock._native.wire.wire cimport ps_load32, ps_load64

from penstock.errors import CorruptStreamError

cdef enum:
    RECORD_WITH_TIMESTAMP = 0
    RECORD = 1
    WATERMARK = 2
    LATENCY_MARKER = 3
    WATERMARK_STATUS = 4
    RECORD_ATTRIBUTES = 5
    INTERNAL_WATERMARK = 6
    RECORD_BATCH = 7

cdef enum:
    BATCH_NONE = 0
    BATCH_DATA = 1
    BATCH_EVENT = 2
    BATCH_END = 3

cdef enum:
    NOTHING_AVAILABLE = 0
    PROCESSED = 1
    END = 2


cdef long long monotonic_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1_000_000_000LL + now.tv_nsec


cdef class StreamInputProcessor:
    """Reads one gate; used by the task's thread only.

    Attributes:
        records_in: Records passed to the inputs.
        bytes_in: Bytes of records and events read, lengths included.
        idle_ns: Nanoseconds spent waiting for input.
        batches: The decoder of each channel's batches, None for channels without batches; None if
            no channel has them.
    """

    def __cinit__(self, gate, codecs, inputs, handler):
        cdef object codec, target
        self.codecs = list(codecs)
        self.inputs = list(inputs)
        if len(self.codecs) != gate.num_channels or len(self.inputs) != gate.num_channels:
            raise ValueError(
                f"{len(self.codecs)} codecs and {len(self.inputs)} inputs for "
                f"{gate.num_channels} channels"
            )
        for codec in self.codecs:
            if not isinstance(codec, Codec):
                raise TypeError(f"{codec!r} is not a native codec")
        for target in self.inputs:
            if not isinstance(target, Input):
                raise TypeError(f"{target!r} is not a native Input")
        self.api = import_capi()
        self.gate = gate
        self.handle = <PsGate *>PyCapsule_GetPointer(gate._handle, "penstock.gate")
        self.urgent = self.api.gate_urgent(self.handle)
        self.rest_channel = -1
        self.handler = handler

    cpdef int process_next(self, long long timeout_ms) except -1:
        """Process at most one buffer, and between its records the events that overtake it.

        Returns:
            0 if the time was over or the gate was woken, 1 if something was processed, 2 at the end
            of all channels.

        Raises:
            CorruptStreamError: the bytes are not valid records.
            NetworkError: a channel failed.
            CancelTaskError: the gate was closed.
        """
        cdef PsBatch batch
        cdef int32_t status
        cdef long long began
        if self.processing:
            # The buffer being read would be recycled.
            raise RuntimeError("process_next was called by an operator that it called")
        status = self.api.gate_try_next(self.handle, &batch)
        if status >= 0 and batch.kind == BATCH_NONE:
            # Also without a timeout: this call consumes a pending wakeup, the first one does not.
            with nogil:
                began = monotonic_ns()
                status = self.api.gate_next(self.handle, timeout_ms, &batch)
                self.idle_ns += monotonic_ns() - began
                ps_begin_gil_turn()
            ps_end_gil_turn()
        if status == PS_RAISED:
            return -1
        if status < 0:
            raise_last_error(self.api)
        if batch.kind == BATCH_NONE:
            return NOTHING_AVAILABLE
        if batch.kind == BATCH_END:
            return END
        if batch.kind == BATCH_EVENT:
            self.bytes_in += batch.records_len
            self.handler.on_event(
                batch.channel, (<const char *>batch.records)[:batch.records_len], batch.data_type
            )
            return PROCESSED
        self.processing = True
        try:
            self.process_data(&batch)
        finally:
            self.processing = False
        return PROCESSED

    @property
    def is_urgent(self):
        """Return whether `process_urgent` may have something to do."""
        return bool(ps_is_raised(self.urgent))

    cpdef bint process_urgent(self) except -1:
        """Process the events that overtake data and have arrived, and nothing else.

        Returns:
            Whether there were any events.

        Raises:
            NetworkError: a channel failed.
            CancelTaskError: the gate was closed.
        """
        cdef PsBatch batch
        cdef bint found = False
        while ps_is_raised(self.urgent):
            if self.api.gate_next_urgent(self.handle, &batch) < 0:
                raise_last_error(self.api)
            if batch.kind != BATCH_EVENT:
                break
            found = True
            self.bytes_in += batch.records_len
            self.handler.on_event(
                batch.channel, (<const char *>batch.records)[:batch.records_len], batch.data_type
            )
        return found

    cpdef bytes unconsumed(self, int channel):
        """Return the bytes read from a channel and not processed, as received.

        Raises:
            IllegalStateError: there is no such channel.
        """
        cdef bytes begun = self.gate.unconsumed(channel)
        if channel != self.rest_channel:
            return begun
        return (<const char *>self.rest)[:self.rest_size] + begun

    cdef int overtaken(self, int channel, const uint8_t *data, const uint8_t *end) except -1:
        """Process the events that overtake the rest of a buffer."""
        self.rest_channel = channel
        self.rest = data
        self.rest_size = end - data
        # The rest is not processed yet.
        self.bytes_in -= self.rest_size
        try:
            self.process_urgent()
        finally:
            self.bytes_in += self.rest_size
            self.rest_channel = -1
        return 0

    cdef int process_data(self, PsBatch *batch) except -1:
        cdef int channel = batch.channel
        cdef Codec codec = <Codec>self.codecs[channel]
        cdef Input target = <Input>self.inputs[channel]
        cdef const uint8_t *data = batch.records
        cdef const uint8_t *end = data + batch.records_len
        cdef PsLookahead ahead = PsLookahead(slot=NULL, offset=0)
        cdef bint first = True
        cdef size_t size
        self.bytes_in += batch.records_len
        if batch.spanning != NULL:
            self.bytes_in += batch.spanning_len + 4
            self.process_element(channel, codec, target, batch.spanning, batch.spanning_len)
        while data < end:
            if ps_is_raised(self.urgent):
                self.overtaken(channel, data, end)
            if end - data < 4:
                raise CorruptStreamError("a record's length is cut off")
            size = ps_load32(data)
            data += 4
            if size > <size_t>(end - data):
                raise CorruptStreamError(f"a record of {size} bytes, {end - data} are left")
            if ahead.offset > 0:
                ps_look_ahead(&ahead, &text_cache, data + size, end)
            self.process_element(channel, codec, target, data, size)
            if first:
                ps_learn(&ahead, &text_cache, data, size)
                first = False
            data += size
        return 0

    cdef inline int process_element(self, int channel, Codec codec, Input target,
                                    const uint8_t *data, size_t size) except -1:
        cdef object value
        if size > 0 and data[0] == RECORD:
            value = codec.decode_whole(data + 1, size - 1)
            self.records_in += 1
            target.process(value, INT64_MIN)
        elif size >= 9 and data[0] == RECORD_WITH_TIMESTAMP:
            value = codec.decode_whole(data + 9, size - 9)
            self.records_in += 1
            target.process(value, <int64_t>ps_load64(data + 1))
        else:
            self.process_rare(channel, data, size)
        return 0

    cdef int process_rare(self, int channel, const uint8_t *data, size_t size) except -1:
        if size == 0:
            raise CorruptStreamError("an element of 0 bytes")
        if data[0] == WATERMARK and size == 9:
            self.handler.on_watermark(channel, <int64_t>ps_load64(data + 1))
        elif data[0] == WATERMARK_STATUS and size == 5:
            self.handler.on_status(channel, <int32_t>ps_load32(data + 1) == -1)
        elif data[0] == LATENCY_MARKER and size == 29:
            self.handler.on_latency_marker(
                channel,
                <int64_t>ps_load64(data + 1),
                <int64_t>ps_load64(data + 9),
                <int64_t>ps_load64(data + 17),
                <int32_t>ps_load32(data + 25),
            )
        elif data[0] == RECORD_BATCH and self.batches is not None:
            self.process_batch(channel, (<const char *>data)[1:size])
        elif data[0] == RECORD_ATTRIBUTES and size == 2:
            self.handler.on_record_attributes(channel, data[1] != 0)
        elif data[0] == INTERNAL_WATERMARK and size == 13:
            self.handler.on_internal_watermark(
                channel, <int64_t>ps_load64(data + 5), <int32_t>ps_load32(data + 1)
            )
        elif data[0] == RECORD_WITH_TIMESTAMP:
            raise CorruptStreamError(f"a record with timestamp of {size} bytes")
        else:
            raise CorruptStreamError(f"unknown element: tag {data[0]}, {size} bytes")
        return 0

    cdef int process_batch(self, int channel, bytes payload) except -1:
        """Pass the records of a batch to the channel's input."""
        cdef object codec = self.batches[channel]
        if codec is None:
            raise CorruptStreamError(f"a batch of records on channel {channel}, which has none")
        batch = codec.decode(payload)
        self.records_in += len(batch)
        (<Input>self.inputs[channel]).process_batch(batch)
        return 0
