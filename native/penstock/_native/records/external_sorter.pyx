"""Sorts serialised records in managed memory, the twin of ``operators.external_sort``.

Records are stored as bytes in segments, with an index of fixed-size entries beside them
(`sort_entries.h` defines the order).  A full segment of the index is sorted at once, while it is in
the cache.  At the end, all segments of the index and all runs on disk are merged, and values become
objects when they are emitted.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from penstock._native.keys.keys cimport key_of
from penstock._native.operators.operator_loop cimport Input
from penstock._native.wire.text cimport encode_utf8
from penstock._native.wire.wire cimport (
    PyUnicode_1BYTE_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_COMPACT_ASCII,
)

from penstock.network import IOManager
from penstock.serialization.codec import codec_for
from penstock.taskexecutor.operators.external_sort import spill_failure

__all__ = ["ExternalSorter"]

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1

#: The size of a segment, of records or of the index.
cdef enum:
    SEGMENT_BYTES = 256 << 10

cdef Py_ssize_t ENTRIES = SEGMENT_BYTES // sizeof(PsEntry)

#: Bytes that need no managed memory: one segment to sort with, and a few to begin with.
cdef enum:
    UNRESERVED_BYTES = 4 * SEGMENT_BYTES

#: Approximate size of a block of a run.
cdef enum:
    BLOCK_BYTES = 128 << 10

#: The first byte of a key: integers precede texts, and texts precede others.
cdef enum:
    INTEGER = 1
    TEXT = 2
    OTHER = 3


#: Keys up to this size are built without an object.
cdef enum:
    SMALL_KEY_BYTES = 64


cdef Py_ssize_t put_small_key(object identity, uint8_t *to) except -1:
    """Write the bytes of an integer or a short ASCII text; return their number, or 0."""
    cdef Py_ssize_t size
    cdef uint64_t integer
    cdef int overflow, i
    if type(identity) is str:
        if not PyUnicode_IS_COMPACT_ASCII(<PyObject *>identity):
            return 0
        size = PyUnicode_GET_LENGTH(<PyObject *>identity)
        if size >= SMALL_KEY_BYTES:
            return 0
        to[0] = TEXT
        memcpy(to + 1, PyUnicode_1BYTE_DATA(<PyObject *>identity), size)
        return size + 1
    if type(identity) is int:
        integer = <uint64_t>PyLong_AsLongLongAndOverflow(identity, &overflow)
        if overflow == 0:
            to[0] = INTEGER
            integer ^= <uint64_t>1 << 63
            for i in range(8):
                to[1 + i] = <uint8_t>(integer >> (56 - 8 * i))
            return 9
    return 0


cdef class Cursor:
    """A sorted sequence of records, positioned at its next record."""

    cdef bint advance(self) except -1:
        """Advance to the next record; return False at the end."""
        raise NotImplementedError

    cdef void finish(self):
        """Release the records already read."""


cdef class IndexSegment(Cursor):
    """A segment of the index, which is a sequence once it is sorted."""

    def __cinit__(self):
        self.entries = <PsEntry *>malloc(SEGMENT_BYTES)
        if self.entries == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.entries)

    cdef bint advance(self) except -1:
        if self.position == self.count:
            return False
        self.entry = self.entries[self.position]
        self.position += 1
        return True


cdef class Run(Cursor):
    """Sorted records in a file: for each its time, then the record with its whole key."""

    def __cinit__(self, ExternalSorter sorter):
        self.sorter = sorter
        self.io = sorter.io
        self.channel = sorter.io.create_channel()
        self.sizes = []

    cdef bint advance(self) except -1:
        cdef PsRecord record
        if self.position == self.end:
            if self.number == len(self.sizes):
                self.delete()
                return False
            if self.reader is None:
                self.reader = self.io.create_block_reader(self.channel, synchronous=True)
            self.reader.request(self.sizes[self.number])
            self.number += 1
            self.block = bytes(self.reader.next())
            self.position = <const uint8_t *>PyBytes_AS_STRING(self.block)
            self.end = self.position + PyBytes_GET_SIZE(self.block)
        memcpy(&self.entry.timestamp, self.position, 8)
        self.entry.record = self.position + 8
        record = ps_read_record(self.entry.record)
        self.entry.normalized = self.sorter.normalized(record.key, record.key_size)
        self.position = record.value + record.value_size
        return True

    cpdef delete(self):
        """Remove the file."""
        reader, self.reader = self.reader, None
        if reader is not None:
            reader.close_and_delete()


cdef bint comes_before(Cursor a, Cursor b):
    cdef int order = ps_compare_keys(&a.entry, &b.entry)
    if order != 0:
        return order < 0
    if a.entry.timestamp != b.entry.timestamp:
        return a.entry.timestamp < b.entry.timestamp
    return a.place < b.place


cdef class Merge:
    """Merges sequences; among equal records, those of the earlier sequence come first."""

    def __cinit__(self, list sequences):
        cdef Cursor cursor
        self.cursors = []
        for place, cursor in enumerate(sequences):
            cursor.place = place
            if cursor.advance():
                self.cursors.append(cursor)
                self.rise(len(self.cursors) - 1)

    cdef Cursor next(self):
        """Return the cursor at the smallest record, which `sink` advances; None at the end."""
        return <Cursor>self.cursors[0] if self.cursors else None

    cdef int rise(self, Py_ssize_t place) except -1:
        """Move a cursor up to its place in the heap."""
        cdef list heap = self.cursors
        cdef Py_ssize_t above
        while place > 0:
            above = (place - 1) >> 1
            if not comes_before(<Cursor>heap[place], <Cursor>heap[above]):
                break
            heap[place], heap[above] = heap[above], heap[place]
            place = above
        return 0

    cdef int sink(self) except -1:
        """Advance the first cursor, and move it down to its place in the heap."""
        cdef list heap = self.cursors
        cdef Cursor cursor = <Cursor>heap[0]
        cdef Py_ssize_t place = 0, below, count
        if not cursor.advance():
            cursor = <Cursor>heap.pop()
            if not heap:
                return 0
        count = len(heap)
        while True:
            below = 2 * place + 1
            if below >= count:
                break
            if below + 1 < count and comes_before(<Cursor>heap[below + 1], <Cursor>heap[below]):
                below += 1
            if not comes_before(<Cursor>heap[below], cursor):
                break
            heap[place] = heap[below]
            place = below
        heap[place] = cursor
        return 0


cdef class ExternalSorter:
    """Collects records, then emits them key by key, each key in time order; see the pure twin."""

    def __cinit__(self, memory, temp_directory, Py_ssize_t most_runs=64):
        self.memory = memory
        self.temp_directory = temp_directory
        self.most_runs = most_runs
        self.codec = codec_for(None)
        self.writer.scratch = NULL
        self.writer.scratch_capacity = 0
        self.writer.numbered = False
        self.index = []
        self.runs = []
        self.unreserved_bytes = UNRESERVED_BYTES - SEGMENT_BYTES
        self.prefix_size = -1
        self.spare = <PsEntry *>malloc(SEGMENT_BYTES)
        if self.spare == NULL:
            raise MemoryError

    def __dealloc__(self):
        self.free_records()
        free(self.segments)
        free(self.spare)
        free(self.prefix)
        free(self.writer.scratch)

    @property
    def num_runs(self):
        """Number of runs on disk."""
        return len(self.runs)

    def add(self, identity, long long timestamp, int input_number, value):
        """Add a record; see the pure twin."""
        cdef IndexSegment segment
        cdef PsEntry *entry
        cdef uint8_t small[SMALL_KEY_BYTES]
        cdef const uint8_t *key
        cdef Py_ssize_t key_size, size
        cdef uint8_t *record
        cdef uint8_t *end
        cdef bytes encoded
        cdef uint64_t normalized = 0
        key = small
        key_size = put_small_key(identity, small)
        if key_size == 0:
            encoded = self.bytes_of_key(identity)
            key = <const uint8_t *>PyBytes_AS_STRING(encoded)
            key_size = PyBytes_GET_SIZE(encoded)
        self.writer.data = self.block
        self.writer.position = 0
        self.writer.capacity = sizeof(self.block)
        self.codec.encode_into(&self.writer, value)
        size = PS_RECORD_HEADER_BYTES + key_size + self.writer.position
        # Both may write a run, after which memory is empty.
        record = self.room(size)
        segment = self.index_with_room()
        if segment is None:
            record = self.room(size)
            segment = self.index_with_room()
        if self.prefix_size >= 0:
            normalized = self.normalized(key, key_size)
            if ps_is_whole(normalized):
                key_size = 0
        end = ps_put_header(
            record, <uint8_t>input_number, <uint32_t>key_size, <uint32_t>self.writer.position
        )
        memcpy(end, key, key_size)
        end += key_size
        memcpy(end, self.writer.data, self.writer.position)
        self.free_start = end + self.writer.position
        entry = &segment.entries[segment.count]
        entry.normalized = normalized
        entry.timestamp = timestamp
        entry.record = record
        segment.count += 1

    def drain(self, list targets, end_key):
        """Emit the records; see the pure twin."""
        cdef Cursor cursor
        cdef Merge merge
        cdef PsEntry last
        cdef PsRecord record
        cdef bytes former
        cdef object value
        cdef bint is_first = True
        self.sort_last()
        merge = Merge([*self.runs, *self.index])
        while (cursor := merge.next()) is not None:
            if is_first or ps_compare_keys(&last, &cursor.entry) != 0:
                if not is_first:
                    end_key()
                is_first = False
                last = cursor.entry
                if not ps_is_whole(last.normalized):
                    # A block of a run may be released when the next record is compared.
                    record = ps_read_record(last.record)
                    former = last.record[:record.value - last.record]
                    last.record = <const uint8_t *>PyBytes_AS_STRING(former)
            record = ps_read_record(cursor.entry.record)
            value = self.codec.decode_whole(record.value, record.value_size)
            (<Input>targets[record.input_number]).process(value, cursor.entry.timestamp)
            merge.sink()
        if not is_first:
            end_key()

    def close(self):
        """Release memory and remove files."""
        cdef Run run
        self.index.clear()
        self.free_records()
        for run in self.runs:
            run.delete()
        self.runs.clear()
        self.memory.release_all(self)
        if self.io is not None:
            self.io.close()
            self.io = None

    cdef bint reserve(self, Py_ssize_t size) except -1:
        """Reserve memory; return False if there is too little."""
        if size <= self.unreserved_bytes:
            self.unreserved_bytes -= size
            return True
        return self.memory.reserve(self, size)

    cdef uint8_t *room(self, Py_ssize_t size) except NULL:
        """Return memory for a record, in a new segment if needed; may write a run."""
        cdef uint8_t *segment
        cdef uint8_t **segments
        cdef Py_ssize_t capacity = max(size, <Py_ssize_t>SEGMENT_BYTES)
        if size <= self.free_end - self.free_start:
            return self.free_start
        if not self.reserve(capacity) and self.index:
            # A record larger than all memory is still kept, alone.
            self.spill()
            if not self.reserve(capacity):
                self.unreserved_bytes = 0
        if self.num_segments == self.segments_capacity:
            self.segments_capacity = 2 * self.segments_capacity + 16
            segments = <uint8_t **>realloc(
                self.segments, self.segments_capacity * sizeof(uint8_t *)
            )
            if segments == NULL:
                raise MemoryError
            self.segments = segments
        segment = <uint8_t *>malloc(capacity)
        if segment == NULL:
            raise MemoryError
        self.segments[self.num_segments] = segment
        self.num_segments += 1
        self.free_start = segment
        self.free_end = segment + capacity
        return segment

    cdef IndexSegment index_with_room(self):
        """Return the segment of the index being filled; None if a run had to be written."""
        cdef IndexSegment segment
        if self.index:
            segment = self.index[len(self.index) - 1]
            if segment.count < ENTRIES:
                return segment
            self.sort_last()
        if not self.reserve(SEGMENT_BYTES) and self.index:
            self.spill()
            return None
        segment = IndexSegment()
        self.index.append(segment)
        return segment

    cdef int fix_prefix(self) except -1:
        """Find the common prefix of the keys so far, which normalised keys omit from now on."""
        cdef IndexSegment segment = self.index[0]
        cdef PsRecord first = ps_read_record(segment.entries[0].record)
        cdef PsRecord record
        cdef Py_ssize_t shared = first.key_size
        cdef Py_ssize_t i, same, size
        for i in range(1, segment.count):
            record = ps_read_record(segment.entries[i].record)
            size = min(shared, <Py_ssize_t>record.key_size)
            same = 0
            while same < size and record.key[same] == first.key[same]:
                same += 1
            shared = same
        self.prefix = <uint8_t *>malloc(max(shared, <Py_ssize_t>1))
        if self.prefix == NULL:
            raise MemoryError
        memcpy(self.prefix, first.key, shared)
        self.prefix_size = shared
        for i in range(segment.count):
            record = ps_read_record(segment.entries[i].record)
            segment.entries[i].normalized = self.normalized(record.key, record.key_size)
        return 0

    cdef int sort_last(self) except -1:
        """Sort the segment of the index that was filled last."""
        cdef IndexSegment segment
        if not self.index:
            return 0
        if self.prefix_size < 0:
            self.fix_prefix()
        segment = self.index[len(self.index) - 1]
        with nogil:
            ps_sort_entries(segment.entries, segment.count, self.spare)
        return 0

    cdef int spill(self) except -1:
        """Write all records in memory as a run."""
        self.sort_last()
        folder = self.temp_directory()
        try:
            if self.io is None:
                self.io = IOManager([folder])
            if len(self.runs) >= self.most_runs:
                self.runs = [self.write(Merge(self.runs))]
            self.runs.append(self.write(Merge(self.index)))
        except OSError as error:
            raise spill_failure(error, folder) from error
        self.index.clear()
        self.free_records()
        self.memory.release_all(self)
        self.unreserved_bytes = UNRESERVED_BYTES - SEGMENT_BYTES
        return 0

    cdef Run write(self, Merge merge):
        """Write the records of a merge as a run."""
        cdef Run run = Run(self)
        cdef Cursor cursor
        cdef PsRecord record
        cdef bytearray block = bytearray()
        cdef uint8_t header[PS_RECORD_HEADER_BYTES]
        cdef bytes key
        writer = self.io.create_block_writer(run.channel, synchronous=True)
        try:
            while (cursor := merge.next()) is not None:
                record = ps_read_record(cursor.entry.record)
                block += (<const uint8_t *>&cursor.entry.timestamp)[:8]
                if record.key_size:
                    block += cursor.entry.record[
                        :record.value + record.value_size - cursor.entry.record
                    ]
                else:
                    key = self.whole_key(cursor.entry.normalized)
                    block += header[:ps_put_header(
                        header, record.input_number, <uint32_t>len(key), record.value_size
                    ) - header]
                    block += key
                    block += record.value[:record.value_size]
                if len(block) >= BLOCK_BYTES:
                    writer.write_block(bytes(block))
                    run.sizes.append(len(block))
                    block.clear()
                merge.sink()
            if block:
                writer.write_block(bytes(block))
                run.sizes.append(len(block))
        except BaseException:
            writer.close_and_delete()
            raise
        writer.close()
        return run

    cdef int free_records(self):
        """Free the segments of records."""
        cdef Py_ssize_t i
        for i in range(self.num_segments):
            free(self.segments[i])
        self.num_segments = 0
        self.free_start = self.free_end = NULL
        return 0

    cdef bytes bytes_of_key(self, object identity):
        """Return the bytes of a key of any kind."""
        if type(identity) is str:
            return bytes((TEXT,)) + encode_utf8(identity)
        return bytes((OTHER,)) + self.codec.encode(key_of(identity))

    cdef bytes whole_key(self, uint64_t normalized):
        """Return the bytes of a key that fits into its normalised key."""
        cdef uint8_t suffix[8]
        return self.prefix[:self.prefix_size] + suffix[:ps_put_suffix(suffix, normalized)]

    cdef uint64_t normalized(self, const uint8_t *key, Py_ssize_t size):
        return ps_normalized_key(key, size, self.prefix, self.prefix_size)
