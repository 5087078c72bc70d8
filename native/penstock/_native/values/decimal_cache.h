/* Cache of decimals by their texts, for scalars.pyx: prices repeat.
 *
 * Texts of at most 16 bytes, direct mapped, guarded by the GIL.
 */
#ifndef PENSTOCK_DECIMAL_CACHE_H
#define PENSTOCK_DECIMAL_CACHE_H

#include "wire/text_cache.h"

enum { PS_DECIMALS_BITS = 10 };

typedef struct {
    uint64_t head, tail; /* the whole text */
    size_t size;
    PyObject *value;
} PsKeptDecimal;

typedef struct {
    PsKeptDecimal entries[1 << PS_DECIMALS_BITS];
} PsDecimalCache;

/* Return the entry of a text; NULL for a text that is never cached. */
static inline PsKeptDecimal *ps_decimal_entry(PsDecimalCache *cache, const uint8_t *data,
                                              size_t size, PsKeptDecimal *sought) {
    uint64_t hash;
    if (size == 0 || size > PS_CACHE_MAX_SIZE) {
        return NULL;
    }
    ps_ends(data, size, &sought->head, &sought->tail);
    sought->size = size;
    hash = (sought->head * UINT64_C(0x9E3779B97F4A7C15) ^ (sought->tail + size)) *
           UINT64_C(0xC2B2AE3D27D4EB4F);
    return &cache->entries[hash >> (64 - PS_DECIMALS_BITS)];
}

/* Return the decimal of a text, borrowed; NULL if it is not cached. */
static inline PyObject *ps_kept_decimal(PsDecimalCache *cache, const uint8_t *data, size_t size) {
    PsKeptDecimal sought;
    const PsKeptDecimal *entry = ps_decimal_entry(cache, data, size, &sought);
    if (entry == NULL || entry->head != sought.head || entry->tail != sought.tail ||
        entry->size != size) {
        return NULL;
    }
    return entry->value;
}

static inline void ps_keep_decimal(PsDecimalCache *cache, const uint8_t *data, size_t size,
                                   PyObject *value) {
    PsKeptDecimal made;
    PsKeptDecimal *entry = ps_decimal_entry(cache, data, size, &made);
    PyObject *old;
    if (entry == NULL) {
        return;
    }
    old = entry->value;
    made.value = Py_NewRef(value);
    *entry = made;
    Py_XDECREF(old);
}

#endif
