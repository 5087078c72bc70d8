/* What belongs to objects that come again and again: to a Decimal its text.
 *
 * By the address of the object, direct mapped, guarded by the GIL.  A pair is kept when its object
 * comes for the second time, so that objects that come once cost two comparisons.
 */
#ifndef PENSTOCK_TWINS_H
#define PENSTOCK_TWINS_H

#include <Python.h>
#include <stdint.h>

enum { PS_TWINS_BITS = 10 };

typedef struct {
    PyObject *object;
    PyObject *twin;
    const void *seen; /* the address of what came last, which may be gone */
} PsTwin;

typedef struct {
    PsTwin pairs[1 << PS_TWINS_BITS];
} PsTwins;

static inline PsTwin *ps_twin_entry(PsTwins *twins, const void *object) {
    const uint64_t hash = (uint64_t)(uintptr_t)object * UINT64_C(0x9E3779B97F4A7C15);
    return &twins->pairs[hash >> (64 - PS_TWINS_BITS)];
}

/* What belongs to an object, borrowed; NULL if that is not kept. */
static inline PyObject *ps_twin_of(PsTwins *twins, PyObject *object) {
    PsTwin *entry = ps_twin_entry(twins, object);
    return entry->object == object ? entry->twin : NULL;
}

/* Keeps what belongs to an object, if the object has come before. */
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
