"""Hashes of keys in Arrow columns, and the order of records by the owners of their keys.

Columns come from pyarrow; their buffers are read in place, so nothing links against Arrow. Hashes
are those of ``penstock.serialization.pure.key_hash``, all arithmetic modulo 2^32.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from penstock._native.keys.key_hash cimport ps_hash_long, ps_hash_signed_bytes, ps_murmur
from penstock._native.wire.wire cimport ps_double_bits, ps_float_bits


# A slice of a column, as Arrow's columnar format lays it out.
cdef struct Column:
    const uint8_t *validity  # NULL if no value is null
    const uint8_t *values    # for strings and bytes: their offsets in `data`
    const uint8_t *data
    size_t offset
    size_t length

ctypedef uint32_t (*HashOfValue)(const Column *column, size_t place) noexcept nogil


cdef uint32_t hash_integer(const Column *column, size_t place) noexcept nogil:
    cdef int64_t number = (<const int64_t *>column.values)[place]
    if number == <int32_t>number:
        return <uint32_t>number
    return ps_hash_long(<uint64_t>number)


cdef uint32_t hash_declared_long(const Column *column, size_t place) noexcept nogil:
    return ps_hash_long((<const uint64_t *>column.values)[place])


cdef uint32_t hash_double(const Column *column, size_t place) noexcept nogil:
    cdef double number = (<const double *>column.values)[place]
    if number != number:
        return 0x7FF80000
    return ps_hash_long(ps_double_bits(number))


cdef uint32_t hash_declared_float(const Column *column, size_t place) noexcept nogil:
    cdef float number = (<const float *>column.values)[place]
    if number != number:
        return 0x7FC00000
    return ps_float_bits(number)


cdef uint32_t hash_text(const Column *column, size_t place) noexcept nogil:
    cdef const int32_t *offsets = <const int32_t *>column.values
    return hash_utf8(column.data + offsets[place], <size_t>(offsets[place + 1] - offsets[place]))


cdef uint32_t hash_bytes(const Column *column, size_t place) noexcept nogil:
    cdef const int32_t *offsets = <const int32_t *>column.values
    return ps_hash_signed_bytes(
        column.data + offsets[place], <size_t>(offsets[place + 1] - offsets[place])
    )


cdef inline uint32_t hash_utf8(const uint8_t *text, size_t size) noexcept nogil:
    """Return the polynomial in 31 over the UTF-16 code units of a valid UTF-8 text."""
    cdef uint32_t result = 0
    cdef uint32_t point
    cdef size_t i = 0
    cdef int more
    while i < size:
        # Hash four at a time: then one multiplication waits for the previous one, not four.
        while i + 4 <= size and (text[i] | text[i + 1] | text[i + 2] | text[i + 3]) < 0x80:
            result = (
                <uint32_t>923521 * result + <uint32_t>29791 * text[i]
                + <uint32_t>961 * text[i + 1] + <uint32_t>31 * text[i + 2] + text[i + 3]
            )
            i += 4
        if i >= size:
            break
        point = text[i]
        i += 1
        more = 0 if point < 0x80 else 1 if point < 0xE0 else 2 if point < 0xF0 else 3
        if more > 0:
            point &= <uint32_t>0x3F >> more
            while more > 0 and i < size:
                point = point << 6 | (text[i] & 0x3F)
                i += 1
                more -= 1
        if point > 0xFFFF:
            result = 31 * result + (0xD800 + ((point - 0x10000) >> 10))
            point = 0xDC00 + ((point - 0x10000) & 0x3FF)
        result = 31 * result + point
    return result


cdef inline uint32_t append(uint32_t hash, uint32_t character) noexcept nogil:
    return <uint32_t>31 * hash + character


cdef inline uint32_t append_integer(uint32_t hash, int64_t number) noexcept nogil:
    """Append the decimal digits of a number to a text with a hash."""
    cdef uint8_t digits[20]
    cdef int count = 0
    cdef uint64_t rest = <uint64_t>number
    if number < 0:
        hash = append(hash, c'-')
        rest = 0 - rest
    while True:
        digits[count] = <uint8_t>(c'0' + rest % 10)
        count += 1
        rest //= 10
        if rest == 0:
            break
    while count > 0:
        count -= 1
        hash = append(hash, digits[count])
    return hash


cdef inline bint append_text(uint32_t *hash, const uint8_t *text, size_t size) noexcept nogil:
    """Append a text of ASCII in quotes; return False if JSON would write it otherwise."""
    cdef size_t i
    cdef uint8_t character
    hash[0] = append(hash[0], c'"')
    for i in range(size):
        character = text[i]
        if character < 0x20 or character >= 0x80 or character == c'"' or character == c'\\':
            return False
        hash[0] = append(hash[0], character)
    hash[0] = append(hash[0], c'"')
    return True


cdef bint append_json(
    const Column *column, bint is_text, uint32_t before, int32_t *hashes
) noexcept nogil:
    """Append a character and the JSON of a column's values to the texts with some hashes."""
    cdef size_t i, place
    cdef uint32_t hash
    cdef const int32_t *offsets = <const int32_t *>column.values
    for i in range(column.length):
        place = column.offset + i
        hash = append(<uint32_t>hashes[i], before)
        if column.validity != NULL and not column.validity[place >> 3] >> (place & 7) & 1:
            hash = append(append(append(append(hash, c'n'), c'u'), c'l'), c'l')
        elif not is_text:
            hash = append_integer(hash, (<const int64_t *>column.values)[place])
        elif not append_text(
            &hash, column.data + offsets[place], <size_t>(offsets[place + 1] - offsets[place])
        ):
            return False
        hashes[i] = <int32_t>hash
    return True


cdef inline void hash_all(
    const Column *column, HashOfValue hash_of, int32_t *hashes, bint folds
) noexcept nogil:
    cdef size_t i, place
    cdef uint32_t hash
    for i in range(column.length):
        place = column.offset + i
        hash = 0
        if column.validity == NULL or column.validity[place >> 3] >> (place & 7) & 1:
            hash = hash_of(column, place)
        hashes[i] = <int32_t>(<uint32_t>31 * <uint32_t>hashes[i] + hash if folds else hash)


# Form of a column: its required Arrow type, and the bytes of a value or of an offset.
cdef dict FORMS = {
    "integers": ("int64", 8), "longs": ("int64", 8), "doubles": ("double", 8),
    "floats": ("float", 4), "texts": ("string", 4), "bytes": ("binary", 4),
}


def hash_column(column, str form, int32_t[::1] hashes not None, bint folds):
    """Hash the values of a column; null has the hash 0.

    Args:
        column: A valid ``pyarrow.Array`` in this machine's memory.
        form: "integers" (by value) or "longs" (declared) of int64; "doubles"; "floats" (declared);
            "texts" of string; "bytes" of binary.
        hashes: Filled with the hashes, one for each value of the column.
        folds: Whether to combine each hash with the present one, as for the items of a tuple.

    Raises:
        ValueError: The column has another type or length.
    """
    cdef Column found
    # They keep what `found` points to.
    buffers = read_column(&found, column, form, hashes.shape[0])
    if buffers is not None:
        hash_by_form(&found, form, &hashes[0], folds)


def hash_json(list columns not None, int32_t[::1] hashes not None):
    """Hash the texts of JSON lists, which have an item of each column.

    Args:
        columns: Valid arrays of int64 and string, at least one.
        hashes: Filled with the hashes, one for each value of a column.

    Returns:
        False if a text has characters beyond printable ASCII, or such that JSON escapes.

    Raises:
        ValueError: A column has another type or length.
    """
    cdef Column found
    cdef bint is_text, is_first = True
    cdef Py_ssize_t i
    for i in range(hashes.shape[0]):
        hashes[i] = 0
    for column in columns:
        is_text = str(column.type) == "string"
        buffers = read_column(
            &found, column, "texts" if is_text else "integers", hashes.shape[0]
        )
        if buffers is None:
            return True
        if not append_json(&found, is_text, c'[' if is_first else c',', &hashes[0]):
            return False
        is_first = False
    for i in range(hashes.shape[0]):
        hashes[i] = <int32_t>append(<uint32_t>hashes[i], c']')
    return True


cdef tuple read_column(Column *found, column, str form, Py_ssize_t length):
    """Find the parts of a column in memory.

    Returns:
        The buffers, which the caller keeps as long as it uses the parts; None for an empty column.
    """
    cdef str name
    cdef size_t width, wanted
    # pyarrow declares its buffers as signed bytes.
    cdef const signed char[::1] values, validity, data
    if form not in FORMS:
        raise ValueError(f"no form of columns {form!r}")
    name, width = FORMS[form]
    if str(column.type) != name or len(column) != length:
        raise ValueError(f"{len(column)} values of {column.type} for {length} hashes of {form}")
    if length == 0:
        return None
    found.offset = column.offset
    found.length = len(column)
    found.validity = found.data = NULL
    buffers = tuple(column.buffers())
    values = buffers[1]
    wanted = (found.offset + found.length + (len(buffers) - 2)) * width
    if <size_t>values.shape[0] < wanted:
        raise ValueError(f"a column of {values.shape[0]} bytes, {wanted} are needed")
    found.values = <const uint8_t *>&values[0]
    if column.null_count > 0:
        validity = buffers[0]
        if <size_t>validity.shape[0] * 8 < found.offset + found.length:
            raise ValueError(f"a column whose validity has {validity.shape[0]} bytes")
        found.validity = <const uint8_t *>&validity[0]
    if len(buffers) > 2 and buffers[2] is not None and buffers[2].size > 0:
        data = buffers[2]
        found.data = <const uint8_t *>&data[0]
    return buffers


cdef int hash_by_form(const Column *found, str form, int32_t *hashes, bint folds) except -1:
    """Run the loop of a form."""
    if form == "integers":
        with nogil:
            hash_all(found, hash_integer, hashes, folds)
    elif form == "longs":
        with nogil:
            hash_all(found, hash_declared_long, hashes, folds)
    elif form == "doubles":
        with nogil:
            hash_all(found, hash_double, hashes, folds)
    elif form == "floats":
        with nogil:
            hash_all(found, hash_declared_float, hashes, folds)
    elif form == "texts":
        with nogil:
            hash_all(found, hash_text, hashes, folds)
    else:
        with nogil:
            hash_all(found, hash_bytes, hashes, folds)
    return 0


def order_by_channel(
    const int32_t[::1] hashes not None, const int32_t[::1] owners not None,
    int32_t[::1] order not None, int32_t[::1] ends not None
):
    """Sort positions by the channels that own the key groups of their hashes; stable.

    Args:
        hashes: The hash of the key at each position.
        owners: The channel of each key group.
        order: Filled with the positions.
        ends: Filled with the end of each channel's part of ``order``.

    Raises:
        ValueError: The lengths do not fit, or an owner is not a channel.
    """
    cdef Py_ssize_t i
    cdef int32_t start, count
    cdef uint32_t groups = <uint32_t>owners.shape[0]
    if hashes.shape[0] != order.shape[0] or groups == 0 or ends.shape[0] == 0:
        raise ValueError(
            f"{hashes.shape[0]} hashes for {order.shape[0]} positions, {groups} key groups and "
            f"{ends.shape[0]} channels"
        )
    for i in range(groups):
        if not 0 <= owners[i] < ends.shape[0]:
            raise ValueError(f"channel {owners[i]} is not one of {ends.shape[0]}")
    with nogil:
        for i in range(ends.shape[0]):
            ends[i] = 0
        for i in range(hashes.shape[0]):
            ends[owners[<uint32_t>ps_murmur(<uint32_t>hashes[i]) % groups]] += 1
        # First the start of each channel's part, which then moves to its end.
        start = 0
        for i in range(ends.shape[0]):
            count = ends[i]
            ends[i] = start
            start += count
        for i in range(hashes.shape[0]):
            count = owners[<uint32_t>ps_murmur(<uint32_t>hashes[i]) % groups]
            order[ends[count]] = <int32_t>i
            ends[count] += 1
