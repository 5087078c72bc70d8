/* Queue of the threads that want the GIL after waiting without it. */
#ifndef PENSTOCK_GIL_TURN_H
#define PENSTOCK_GIL_TURN_H

#include <pthread.h>

/* A thread that waits for the GIL wakes up every 5 ms to request it, and interrupts its holder. If
 * a checkpoint wakes dozens of tasks at once, all but one wait here instead. */
static pthread_mutex_t ps_gil_turn = PTHREAD_MUTEX_INITIALIZER;

/* Call without the GIL: wait until no other thread is between this and `ps_end_gil_turn`. */
static inline void ps_begin_gil_turn(void) {
    pthread_mutex_lock(&ps_gil_turn);
}

/* Call with the GIL. */
static inline void ps_end_gil_turn(void) {
    pthread_mutex_unlock(&ps_gil_turn);
}

#endif
