"""Sorts serialised records in managed memory, the twin of ``operators.external_sort``.

Records are kept as bytes in segments, with an index of fixed entries beside them (`sort_entries.h`
has the order).  A full segment of the index is sorted at once, while it is in the cache.  In the
end all segments of the index and all runs on disk are merged, and values become objects when they
are emitted.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from penstock._native.keys cimport key_of
from penstock._native.operator_loop cimport Input
from penstock._native.text cimport encode_utf8
from penstock._native.wire cimport (
    PyUnicode_1BYTE_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_COMPACT_ASCII,
)

from penstock.network import IOManager
from penstock.serialization.codec import codec_for

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1

#: The size of a segment, of records or of the index.
cdef enum:
    SEGMENT_BYTES = 256 << 10

cdef Py_ssize_t ENTRIES = SEGMENT_BYTES // sizeof(PsEntry)

#: Segments that need no managed memory: one to sort with, and a little to begin with.
cdef enum:
    UNRESERVED_BYTES = 4 * SEGMENT_BYTES

#: About how many bytes a block of a run has.
cdef enum:
    BLOCK_BYTES = 128 << 10

#: The first byte of a key: integers come before texts, others behind them.
cdef enum:
    INTEGER = 1
    TEXT = 2
    OTHER = 3


cdef class Cursor:
    """A sorted sequence of records, at the record that is next."""

    cdef bint advance(self) except -1:
        """Moves on; False at the end."""
        raise NotImplementedError

    cdef void finish(self):
        """Lets go of what has been read."""


cdef class IndexSegment(Cursor):
    """A segment of the index, and a sequence once it is sorted."""

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
    """Sorted records in a file: of each its time, its header, its key and its value."""

    def __cinit__(self, ExternalSorter sorter):
        self.sorter = sorter
        self.io = sorter.io
        self.channel = sorter.io.create_channel()
        self.sizes = []

    cdef bint advance(self) except -1:
        cdef PsRecordHeader header
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
        header = ps_record_header(self.entry.record)
        self.entry.normalized = self.sorter.normalized(
            self.entry.record + PS_RECORD_HEADER_BYTES, header.key_size
        )
        self.position = (
            self.entry.record + PS_RECORD_HEADER_BYTES + header.key_size + header.value_size
        )
        return True

    cpdef delete(self):
        """Removes the file."""
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
    """Merges sequences; of equal records, those of the earlier sequence come first."""

    def __cinit__(self, list sequences):
        cdef Cursor cursor
        self.cursors = []
        for place, cursor in enumerate(sequences):
            cursor.place = place
            if cursor.advance():
                self.cursors.append(cursor)
                self.rise(len(self.cursors) - 1)

    cdef Cursor next(self):
        """The cursor at the smallest record, which `sink` moves on; None at the end."""
        return <Cursor>self.cursors[0] if self.cursors else None

    cdef int rise(self, Py_ssize_t place) except -1:
        """Moves a cursor up to its place in the heap."""
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
        """Moves the first cursor on, and down to its place in the heap."""
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
    """Takes records, then emits them key by key, each in the order of time; see the pure twin."""

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
        """Takes a record; see the pure twin."""
        cdef PsRecordHeader header
        cdef IndexSegment segment
        cdef PsEntry *entry
        cdef uint8_t number[9]
        cdef const uint8_t *key
        cdef Py_ssize_t key_size
        cdef uint8_t tag
        cdef uint8_t *record
        cdef bytes encoded
        cdef int overflow, i
        cdef uint64_t integer
        if type(identity) is str:
            tag = TEXT
            if PyUnicode_IS_COMPACT_ASCII(<PyObject *>identity):
                key = PyUnicode_1BYTE_DATA(<PyObject *>identity)
                key_size = PyUnicode_GET_LENGTH(<PyObject *>identity)
            else:
                encoded = encode_utf8(identity)
                key = <const uint8_t *>PyBytes_AS_STRING(encoded)
                key_size = PyBytes_GET_SIZE(encoded)
        else:
            overflow = 1
            if type(identity) is int:
                integer = <uint64_t>PyLong_AsLongLongAndOverflow(identity, &overflow)
            if overflow == 0:
                tag = INTEGER
                integer ^= <uint64_t>1 << 63
                for i in range(8):
                    number[i] = <uint8_t>(integer >> (56 - 8 * i))
                key = number
                key_size = 8
            else:
                tag = OTHER
                encoded = self.codec.encode(key_of(identity))
                key = <const uint8_t *>PyBytes_AS_STRING(encoded)
                key_size = PyBytes_GET_SIZE(encoded)
        self.writer.data = self.block
        self.writer.position = 0
        self.writer.capacity = sizeof(self.block)
        self.codec.encode_into(&self.writer, value)
        header.key_size = <uint32_t>(key_size + 1)
        header.value_size = <uint32_t>self.writer.position
        header.input_number = <uint8_t>input_number
        # Both may write a run, after which the index is empty.
        record = self.room(PS_RECORD_HEADER_BYTES + header.key_size + header.value_size)
        segment = self.index_with_room()
        if segment is None:
            record = self.room(PS_RECORD_HEADER_BYTES + header.key_size + header.value_size)
            segment = self.index_with_room()
        ps_put_record_header(record, header)
        record[PS_RECORD_HEADER_BYTES] = tag
        memcpy(record + PS_RECORD_HEADER_BYTES + 1, key, key_size)
        memcpy(record + PS_RECORD_HEADER_BYTES + header.key_size, self.writer.data,
               header.value_size)
        self.free_start = record + PS_RECORD_HEADER_BYTES + header.key_size + header.value_size
        entry = &segment.entries[segment.count]
        entry.timestamp = timestamp
        entry.record = record
        if self.prefix_size >= 0:
            entry.normalized = self.normalized(record + PS_RECORD_HEADER_BYTES, header.key_size)
        segment.count += 1

    def drain(self, list targets, end_key):
        """Emits the records; see the pure twin."""
        cdef Cursor cursor
        cdef Merge merge
        cdef PsEntry last
        cdef PsRecordHeader header
        cdef bytes former = None
        cdef object value
        cdef const uint8_t *record
        self.sort_last()
        merge = Merge([*self.runs, *self.index])
        last.record = NULL
        while (cursor := merge.next()) is not None:
            record = cursor.entry.record
            header = ps_record_header(record)
            if last.record != NULL and ps_compare_keys(&last, &cursor.entry) != 0:
                end_key()
                last.record = NULL
            if last.record == NULL:
                # A block of a run may be gone when the next record is compared.
                former = record[:PS_RECORD_HEADER_BYTES + header.key_size]
                last = cursor.entry
                last.record = <const uint8_t *>PyBytes_AS_STRING(former)
            value = self.codec.decode_whole(
                record + PS_RECORD_HEADER_BYTES + header.key_size, header.value_size
            )
            (<Input>targets[header.input_number]).process(value, cursor.entry.timestamp)
            merge.sink()
        if last.record != NULL:
            end_key()

    def close(self):
        """Releases memory and removes files."""
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
        """Reserves memory; False if there is not as much."""
        if size <= self.unreserved_bytes:
            self.unreserved_bytes -= size
            return True
        return self.memory.reserve(self, size)

    cdef uint8_t *room(self, Py_ssize_t size) except NULL:
        """Memory for a record, in a new segment if the last one is full; writes a run if needed."""
        cdef uint8_t *segment
        cdef uint8_t **segments
        cdef Py_ssize_t capacity = max(size, <Py_ssize_t>SEGMENT_BYTES)
        if size <= self.free_end - self.free_start:
            return self.free_start
        if not self.reserve(capacity) and self.index:
            # A record that is larger than all memory is kept all the same, alone.
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
        """The segment of the index that is being filled; None if a run had to be written."""
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
        """Finds the prefix of the keys so far, which normalised keys leave out from now on."""
        cdef IndexSegment segment = self.index[0]
        cdef const uint8_t *first = segment.entries[0].record + PS_RECORD_HEADER_BYTES
        cdef const uint8_t *key
        cdef Py_ssize_t shared = ps_record_header(segment.entries[0].record).key_size
        cdef Py_ssize_t i, same, size
        for i in range(1, segment.count):
            key = segment.entries[i].record + PS_RECORD_HEADER_BYTES
            size = min(shared, <Py_ssize_t>ps_record_header(segment.entries[i].record).key_size)
            same = 0
            while same < size and key[same] == first[same]:
                same += 1
            shared = same
        self.prefix = <uint8_t *>malloc(max(shared, <Py_ssize_t>1))
        if self.prefix == NULL:
            raise MemoryError
        memcpy(self.prefix, first, shared)
        self.prefix_size = shared
        for i in range(segment.count):
            key = segment.entries[i].record
            segment.entries[i].normalized = self.normalized(
                key + PS_RECORD_HEADER_BYTES, ps_record_header(key).key_size
            )
        return 0

    cdef int sort_last(self) except -1:
        """Sorts the segment of the index that was filled last."""
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
        """Writes all records in memory as a run."""
        self.sort_last()
        if self.io is None:
            self.io = IOManager([self.temp_directory()])
        if len(self.runs) >= self.most_runs:
            self.runs = [self.write(Merge(self.runs))]
        self.runs.append(self.write(Merge(self.index)))
        self.index.clear()
        self.free_records()
        self.memory.release_all(self)
        self.unreserved_bytes = UNRESERVED_BYTES - SEGMENT_BYTES
        return 0

    cdef Run write(self, Merge merge):
        """Writes the records of a merge as a run."""
        cdef Run run = Run(self)
        cdef Cursor cursor
        cdef PsRecordHeader header
        cdef bytearray block = bytearray()
        cdef const uint8_t *record
        writer = self.io.create_block_writer(run.channel, synchronous=True)
        try:
            while (cursor := merge.next()) is not None:
                record = cursor.entry.record
                header = ps_record_header(record)
                block += (<const uint8_t *>&cursor.entry.timestamp)[:8]
                block += record[:PS_RECORD_HEADER_BYTES + header.key_size + header.value_size]
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
        """Frees the segments of records."""
        cdef Py_ssize_t i
        for i in range(self.num_segments):
            free(self.segments[i])
        self.num_segments = 0
        self.free_start = self.free_end = NULL
        return 0

    cdef uint64_t normalized(self, const uint8_t *key, Py_ssize_t size):
        return ps_normalized_key(key, size, self.prefix, self.prefix_size)
