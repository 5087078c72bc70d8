# Open session windows in the order of their ends; see the pure twin.

cimport cython
from libc.stdint cimport int32_t

from penstock._native.operators.timer_queue cimport TimerHeap
from penstock._native.state.state_table cimport CopyOnWriteStateMap


@cython.final
cdef class Session:
    cdef readonly object key
    cdef readonly long long start
    cdef readonly long long end
    cdef readonly CopyOnWriteStateMap contents
    cdef readonly Session expiry
    cdef public bint has_fired
    cdef int32_t index          # its position in the heap


@cython.final
cdef class SessionHeap(TimerHeap):
    cpdef Session open(
        self, object key, long long start, long long end, CopyOnWriteStateMap contents
    )
    cpdef Session open_late(
        self, object key, long long start, long long end, CopyOnWriteStateMap contents
    )
    cpdef int expire(self, Session session, long long time) except -1
    cdef int insert(self, Session session, long long time) except -1
    cdef int drop(self, Session session) except -1
    cpdef int close(self, Session session) except -1
    cpdef Session take(self, long long limit)
