# Canonical key hashing; penstock.serialization.pure.key_hash has the table of hashes.

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

cdef extern from "keys/key_hash.h":
    uint32_t ps_hash_signed_bytes(const uint8_t *data, size_t size) nogil
    uint32_t ps_hash_text(object text)
    uint32_t ps_hash_long(uint64_t value) nogil
    int32_t ps_murmur(uint32_t hash) nogil


cdef enum HashKind:
    HASH_ANY
    HASH_LONG
    HASH_FLOAT
    HASH_DOUBLE
    HASH_BOOLEAN


cdef HashKind hash_kind(object name) noexcept
cdef int hash_key(HashKind kind, object key, uint32_t *hash) except -1
