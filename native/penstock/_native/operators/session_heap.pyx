"""Open session windows in the order of their ends, the twin of ``compiled.session_heap``."""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport INT32_MAX, int32_t

from penstock._native.operators.timer_queue cimport PsTimer, TimerHeap
from penstock._native.state.state_table cimport CopyOnWriteStateMap


@cython.no_gc
@cython.freelist(64)
cdef class Session:
    """An open session window of a key; see the pure twin."""

    def __repr__(self):
        return f"Session(start={self.start}, end={self.end})"


cdef Session made(object key, long long start, long long end, CopyOnWriteStateMap contents):
    cdef Session session = Session.__new__(Session)
    session.key = key
    session.start = start
    session.end = end
    session.contents = contents
    return session


cdef class SessionHeap(TimerHeap):
    """The sessions of all keys; see the pure twin.

    Each session knows its position, since it is removed from there whenever it grows.
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
            (<Session>self.timers[lowest].waiting.object).index = <int32_t>lowest
            lowest >>= 1

    cpdef Session open(
        self, object key, long long start, long long end, CopyOnWriteStateMap contents
    ):
        cdef Session session = made(key, start, end, contents)
        self.insert(session, end - 1)
        return session

    cpdef Session open_late(
        self, object key, long long start, long long end, CopyOnWriteStateMap contents
    ):
        cdef Session session = made(key, start, end, contents)
        session.has_fired = True
        return session

    cpdef int expire(self, Session session, long long time) except -1:
        cdef Session expiry = made(session.key, session.start, session.end, session.contents)
        self.insert(expiry, time)
        session.expiry = expiry
        return 0

    cdef int insert(self, Session session, long long time) except -1:
        """Add a session or expiry that waits for a time."""
        cdef PsTimer timer
        if self.count == INT32_MAX:
            raise OverflowError("an operator has 2^31 open sessions, or times until they expire")
        self.reserve()
        Py_INCREF(session)
        timer.time = time
        timer.waiting.object = <PyObject *>session
        self.count += 1
        self.sift_up(self.count, timer)
        return 0

    cdef int drop(self, Session session) except -1:
        """Remove a session or expiry."""
        self.take_away(session.index)
        Py_DECREF(session)
        return 0

    cpdef int close(self, Session session) except -1:
        if not session.has_fired:
            self.drop(session)
        if session.expiry is not None:
            self.drop(session.expiry)
        return 0

    cpdef Session take(self, long long limit):
        cdef Session session
        if self.count == 0 or self.timers[1].time > limit:
            return None
        session = <Session>self.timers[1].waiting.object
        self.drop(session)
        return session
