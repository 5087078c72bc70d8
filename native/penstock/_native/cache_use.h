/* Whether a cache of decoded values is worth its look-ups: where values do not repeat, its hits
 * are few within a window of look-ups, and it steps aside for a while.
 */
#ifndef PENSTOCK_CACHE_USE_H
#define PENSTOCK_CACHE_USE_H

#include <stdint.h>

typedef struct {
    uint32_t window;   /* look-ups after which hits are judged: the first ones fill the cache */
    uint32_t few_hits; /* fewer within a window than this are not worth it */
    uint32_t pause;    /* values that then pass without a look-up */
} PsCacheLimits;

typedef struct {
    uint32_t pause;
    uint32_t lookups;
    uint32_t hits;
} PsCacheUse;

/* True for a value that is to pass without a look-up. */
static inline int ps_steps_aside(PsCacheUse *use) {
    if (use->pause) {
        use->pause--;
        return 1;
    }
    return 0;
}

/* Counts a look-up; true if the cache is to be emptied, since it steps aside after this one. */
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
