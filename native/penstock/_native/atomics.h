/* The stores by which a writer shows its bytes to the reader of an open buffer. */
#ifndef PENSTOCK_ATOMICS_H
#define PENSTOCK_ATOMICS_H

#include "capi.h"

/* The bytes before `position` happen before any read of the marker that sees it. */
static inline void ps_commit(PsCursor *cursor) {
    __atomic_store_n(cursor->marker, (int32_t)cursor->position, __ATOMIC_RELEASE);
    __atomic_store_n(cursor->dirty, 1, __ATOMIC_RELEASE);
}

/* Whether a byte that another thread writes is set, for a look between two records. */
static inline int ps_is_raised(const uint8_t *flag) {
    return __builtin_expect(__atomic_load_n(flag, __ATOMIC_RELAXED) != 0, 0);
}

#endif
