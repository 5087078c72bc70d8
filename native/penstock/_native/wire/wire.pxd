# Writer and Reader: cursors over the bytes of one record, passed by pointer through the nodes.
#
# A Writer starts in memory that its owner provides (an open network buffer, a block on the stack)
# and moves to a scratch block of its own when that is full; the owner detects this by the changed
# `data`, and frees `scratch`.  A Reader checks every read against `end`.

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from penstock._native.wire.failure cimport fail_corrupt, fail_memory, fail_too_large, fail_truncated
from penstock._native.wire.limits cimport MAX_RECORD_BYTES, MAX_VARINT_BYTES
from penstock._native.wire.text cimport CACHED_TEXT_BYTES, cached_ascii, decode_utf8, encode_utf8


cdef extern from "wire/wire.h" nogil:
    void ps_store16(uint8_t *to, uint16_t value)
    void ps_store32(uint8_t *to, uint32_t value)
    void ps_store64(uint8_t *to, uint64_t value)
    uint16_t ps_load16(const uint8_t *data)
    uint32_t ps_load32(const uint8_t *data)
    uint64_t ps_load64(const uint8_t *data)
    void ps_copy(uint8_t *to, const uint8_t *data, size_t size)
    bint ps_is_ascii(const uint8_t *data, size_t size)
    uint32_t ps_float_bits(float value)
    float ps_float_from(uint32_t bits)
    uint64_t ps_double_bits(double value)
    double ps_double_from(uint64_t bits)

cdef extern from "wire/wire.h":
    object ps_ascii_to_text(const uint8_t *data, Py_ssize_t size)

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(PyObject *text)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *text)
    uint8_t *PyUnicode_1BYTE_DATA(PyObject *text)


cdef enum:
    # A record that outgrows its owner's memory moves once more only beyond this size.
    LEAST_SCRATCH_BYTES = 1024


cdef struct Writer:
    uint8_t *data
    size_t position
    size_t capacity
    uint8_t *scratch
    size_t scratch_capacity
    # Whether the bytes stay within the job: then its known classes have numbers.
    bint numbered


cdef struct Reader:
    const uint8_t *position
    const uint8_t *end
    int depth


cdef inline int grow(Writer *writer, size_t size) except -1:
    """Move the record to a scratch block with room for `size` more bytes."""
    cdef size_t needed = writer.position + size
    cdef size_t capacity
    cdef uint8_t *block
    if size > MAX_RECORD_BYTES or needed > MAX_RECORD_BYTES:
        return fail_too_large()
    if writer.scratch_capacity >= needed:
        # Only a record still in its owner's memory reaches this point.
        memcpy(writer.scratch, writer.data, writer.position)
    else:
        capacity = max(needed, 2 * writer.scratch_capacity, <size_t>LEAST_SCRATCH_BYTES)
        block = <uint8_t *>malloc(capacity)
        if block == NULL:
            return fail_memory()
        if writer.position:
            memcpy(block, writer.data, writer.position)
        free(writer.scratch)
        writer.scratch = block
        writer.scratch_capacity = capacity
    writer.data = writer.scratch
    writer.capacity = writer.scratch_capacity
    return 0


cdef inline int reserve(Writer *writer, size_t size) except -1:
    """Reserve room for `size` more bytes."""
    if size <= writer.capacity - writer.position:
        return 0
    return grow(writer, size)


cdef inline void put8(Writer *writer, uint8_t value) noexcept:
    writer.data[writer.position] = value
    writer.position += 1


cdef inline void put16(Writer *writer, uint16_t value) noexcept:
    ps_store16(writer.data + writer.position, value)
    writer.position += 2


cdef inline void put32(Writer *writer, uint32_t value) noexcept:
    ps_store32(writer.data + writer.position, value)
    writer.position += 4


cdef inline void put64(Writer *writer, uint64_t value) noexcept:
    ps_store64(writer.data + writer.position, value)
    writer.position += 8


cdef inline void put_varint(Writer *writer, size_t value) noexcept:
    """Write a length as unsigned LEB128; the caller has reserved MAX_VARINT_BYTES."""
    while value >= 0x80:
        put8(writer, <uint8_t>(value & 0x7F | 0x80))
        value >>= 7
    put8(writer, <uint8_t>value)


cdef inline int write_sized(Writer *writer, const uint8_t *data, size_t size) except -1:
    """Write length and bytes."""
    reserve(writer, size + MAX_VARINT_BYTES)
    put_varint(writer, size)
    ps_copy(writer.data + writer.position, data, size)
    writer.position += size
    return 0


cdef inline size_t left(Reader *reader) noexcept:
    return <size_t>(reader.end - reader.position)


cdef inline int need(Reader *reader, size_t size) except -1:
    """Fail on a read beyond the end of the record."""
    if size <= left(reader):
        return 0
    return fail_truncated(size, left(reader))


cdef inline uint8_t get8(Reader *reader) noexcept:
    reader.position += 1
    return (reader.position - 1)[0]


cdef inline uint16_t get16(Reader *reader) noexcept:
    reader.position += 2
    return ps_load16(reader.position - 2)


cdef inline uint32_t get32(Reader *reader) noexcept:
    reader.position += 4
    return ps_load32(reader.position - 4)


cdef inline uint64_t get64(Reader *reader) noexcept:
    reader.position += 8
    return ps_load64(reader.position - 8)


cdef inline Py_ssize_t read_varint(Reader *reader) except -1:
    """Read a length of at most 31 bits."""
    cdef uint64_t value
    cdef uint8_t byte
    cdef int shift = 7
    need(reader, 1)
    value = get8(reader)
    if value < 0x80:
        return <Py_ssize_t>value
    value &= 0x7F
    while shift <= 28:
        need(reader, 1)
        byte = get8(reader)
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_RECORD_BYTES:
                break
            return <Py_ssize_t>value
        shift += 7
    return fail_corrupt("a length of more than 31 bits")


cdef inline Py_ssize_t read_count(Reader *reader) except -1:
    """Read a number of elements, each of which occupies at least a bit."""
    cdef Py_ssize_t count = read_varint(reader)
    if <size_t>count > 8 * left(reader):
        return fail_corrupt("more elements than bytes can hold")
    return count


cdef inline object text_of(const uint8_t *data, Py_ssize_t size):
    """Return the str of UTF-8 bytes, including lone surrogates."""
    if ps_is_ascii(data, size):
        if 2 <= size <= CACHED_TEXT_BYTES:
            return cached_ascii(data, size)
        return ps_ascii_to_text(data, size)
    return decode_utf8(<const char *>data, size)


cdef inline object read_text(Reader *reader, Py_ssize_t size):
    cdef const uint8_t *data = reader.position
    need(reader, size)
    reader.position += size
    return text_of(data, size)


cdef inline bytes read_bytes(Reader *reader, Py_ssize_t size):
    cdef const char *data = <const char *>reader.position
    need(reader, size)
    reader.position += size
    return PyBytes_FromStringAndSize(data, size)


cdef inline int write_text(Writer *writer, object text) except -1:
    """Write length and UTF-8 of a str."""
    cdef bytes encoded
    if PyUnicode_IS_COMPACT_ASCII(<PyObject *>text):
        return write_sized(
            writer, PyUnicode_1BYTE_DATA(<PyObject *>text), PyUnicode_GET_LENGTH(<PyObject *>text)
        )
    encoded = encode_utf8(text)
    return write_sized(writer, <const uint8_t *><const char *>encoded, len(encoded))
