/* Decides whether a cache of decoded values is worth its look-ups: if values do not repeat, there
 * are few hits within a window of look-ups, and the cache pauses for a while.
 */
#ifndef PENSTOCK_CACHE_USE_H
#define PENSTOCK_CACHE_USE_H

#include <stdint.h>

typedef struct {
    uint32_t window;   /* look-ups after which hits are judged: the first ones fill the cache */
    uint32_t few_hits; /* fewer hits within a window are not worth the look-ups */
    uint32_t pause;    /* values that are then decoded without a look-up */
} PsCacheLimits;

typedef struct {
    uint32_t pause;
    uint32_t lookups;
    uint32_t hits;
} PsCacheUse;

/* Return true for a value to decode without a look-up. */
static inline int ps_steps_aside(PsCacheUse *use) {
    if (use->pause) {
        use->pause--;
        return 1;
    }
    return 0;
}

/* Count a look-up; return true if the cache must be emptied, since it pauses from now on. */
static inline int ps_count_lookup(PsCacheUse *use, const PsCacheLimits limits) {
    int few;
    if (++use->lookups != limits.window) {
        return 0;
    }
    few = use->hits < limits.few_hits;
    if (few) {
        use->pause = limits.pause;
    }
    use->lookups = 0;
    use->hits = 0;
    return few;
}

#endif
