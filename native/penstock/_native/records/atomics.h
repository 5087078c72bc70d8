/* Stores by which a writer publishes its bytes to the reader of an open buffer. */
#ifndef PENSTOCK_ATOMICS_H
#define PENSTOCK_ATOMICS_H

#include "records/capi.h"

/* Publish the bytes before `position`: a reader that sees the marker also sees them. */
static inline void ps_commit(PsCursor *cursor) {
    __atomic_store_n(cursor->marker, (int32_t)cursor->position, __ATOMIC_RELEASE);
    __atomic_store_n(cursor->dirty, 1, __ATOMIC_RELEASE);
}

/* Return whether a byte written by another thread is set, for a check between two records. */
static inline int ps_is_raised(const uint8_t *flag) {
    return __builtin_expect(__atomic_load_n(flag, __ATOMIC_RELAXED) != 0, 0);
}

#endif
