"""Open session windows in the order of their ends, the twin of ``compiled.session_heap``."""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from penstock._native.state_table cimport StateMap
from penstock._native.timer_queue cimport PsTimer, TimerHeap


@cython.no_gc
@cython.freelist(64)
cdef class Session:
    """An open session window of a key; see the pure twin."""

    def __repr__(self):
        return f"Session(start={self.start}, end={self.end})"


cdef class SessionHeap(TimerHeap):
    """The sessions of all keys; see the pure twin.

    Each knows its place, since it is removed from there whenever it grows.
    """

    def __cinit__(self):
        self.is_indexed = True

    def __dealloc__(self):
        cdef Py_ssize_t index
        for index in range(1, self.count + 1):
            Py_DECREF(<object>self.timers[index].waiting.object)
        self.count = 0

    cdef void note_places(self, Py_ssize_t highest, Py_ssize_t lowest) noexcept:
        while lowest >= highest:
            (<Session>self.timers[lowest].waiting.object).index = lowest
            lowest >>= 1

    cpdef Session open(self, object key, long long start, long long end, StateMap contents):
        cdef Session session = Session.__new__(Session)
        cdef PsTimer timer
        session.key = key
        session.start = start
        session.end = end
        session.contents = contents
        self.reserve()
        Py_INCREF(session)
        timer.time = end - 1
        timer.waiting.object = <PyObject *>session
        self.count += 1
        self.sift_up(self.count, timer)
        return session

    cpdef int close(self, Session session) except -1:
        self.take_away(session.index)
        Py_DECREF(session)
        return 0

    cpdef Session take(self, long long limit):
        cdef Session session
        if self.count == 0 or self.timers[1].time > limit:
            return None
        session = <Session>self.timers[1].waiting.object
        self.close(session)
        return session
