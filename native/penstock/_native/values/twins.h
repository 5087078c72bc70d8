/* Values that belong to repeated objects, such as the text of a Decimal.
 *
 * Keyed by the address of the object, direct mapped, guarded by the GIL.  A pair is cached the
 * second time its object is met, so objects met once cost two comparisons.
 */
#ifndef PENSTOCK_TWINS_H
#define PENSTOCK_TWINS_H

#include <Python.h>
#include <stdint.h>

enum { PS_TWINS_BITS = 10 };

typedef struct {
    PyObject *object;
    PyObject *twin;
    const void *seen; /* the address of the last object, which may be gone */
} PsTwin;

typedef struct {
    PsTwin pairs[1 << PS_TWINS_BITS];
} PsTwins;

static inline PsTwin *ps_twin_entry(PsTwins *twins, const void *object) {
    const uint64_t hash = (uint64_t)(uintptr_t)object * UINT64_C(0x9E3779B97F4A7C15);
    return &twins->pairs[hash >> (64 - PS_TWINS_BITS)];
}

/* Return the value of an object, borrowed; NULL if it is not cached. */
static inline PyObject *ps_twin_of(PsTwins *twins, PyObject *object) {
    PsTwin *entry = ps_twin_entry(twins, object);
    return entry->object == object ? entry->twin : NULL;
}

/* Cache the value of an object that has been met before. */
static inline void ps_meet_twin(PsTwins *twins, PyObject *object, PyObject *twin) {
    PsTwin *entry = ps_twin_entry(twins, object);
    PsTwin old = *entry;
    if (entry->seen != object) {
        entry->seen = object;
        return;
    }
    entry->object = Py_NewRef(object);
    entry->twin = Py_NewRef(twin);
    Py_XDECREF(old.object);
    Py_XDECREF(old.twin);
}

#endif
