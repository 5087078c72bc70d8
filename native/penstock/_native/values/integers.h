/* Integers between Python and C, and a cache of recently decoded int objects. */
#ifndef PENSTOCK_INTEGERS_H
#define PENSTOCK_INTEGERS_H

#include <Python.h>
#include <stdint.h>

#include "wire/cache_use.h"

/* Return whether an int is short, and its value: no call, and true for nearly all integers. */
__attribute__((always_inline)) static inline int ps_short_int(PyObject *object, int64_t *value) {
#if PY_VERSION_HEX >= 0x030C0000
    if (PyUnstable_Long_IsCompact((PyLongObject *)object)) {
        *value = PyUnstable_Long_CompactValue((PyLongObject *)object);
        return 1;
    }
#else
    const Py_ssize_t size = Py_SIZE(object);
    const digit *digits = ((PyLongObject *)object)->ob_digit;
    if ((size_t)(size + 1) < 3) { /* one digit, or none for zero */
        *value = size == 0 ? 0 : size * (int64_t)digits[0];
        return 1;
    }
    if (size == 2 || size == -2) {
        const int64_t both = (int64_t)digits[0] | (int64_t)digits[1] << PyLong_SHIFT;
        *value = size < 0 ? -both : both;
        return 1;
    }
#endif
    return 0;
}

enum { PS_INTS_BITS = 13 };

static const PsCacheLimits PS_INTS_LIMITS = {1 << 15, 1 << 13, 1 << 18};

/* The cache of one field.  Keys repeat: a cached int costs no allocation, and a dict that holds it
 * as a key finds it by identity.  Direct mapped, guarded by the GIL.
 */
typedef struct {
    PsCacheUse use;
    PyObject *slots[1 << PS_INTS_BITS];
} PsIntCache;

static inline void ps_clear_ints(PsIntCache *cache) {
    for (size_t i = 0; i < 1 << PS_INTS_BITS; i++) {
        Py_CLEAR(cache->slots[i]);
    }
}

static inline PyObject *ps_cached_int(PsIntCache *cache, int64_t value) {
    PyObject **slot, *known, *made;
    int64_t known_value;
    if (ps_steps_aside(&cache->use)) {
        return PyLong_FromLongLong(value);
    }
    if (ps_count_lookup(&cache->use, PS_INTS_LIMITS)) {
        ps_clear_ints(cache);
    }
    slot = &cache->slots[((uint64_t)value ^ (uint64_t)value >> PS_INTS_BITS) &
                         ((1 << PS_INTS_BITS) - 1)];
    known = *slot;
    if (known != NULL && ps_short_int(known, &known_value) && known_value == value) {
        cache->use.hits++;
        Py_INCREF(known);
        return known;
    }
    made = PyLong_FromLongLong(value);
    if (made != NULL) {
        Py_INCREF(made);
        *slot = made;
        Py_XDECREF(known);
    }
    return made;
}

#endif
