"""Canonical key hashing, the native twin of ``penstock.serialization.pure.key_hash``."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE
from cpython.object cimport PyObject, PyObject_IsTrue
from libc.math cimport isnan
from libc.stdint cimport int64_t

from penstock._native.values.integers cimport ps_short_int
from penstock._native.wire.wire cimport ps_double_bits, ps_float_bits

from penstock.serialization.pure import key_hash as pure

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1
    object PyNumber_Index(object value)
    object PyNumber_Float(object value)


cdef HashKind hash_kind(object name) noexcept:
    if name == "LONG":
        return HASH_LONG
    if name == "FLOAT":
        return HASH_FLOAT
    if name == "DOUBLE":
        return HASH_DOUBLE
    if name == "BOOLEAN":
        return HASH_BOOLEAN
    return HASH_ANY


cdef inline uint32_t hash_double(double number) noexcept:
    if isnan(number):
        return 0x7FF80000
    return ps_hash_long(ps_double_bits(number))


cdef int hash_any(object key, uint32_t *hash) except -1:
    cdef int overflow = 0
    cdef int64_t number
    cdef uint32_t part
    cdef object item
    if type(key) is str:
        hash[0] = ps_hash_text(key)
    elif type(key) is int:
        if not ps_short_int(<PyObject *>key, &number):
            number = PyLong_AsLongLongAndOverflow(key, &overflow)
        if overflow:
            hash[0] = <uint32_t><int64_t>pure.hash_int(key)
        elif -0x80000000 <= number <= 0x7FFFFFFF:
            hash[0] = <uint32_t>number
        else:
            hash[0] = ps_hash_long(number)
    elif type(key) is tuple:
        part = 0
        for item in <tuple>key:
            # Only builtin scalars inside: the slow path handles nested values and counts levels.
            if type(item) is tuple:
                hash[0] = <uint32_t><int64_t>pure.hash_any(key)
                return 0
            hash_any(item, hash)
            part = 31 * part + hash[0]
        hash[0] = part
    elif key is None:
        hash[0] = 0
    elif type(key) is bool:
        hash[0] = 1231 if key is True else 1237
    elif type(key) is float:
        hash[0] = hash_double(PyFloat_AS_DOUBLE(key))
    elif type(key) is bytes:
        hash[0] = ps_hash_signed_bytes(
            <const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
        )
    else:
        hash[0] = <uint32_t><int64_t>pure.hash_any(key)
    return 0


cdef int hash_key(HashKind kind, object key, uint32_t *hash) except -1:
    """Hash a key of a declared kind."""
    cdef int overflow = 0
    cdef int64_t number
    cdef double real
    if kind == HASH_ANY:
        return hash_any(key, hash)
    if key is None:
        hash[0] = 0
    elif kind == HASH_LONG:
        if type(key) is int and ps_short_int(<PyObject *>key, &number):
            hash[0] = ps_hash_long(number)
            return 0
        if type(key) is not int:
            key = PyNumber_Index(key)
        number = PyLong_AsLongLongAndOverflow(key, &overflow)
        if overflow:
            hash[0] = <uint32_t><int64_t>pure.hash_long(key)
        else:
            hash[0] = ps_hash_long(number)
    elif kind == HASH_DOUBLE:
        hash[0] = hash_double(PyNumber_Float(key))
    elif kind == HASH_FLOAT:
        real = PyNumber_Float(key)
        hash[0] = 0x7FC00000 if isnan(real) else ps_float_bits(<float>real)
    else:
        hash[0] = 1231 if PyObject_IsTrue(key) else 1237
    return 0


def key_hash(kind=None):
    """Return the hash function of keys of a declared kind; see the pure twin."""
    cdef HashKind which = hash_kind(kind)

    def hash_of(key):
        cdef uint32_t hash = 0
        hash_key(which, key, &hash)
        return <int32_t>hash

    return hash_of


def murmur_hash(long long code):
    """Mix a 32-bit hash; the result is never negative."""
    return ps_murmur(<uint32_t>code)
