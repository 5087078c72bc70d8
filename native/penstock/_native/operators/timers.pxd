# C declarations for python/penstock/taskexecutor/compiled/timers.py.

cimport cython

from penstock._native.operators.timer_queue cimport TimerQueue
from penstock._native.state.heap_states cimport KeyContext as Keys


cdef class TimerTarget:
    cdef readonly object triggerable

    cpdef on_event_time(self, long long timestamp, object key, object namespace)
    cpdef on_processing_time(self, long long timestamp, object key, object namespace)


@cython.final
cdef class InternalTimerService:
    cdef public long long current_watermark
    cdef public long long num_fired
    cdef readonly object current_processing_time
    cdef Keys _key_context
    cdef object _processing_time
    cdef TimerTarget _target
    cdef TimerQueue _event_timers
    cdef TimerQueue _processing_timers
    cdef object _physical
    cdef bint _is_ending
    cdef bint _has_dropped

    cpdef register_event_time_timer(self, object namespace, long long timestamp)
    cpdef delete_event_time_timer(self, object namespace, long long timestamp)
    cpdef register_processing_time_timer(self, object namespace, long long timestamp)
    cpdef delete_processing_time_timer(self, object namespace, long long timestamp)
    cpdef advance_watermark(self, long long timestamp)
    @cython.locals(keys=Keys, target=TimerTarget)
    cdef _fire(self, TimerQueue timers, long long limit, bint is_event)
