# C declarations for python/penstock/taskexecutor/compiled/timers.py.

cimport cython

from penstock._native.heap_states cimport KeyContext as Keys
from penstock._native.state_table cimport StateMap as Map


cdef class TimerTarget:
    cdef readonly object triggerable

    cpdef on_event_time(self, long long timestamp, object key, object namespace)
    cpdef on_processing_time(self, long long timestamp, object key, object namespace)


cpdef timer_of(object key, object namespace)


@cython.final
cdef class TimerQueue:
    cdef object _table
    cdef list _times            # a heap
    cdef dict _buckets          # by time
    cdef Map _last              # the bucket to which a timer was added last, or None
    cdef long long _last_time   # its time

    cdef Map _bucket(self, long long timestamp)
    @cython.locals(bucket=Map)
    cpdef bint add(self, long long timestamp, object key, object namespace) except -1
    cpdef bint remove(self, long long timestamp, object key, object namespace) except -1
    cpdef earliest(self)
    cpdef fire_until(self, long long limit, Keys keys, TimerTarget target, bint is_event)
    @cython.locals(bucket=Map, pair=tuple)
    cdef _fire(self, long long time, Keys keys, TimerTarget target, bint is_event)


@cython.final
cdef class InternalTimerService:
    cdef public long long current_watermark
    cdef readonly object current_processing_time
    cdef Keys _key_context
    cdef object _processing_time
    cdef TimerTarget _target
    cdef TimerQueue _event_timers
    cdef TimerQueue _processing_timers
    cdef object _physical

    cpdef register_event_time_timer(self, object namespace, long long timestamp)
    cpdef delete_event_time_timer(self, object namespace, long long timestamp)
    cpdef register_processing_time_timer(self, object namespace, long long timestamp)
    cpdef delete_processing_time_timer(self, object namespace, long long timestamp)
    cpdef advance_watermark(self, long long timestamp)
