/* Short strings that were decoded lately, for text.pyx.
 *
 * Keys repeat.  A string that is still here costs no allocation, and brings along the hash that
 * the last dict lookup computed.  Direct mapped, guarded by the GIL.
 */
#ifndef PENSTOCK_TEXT_CACHE_H
#define PENSTOCK_TEXT_CACHE_H

#include "cache_use.h"
#include "wire.h"

enum {
    PS_CACHE_BITS = 16,
    PS_CACHE_MAX_SIZE = 16 /* bytes of a string; two words cover them */
};

static const PsCacheLimits PS_CACHE_LIMITS = {1 << 16, 1 << 14, 1 << 20};

typedef struct {
    PyObject *slots[1 << PS_CACHE_BITS];
    PsCacheUse use;
} PsTextCache;

static inline void ps_clear_texts(PsTextCache *cache) {
    for (size_t i = 0; i < 1 << PS_CACHE_BITS; i++) {
        Py_CLEAR(cache->slots[i]);
    }
}

/* First and last bytes; together all of at most 16. */
static inline void ps_ends(const uint8_t *data, size_t size, uint64_t *head, uint64_t *tail) {
    if (size >= 8) {
        memcpy(head, data, 8);
        memcpy(tail, data + size - 8, 8);
    } else if (size >= 4) {
        uint32_t low, high;
        memcpy(&low, data, 4);
        memcpy(&high, data + size - 4, 4);
        *head = low;
        *tail = high;
    } else {
        *head = data[0] | (uint64_t)data[size >> 1] << 8 | (uint64_t)data[size - 1] << 16;
        *tail = 0;
    }
}

/* A str of 2 to PS_CACHE_MAX_SIZE ASCII bytes. */
static inline PyObject *ps_cached_text(PsTextCache *cache, const uint8_t *data, Py_ssize_t size) {
    uint64_t head, tail, known_head, known_tail, hash;
    PyObject **slot, *text;
    if (ps_steps_aside(&cache->use)) {
        return ps_ascii_to_text(data, size);
    }
    if (ps_count_lookup(&cache->use, PS_CACHE_LIMITS)) {
        ps_clear_texts(cache);
    }
    ps_ends(data, (size_t)size, &head, &tail);
    hash = head * UINT64_C(0x9E3779B97F4A7C15) ^ (tail + (uint64_t)size);
    hash *= UINT64_C(0xC2B2AE3D27D4EB4F);
    slot = &cache->slots[hash >> (64 - PS_CACHE_BITS)];
    text = *slot;
    if (text != NULL && PyUnicode_GET_LENGTH(text) == size) {
        ps_ends(PyUnicode_1BYTE_DATA(text), (size_t)size, &known_head, &known_tail);
        if (known_head == head && known_tail == tail) {
            cache->use.hits++;
            Py_INCREF(text);
            return text;
        }
    }
    text = ps_ascii_to_text(data, size);
    if (text != NULL) {
        PyObject *old = *slot;
        Py_INCREF(text);
        *slot = text;
        Py_XDECREF(old);
    }
    return text;
}

#endif
