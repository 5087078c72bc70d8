/* Short strings that were decoded lately, for text.pyx.
 *
 * Keys repeat.  A string that is still here costs no allocation, and brings along the hash that
 * the last dict lookup computed.  Direct mapped, guarded by the GIL.  Where strings do not repeat
 * the cache notices that its hits are few and steps aside for a while.
 */
#ifndef PENSTOCK_TEXT_CACHE_H
#define PENSTOCK_TEXT_CACHE_H

#include "wire.h"

enum {
    PS_CACHE_BITS = 16,
    PS_CACHE_MAX_SIZE = 16,    /* bytes of a string; two words cover them */
    PS_CACHE_WINDOW = 65536,   /* look-ups after which hits are judged: the first ones fill it */
    PS_CACHE_FEW_HITS = 16384, /* fewer within a window than this are not worth it */
    PS_CACHE_PAUSE = 1 << 20   /* strings that then pass without a look-up */
};

typedef struct {
    PyObject *slots[1 << PS_CACHE_BITS];
    uint32_t lookups;
    uint32_t hits;
    uint32_t pause;
} PsTextCache;

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
    if (cache->pause) {
        cache->pause--;
        return ps_ascii_to_text(data, size);
    }
    if (++cache->lookups == PS_CACHE_WINDOW) {
        if (cache->hits < PS_CACHE_FEW_HITS) {
            cache->pause = PS_CACHE_PAUSE;
        }
        cache->lookups = 0;
        cache->hits = 0;
    }
    ps_ends(data, (size_t)size, &head, &tail);
    hash = head * UINT64_C(0x9E3779B97F4A7C15) ^ (tail + (uint64_t)size);
    hash *= UINT64_C(0xC2B2AE3D27D4EB4F);
    slot = &cache->slots[hash >> (64 - PS_CACHE_BITS)];
    text = *slot;
    if (text != NULL && PyUnicode_GET_LENGTH(text) == size) {
        ps_ends(PyUnicode_1BYTE_DATA(text), (size_t)size, &known_head, &known_tail);
        if (known_head == head && known_tail == tail) {
            cache->hits++;
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
