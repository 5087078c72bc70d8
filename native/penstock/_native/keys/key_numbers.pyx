"""Numbers of keys that consist of integers: a hash table with open addressing and linear probing.

The keys are contiguous in the order of their numbers.  The table of places has their hashes as
well, so that only a key with an equal hash is read.
"""

cimport cython
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy


# A place of the table: the hash and the number of its key, or -1 without one.
cdef struct Slot:
    uint32_t hash
    int32_t number

cdef enum:
    FIRST_SLOTS = 64
    # Rows whose places are read ahead: each would wait for main memory by itself.
    AHEAD = 32

cdef extern from *:
    """
    #define PS_PREFETCH(address) __builtin_prefetch(address)
    """
    void PS_PREFETCH(const void *address) noexcept nogil


cdef inline uint32_t hash_of(const int64_t *key, Py_ssize_t width) noexcept nogil:
    """Return a hash of a key: multiplications spread the low bits, shifts the high ones."""
    cdef uint64_t hash = 0
    cdef Py_ssize_t i
    for i in range(width):
        hash = (hash ^ <uint64_t>key[i]) * <uint64_t>0x9E3779B97F4A7C15
        hash ^= hash >> 32
    hash *= <uint64_t>0xD6E8FEB86659FD93
    return <uint32_t>(hash >> 32)


@cython.final
@cython.auto_pickle(False)
cdef class KeyNumbers:
    """The numbers of keys, from 0 in the order in which they were first seen."""

    cdef Py_ssize_t width
    # By number: the integers of a key, and its mark: when a batch begins, the sum of the numbers of
    # distinct keys of all batches before; plus, among those of the batch, the key's place.
    cdef int64_t *entries
    cdef Py_ssize_t capacity
    cdef Py_ssize_t count
    cdef Slot *slots
    cdef uint64_t mask
    cdef int64_t marked

    def __cinit__(self, Py_ssize_t width):
        """Create numbers of keys of some integers.

        Raises:
            ValueError: A key has no integers.
        """
        if width < 1:
            raise ValueError(f"keys of {width} integers")
        self.width = width
        if self.grow() < 0:
            raise MemoryError

    def __dealloc__(self):
        free(self.entries)
        free(self.slots)

    def __len__(self):
        """Return the number of distinct keys."""
        return self.count

    def number(
        self, const int64_t[:, ::1] keys not None, int64_t[::1] codes not None,
        int64_t[::1] numbers not None
    ):
        """Number the keys of a batch.

        Args:
            keys: The integers of the key of each row.
            codes: Filled for each row with the place of its key among the distinct ones.
            numbers: As long; its beginning is filled with the numbers of the distinct keys, in the
                order of their first rows.

        Returns:
            The number of distinct keys.

        Raises:
            ValueError: The lengths do not fit.
            MemoryError: There is none for the keys, or they are more than 2^31 - 1.
        """
        cdef Py_ssize_t rows = keys.shape[0], i, start, end
        cdef uint32_t hashes[AHEAD]
        cdef int64_t found = 0, number = 0, mark
        cdef int64_t *entry
        if keys.shape[1] != self.width or codes.shape[0] != rows or numbers.shape[0] != rows:
            raise ValueError(
                f"{rows} keys of {keys.shape[1]} integers, not {self.width}, for "
                f"{codes.shape[0]} codes and {numbers.shape[0]} numbers"
            )
        with nogil:
            start = 0
            while start < rows and number >= 0:
                end = min(start + AHEAD, rows)
                for i in range(start, end):
                    hashes[i - start] = hash_of(&keys[i, 0], self.width)
                    PS_PREFETCH(self.slots + (hashes[i - start] & self.mask))
                for i in range(start, end):
                    number = self.slots[hashes[i - start] & self.mask].number
                    if number >= 0:
                        PS_PREFETCH(self.entries + number * (self.width + 1))
                for i in range(start, end):
                    number = self.number_of(&keys[i, 0], hashes[i - start])
                    if number < 0:
                        break
                    entry = self.entries + number * (self.width + 1) + self.width
                    mark = entry[0] - self.marked
                    if mark < 0:
                        mark = found
                        entry[0] = self.marked + mark
                        numbers[mark] = number
                        found += 1
                    codes[i] = mark
                start = end
            self.marked += found
        if number < 0:
            raise MemoryError(f"no memory for more than {self.count} keys of {self.width} integers")
        return found

    cdef int64_t number_of(self, const int64_t *key, uint32_t hash) noexcept nogil:
        """Return the number of a key, given its hash, which may be new; -1 without memory."""
        cdef uint64_t place = hash & self.mask
        cdef size_t size = <size_t>self.width * sizeof(int64_t)
        cdef int64_t *entry
        while self.slots[place].number >= 0:
            if self.slots[place].hash == hash:
                entry = self.entries + self.slots[place].number * (self.width + 1)
                if memcmp(entry, key, size) == 0:
                    return self.slots[place].number
            place = (place + 1) & self.mask
        if self.count == self.capacity:
            if self.grow() < 0:
                return -1
            place = hash & self.mask
            while self.slots[place].number >= 0:
                place = (place + 1) & self.mask
        entry = self.entries + self.count * (self.width + 1)
        memcpy(entry, key, size)
        entry[self.width] = -1
        self.slots[place].hash = hash
        self.slots[place].number = <int32_t>self.count
        self.count += 1
        return self.count - 1

    cdef int grow(self) noexcept nogil:
        """Make room for twice as many keys; return -1 without memory."""
        cdef uint64_t size = FIRST_SLOTS if self.slots == NULL else 2 * (self.mask + 1)
        cdef uint64_t old, place
        cdef Slot *slots
        cdef int64_t *entries
        if size // 2 > INT32_MAX:
            return -1
        slots = <Slot *>malloc(size * sizeof(Slot))
        if slots == NULL:
            return -1
        entries = <int64_t *>realloc(
            self.entries, size // 2 * <size_t>(self.width + 1) * sizeof(int64_t)
        )
        if entries == NULL:
            free(slots)
            return -1
        self.entries = entries
        for place in range(size):
            slots[place].number = -1
        if self.slots != NULL:
            for old in range(self.mask + 1):
                if self.slots[old].number >= 0:
                    place = self.slots[old].hash & (size - 1)
                    while slots[place].number >= 0:
                        place = (place + 1) & (size - 1)
                    slots[place] = self.slots[old]
            free(self.slots)
        self.slots = slots
        self.mask = size - 1
        self.capacity = <Py_ssize_t>(size // 2)
        return 0
