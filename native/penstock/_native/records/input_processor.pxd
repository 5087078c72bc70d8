# The reading loop of a task, which decodes buffers of a gate into stream elements.

cimport cython

from libc.stdint cimport uint8_t

from penstock._native.codecs.codec cimport Codec
from penstock._native.operators.operator_loop cimport Input
from penstock._native.records.capi cimport CApi, PsBatch, PsGate


@cython.final
cdef class StreamInputProcessor:
    cdef readonly object gate               # owns the handle
    cdef readonly list codecs
    cdef readonly list inputs
    cdef public list batches                # None without batches
    cdef readonly object handler
    cdef readonly long long records_in
    cdef readonly long long bytes_in
    cdef readonly long long idle_ns
    cdef const CApi *api
    cdef PsGate *handle
    cdef const uint8_t *urgent
    cdef bint processing
    # The rest of the current buffer; channel -1 without one.
    cdef int rest_channel
    cdef const uint8_t *rest
    cdef size_t rest_size

    cpdef int process_next(self, long long timeout_ms) except -1
    cpdef bint process_urgent(self) except -1
    cpdef bytes unconsumed(self, int channel)

    cdef int process_data(self, PsBatch *batch) except -1
    cdef int overtaken(self, int channel, const uint8_t *data, const uint8_t *end) except -1
    cdef int process_element(self, int channel, Codec codec, Input target,
                             const uint8_t *data, size_t size) except -1
    cdef int process_rare(self, int channel, const uint8_t *data, size_t size) except -1
    cdef int process_batch(self, int channel, bytes payload) except -1
