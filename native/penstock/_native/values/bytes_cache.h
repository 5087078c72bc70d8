/* Cache of the meaning of repeated bytes: signatures of classes, enum members.
 *
 * Direct mapped, guarded by the GIL.
 */
#ifndef PENSTOCK_BYTES_CACHE_H
#define PENSTOCK_BYTES_CACHE_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { PS_BYTES_CACHE_BITS = 10 };

typedef struct {
    PyObject *bytes;
    PyObject *meaning;
} PsBytesEntry;

typedef struct {
    PsBytesEntry entries[1 << PS_BYTES_CACHE_BITS];
} PsBytesCache;

static inline PsBytesEntry *ps_bytes_entry(PsBytesCache *cache, const uint8_t *data, size_t size) {
    uint64_t hash = size, word;
    size_t i;
    for (i = 0; i + 8 <= size; i += 8) {
        memcpy(&word, data + i, 8);
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    for (word = 0; i < size; i++) {
        word = word << 8 | data[i];
    }
    hash = (hash ^ word) * UINT64_C(0xC2B2AE3D27D4EB4F);
    return &cache->entries[hash >> (64 - PS_BYTES_CACHE_BITS)];
}

/* Return the meaning of the bytes, borrowed; NULL if it is unknown. */
static inline PyObject *ps_meaning(PsBytesCache *cache, const uint8_t *data, size_t size) {
    PsBytesEntry *entry = ps_bytes_entry(cache, data, size);
    if (entry->bytes == NULL || (size_t)PyBytes_GET_SIZE(entry->bytes) != size ||
        memcmp(PyBytes_AS_STRING(entry->bytes), data, size) != 0) {
        return NULL;
    }
    return entry->meaning;
}

/* Cache the meaning of the bytes; return -1 with an exception if memory is short. */
static inline int ps_keep_meaning(PsBytesCache *cache, const uint8_t *data, size_t size,
                                  PyObject *meaning) {
    PsBytesEntry *entry = ps_bytes_entry(cache, data, size);
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)size);
    PsBytesEntry old = *entry;
    if (bytes == NULL) {
        return -1;
    }
    entry->bytes = bytes;
    entry->meaning = Py_NewRef(meaning);
    Py_XDECREF(old.bytes);
    Py_XDECREF(old.meaning);
    return 0;
}

static inline void ps_forget_meanings(PsBytesCache *cache) {
    for (size_t i = 0; i < 1 << PS_BYTES_CACHE_BITS; i++) {
        Py_CLEAR(cache->entries[i].bytes);
        Py_CLEAR(cache->entries[i].meaning);
    }
}

#endif
