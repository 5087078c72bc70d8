/* Cache of recently decoded short strings, for text.pyx.
 *
 * Keys repeat.  A cached string costs no allocation, and carries the hash that the last dict
 * lookup computed.  Direct mapped, guarded by the GIL.
 */
#ifndef PENSTOCK_TEXT_CACHE_H
#define PENSTOCK_TEXT_CACHE_H

#include "wire/cache_use.h"
#include "wire/wire.h"

enum {
    PS_CACHE_BITS = 16,
    PS_CACHE_MAX_SIZE = 16 /* bytes of a string; two words cover them */
};

static const PsCacheLimits PS_CACHE_LIMITS = {1 << 16, 1 << 14, 1 << 20};

typedef struct {
    PyObject *text;
    void *place; /* where its state was found last, for state_map.h; it may be gone */
} PsTextSlot;

typedef struct {
    PsTextSlot slots[1 << PS_CACHE_BITS];
    PsCacheUse use;
    const uint8_t *last; /* position of the last text that was looked up */
} PsTextCache;

static inline void ps_clear_texts(PsTextCache *cache) {
    for (size_t i = 0; i < 1 << PS_CACHE_BITS; i++) {
        Py_CLEAR(cache->slots[i].text);
    }
}

/* Read the first and last bytes; together all of at most 16. */
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

static inline PsTextSlot *ps_text_slot(PsTextCache *cache, uint64_t head, uint64_t tail,
                                       size_t size) {
    uint64_t hash = head * UINT64_C(0x9E3779B97F4A7C15) ^ (tail + size);
    hash *= UINT64_C(0xC2B2AE3D27D4EB4F);
    return &cache->slots[hash >> (64 - PS_CACHE_BITS)];
}

/* Return a str of 2 to PS_CACHE_MAX_SIZE ASCII bytes. */
static inline PyObject *ps_cached_text(PsTextCache *cache, const uint8_t *data, Py_ssize_t size) {
    uint64_t head, tail, known_head, known_tail;
    PsTextSlot *slot;
    PyObject *text;
    if (ps_steps_aside(&cache->use)) {
        return ps_ascii_to_text(data, size);
    }
    if (ps_count_lookup(&cache->use, PS_CACHE_LIMITS)) {
        ps_clear_texts(cache);
    }
    cache->last = data;
    ps_ends(data, (size_t)size, &head, &tail);
    slot = ps_text_slot(cache, head, tail, (size_t)size);
    text = slot->text;
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
        PyObject *old = slot->text;
        Py_INCREF(text);
        slot->text = text;
        Py_XDECREF(old);
    }
    return text;
}

/* Return the slot of a str if it holds that object, else NULL. */
static inline PsTextSlot *ps_slot_of(PsTextCache *cache, PyObject *text) {
    uint64_t head, tail;
    PsTextSlot *slot;
    const size_t size = (size_t)PyUnicode_GET_LENGTH(text);
    if (cache->use.pause || !PyUnicode_IS_COMPACT_ASCII(text) ||
        size - 2 > PS_CACHE_MAX_SIZE - 2) {
        return NULL;
    }
    ps_ends(PyUnicode_1BYTE_DATA(text), size, &head, &tail);
    slot = ps_text_slot(cache, head, tail, size);
    return slot->text == text ? slot : NULL;
}

/* Prefetches the memory for the look-ups of the next records, assuming that their text is at the
 * same offset as in an earlier one: the slot of the record after the next one, and the text of the
 * next one, whose slot has arrived meanwhile.
 */
typedef struct {
    PsTextSlot *slot; /* slot of the next record, or NULL */
    size_t offset;    /* offset of the text within a record; 0 for none */
} PsLookahead;

/* Learn the offset of the text after a record was read. */
static inline void ps_learn(PsLookahead *ahead, const PsTextCache *cache, const uint8_t *record,
                            size_t size) {
    const size_t offset = (size_t)(cache->last - record);
    ahead->offset = offset < size && !cache->use.pause ? offset : 0;
}

/* Prefetch before a record is read: the length of the record behind it begins at `next`. */
static inline void ps_look_ahead(PsLookahead *ahead, PsTextCache *cache, const uint8_t *next,
                                 const uint8_t *end) {
    const size_t offset = ahead->offset;
    size_t skipped, size, length;
    const uint8_t *record;
    uint64_t head, tail;
    if (ahead->slot != NULL) {
        __builtin_prefetch(ahead->slot->text, 1);
        __builtin_prefetch(ahead->slot->place, 1);
        ahead->slot = NULL;
    }
    if (end - next < 4 || (skipped = ps_load32(next) + (size_t)8) > (size_t)(end - next)) {
        return;
    }
    record = next + skipped;
    size = ps_load32(record - 4);
    if (size > (size_t)(end - record) || offset >= size) {
        return;
    }
    length = record[offset - 1];
    if (length - 2 <= PS_CACHE_MAX_SIZE - 2 && offset + length <= size) {
        ps_ends(record + offset, length, &head, &tail);
        ahead->slot = ps_text_slot(cache, head, tail, length);
        __builtin_prefetch(ahead->slot);
    }
}

#endif
