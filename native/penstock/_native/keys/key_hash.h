/* Loops of the canonical key hashes, for key_hash.pyx.  All arithmetic is modulo 2^32. */
#ifndef PENSTOCK_KEY_HASH_H
#define PENSTOCK_KEY_HASH_H

#include <Python.h>
#include <stdint.h>

static inline uint32_t ps_hash_signed_bytes(const uint8_t *data, size_t size) {
    uint32_t result = 0;
    for (size_t i = 0; i < size; i++) {
        result = 31 * result + (uint32_t)(int32_t)(int8_t)data[i];
    }
    return result;
}

/* Return the polynomial in 31 over the UTF-16 code units of a str. */
static inline uint32_t ps_hash_text(PyObject *text) {
    uint32_t result = 0;
    Py_ssize_t size = PyUnicode_GET_LENGTH(text);
    if (PyUnicode_KIND(text) == PyUnicode_1BYTE_KIND) {
        const Py_UCS1 *data = PyUnicode_1BYTE_DATA(text);
        Py_ssize_t i = 0;
        /* Four at a time: one multiplication waits for the last, not four. */
        for (; i + 4 <= size; i += 4) {
            result = 923521u * result + 29791u * data[i] + 961u * data[i + 1] + 31u * data[i + 2] +
                     data[i + 3];
        }
        for (; i < size; i++) {
            result = 31 * result + data[i];
        }
    } else if (PyUnicode_KIND(text) == PyUnicode_2BYTE_KIND) {
        const Py_UCS2 *data = PyUnicode_2BYTE_DATA(text);
        for (Py_ssize_t i = 0; i < size; i++) {
            result = 31 * result + data[i];
        }
    } else {
        const Py_UCS4 *data = PyUnicode_4BYTE_DATA(text);
        for (Py_ssize_t i = 0; i < size; i++) {
            Py_UCS4 point = data[i];
            if (point > 0xFFFF) {
                result = 31 * result + (0xD800 + ((point - 0x10000) >> 10));
                result = 31 * result + (0xDC00 + ((point - 0x10000) & 0x3FF));
            } else {
                result = 31 * result + point;
            }
        }
    }
    return result;
}

static inline uint32_t ps_hash_long(uint64_t value) {
    return (uint32_t)(value ^ (value >> 32));
}

/* MurmurHash3's 32-bit mix of one integer (Appleby, public domain), never negative. */
static inline int32_t ps_murmur(uint32_t hash) {
    hash *= 0xCC9E2D51u;
    hash = (hash << 15) | (hash >> 17);
    hash *= 0x1B873593u;
    hash = (hash << 13) | (hash >> 19);
    hash = hash * 5 + 0xE6546B64u;
    hash ^= 4;
    hash ^= hash >> 16;
    hash *= 0x85EBCA6Bu;
    hash ^= hash >> 13;
    hash *= 0xC2B2AE35u;
    hash ^= hash >> 16;
    if (hash & 0x80000000u) {
        return hash == 0x80000000u ? 0 : (int32_t)(0u - hash);
    }
    return (int32_t)hash;
}

#endif
