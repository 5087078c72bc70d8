# Sorts serialised records in managed memory; see the pure twin.

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from penstock._native.codecs.codec cimport Codec
from penstock._native.wire.wire cimport Writer


cdef extern from "records/sort_entries.h" nogil:
    ctypedef struct PsRecord:
        const uint8_t *key
        const uint8_t *value
        uint32_t key_size
        uint32_t value_size
        uint8_t input_number

    ctypedef struct PsEntry:
        uint64_t normalized
        int64_t timestamp
        const uint8_t *record

    enum:
        PS_RECORD_HEADER_BYTES
    PsRecord ps_read_record(const uint8_t *data)
    uint8_t *ps_put_header(uint8_t *to, uint8_t input_number, uint32_t key_size,
                           uint32_t value_size)
    bint ps_is_whole(uint64_t normalized)
    size_t ps_put_suffix(uint8_t *to, uint64_t normalized)
    uint64_t ps_normalized_key(const uint8_t *key, size_t size, const uint8_t *prefix,
                               size_t prefix_size)
    int ps_compare_keys(const PsEntry *a, const PsEntry *b)
    bint ps_is_after(const PsEntry *a, const PsEntry *b)
    void ps_sort_entries(PsEntry *entries, size_t count, PsEntry *spare)


cdef class Cursor:
    cdef PsEntry entry              # the next record
    cdef Py_ssize_t place           # index of the sequence: of equal records, the lowest is first

    cdef bint advance(self) except -1
    cdef void finish(self)


@cython.final
cdef class IndexSegment(Cursor):
    cdef PsEntry *entries
    cdef Py_ssize_t count
    cdef Py_ssize_t position


@cython.final
cdef class Run(Cursor):
    cdef object io
    cdef object channel
    cdef list sizes
    cdef object reader
    cdef bytes block
    cdef Py_ssize_t number          # number of the next block
    cdef const uint8_t *position
    cdef const uint8_t *end
    cdef ExternalSorter sorter

    cpdef delete(self)


@cython.final
cdef class Merge:
    cdef list cursors               # a heap, the smallest first

    cdef Cursor next(self)
    cdef int rise(self, Py_ssize_t place) except -1
    cdef int sink(self) except -1


@cython.final
cdef class ExternalSorter:
    cdef object memory
    cdef object temp_directory
    cdef object io
    cdef Codec codec
    cdef Writer writer
    cdef uint8_t block[512]
    cdef list index                 # of IndexSegment; the last one is being filled
    cdef list runs                  # of Run
    cdef PsEntry *spare
    cdef uint8_t **segments         # of records
    cdef Py_ssize_t num_segments
    cdef Py_ssize_t segments_capacity
    cdef uint8_t *free_start        # of the last segment of records
    cdef uint8_t *free_end
    cdef Py_ssize_t unreserved_bytes
    cdef Py_ssize_t most_runs
    cdef uint8_t *prefix
    cdef Py_ssize_t prefix_size     # -1 until it is known

    cdef bint reserve(self, Py_ssize_t size) except -1
    cdef uint8_t *room(self, Py_ssize_t size) except NULL
    cdef IndexSegment index_with_room(self)
    cdef int fix_prefix(self) except -1
    cdef int sort_last(self) except -1
    cdef int spill(self) except -1
    cdef Run write(self, Merge merge)
    cdef int free_records(self)
    cdef uint64_t normalized(self, const uint8_t *key, Py_ssize_t size)
    cdef bytes bytes_of_key(self, object identity)
    cdef bytes whole_key(self, uint64_t normalized)
