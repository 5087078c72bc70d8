/* The stores by which a writer shows its bytes to the reader of an open buffer. */
#ifndef PENSTOCK_ATOMICS_H
#define PENSTOCK_ATOMICS_H

#include "capi.h"

/* The bytes before `position` happen before any read of the marker that sees it. */
static inline void ps_commit(PsCursor *cursor) {
    __atomic_store_n(cursor->marker, (int32_t)cursor->position, __ATOMIC_RELEASE);
    __atomic_store_n(cursor->dirty, 1, __ATOMIC_RELEASE);
}

#endif
