# The function table of penstock._core; capi.h explains it.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t


cdef extern from "records/capi.h" nogil:
    uint32_t PS_CAPI_ABI_VERSION
    int32_t PS_RAISED

    ctypedef struct PsPartition:
        pass

    ctypedef struct PsGate:
        pass

    ctypedef struct PsCursor:
        uint8_t *data
        uint32_t position
        uint32_t capacity
        int32_t *marker
        uint8_t *dirty

    ctypedef struct PsBatch:
        int32_t kind
        int32_t channel
        int32_t data_type
        const uint8_t *spanning
        size_t spanning_len
        const uint8_t *records
        size_t records_len

    ctypedef struct CApi:
        uint32_t abi_version
        uint32_t struct_size
        size_t (*last_error)(uint8_t *out, size_t capacity) noexcept nogil
        int32_t (*partition_next_buffer)(PsPartition *, int32_t, PsCursor *) noexcept nogil
        int32_t (*partition_try_next_buffer)(PsPartition *, int32_t, PsCursor *) noexcept nogil
        int32_t (*partition_append)(
            PsPartition *, int32_t, PsCursor *, const uint8_t *, size_t) noexcept nogil
        int32_t (*partition_flush)(PsPartition *, int32_t) noexcept nogil
        int32_t (*partition_event)(PsPartition *, const uint8_t *, size_t, int32_t) noexcept nogil
        int32_t (*gate_next)(PsGate *, int64_t, PsBatch *) noexcept nogil
        int32_t (*gate_try_next)(PsGate *, PsBatch *) noexcept nogil
        const uint8_t *(*gate_urgent)(PsGate *) noexcept nogil
        int32_t (*gate_next_urgent)(PsGate *, PsBatch *) noexcept nogil

cdef extern from "records/atomics.h" nogil:
    void ps_commit(PsCursor *cursor)
    bint ps_is_raised(const uint8_t *flag)


cdef const CApi *import_capi() except NULL
cdef int raise_last_error(const CApi *api) except -1
