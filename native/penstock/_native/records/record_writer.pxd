# The writer of an operator's output into the subpartitions of an exchange.

from libc.stdint cimport uint8_t

from penstock._native.codecs.codec cimport Codec
from penstock._native.evaluator.expression cimport ExpressionIterator
from penstock._native.evaluator.registers cimport PsMade
from penstock._native.keys.channel_selector cimport ChannelSelector
from penstock._native.operators.operator_loop cimport Output
from penstock._native.records.capi cimport CApi, PsCursor, PsPartition
from penstock._native.records.computed_records cimport ComputedRecords
from penstock._native.wire.wire cimport Writer


cdef class RecordWriter(Output):
    cdef readonly object partition          # owns the handle
    cdef readonly ChannelSelector selector
    cdef readonly Codec codec
    cdef readonly int num_channels
    cdef readonly long long records_out
    cdef readonly long long records_computed
    cdef readonly long long bytes_out
    cdef readonly long long last_watermark
    cdef const CApi *api
    cdef PsPartition *handle
    cdef PsCursor *cursors                  # one for each channel, then the broadcast one
    cdef Writer writer                      # owns the scratch block
    cdef ComputedRecords computed           # None if the channel or the codec needs the record
    cdef public object batches              # None if batches are written as records
    cdef bint flush_always
    cdef object random
    cdef object __weakref__

    cpdef collect(self, object value, long long timestamp)
    cpdef collect_all(self, object values, long long timestamp)
    cpdef collect_batch(self, object batch)
    cpdef emit_watermark(self, long long timestamp)
    cpdef emit_status(self, bint idle)
    cpdef emit_latency_marker(self, long long marked_time, long long operator_id_lower,
                              long long operator_id_upper, int subtask)
    cpdef broadcast_event(self, bytes event, int data_type)
    cpdef flush(self)

    cdef int collect_computed(
        self, ExpressionIterator values, long long timestamp
    ) except -1
    cdef bint write_computed(self, const PsMade *made, long long timestamp) except -1
    cdef inline PsCursor *cursor_of(self, int channel) noexcept
    cdef int write(self, int channel, const uint8_t *data, size_t size) except -1
    cdef int write_batch(self, int channel, bytes payload, Py_ssize_t records) except -1
    cdef int write_beyond(self, int channel, const uint8_t *data, size_t size) except -1
    cdef int next_buffer(self, int channel) except -1
    cdef int broadcast(self, bytes payload) except -1
    cdef int flush_channel(self, int channel) except -1
    cdef void void_cursors(self, int first, int last) noexcept
