# Timers in the order of their time; see the pure twin.

cimport cython

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from penstock._native.state.state_map cimport PsEntry
from penstock._native.state.state_table cimport CopyOnWriteStateMap, StateTable


# An entry of a table.
cdef struct PsPlace:
    int32_t slot        # of its map in the table
    int32_t position    # in that map


cdef union PsWaiting:
    PsPlace place
    PyObject *object    # owned, in a heap of objects


# A timer that waits for its time.
cdef struct PsTimer:
    int64_t time
    PsWaiting waiting


cdef class TimerHeap:
    cdef StateTable table
    cdef PsTimer *timers    # from index 1 on: the parent of i is i / 2
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef bint is_indexed    # whether the entries' values are their positions in the heap

    cpdef int push(self, long long timestamp, CopyOnWriteStateMap contents, object key) except -1
    cdef int reserve(self) except -1
    cdef void put(self, int64_t timestamp, CopyOnWriteStateMap contents, int32_t position) noexcept
    cdef inline PsEntry *entry(self, PsTimer timer) noexcept
    cdef void sift_up(self, Py_ssize_t index, PsTimer timer) noexcept
    cdef Py_ssize_t sift_down(self, Py_ssize_t index, PsTimer timer) noexcept
    cdef void note_places(self, Py_ssize_t highest, Py_ssize_t lowest) noexcept
    cdef void take_away(self, Py_ssize_t index) noexcept


@cython.final
cdef class TimerQueue(TimerHeap):
    cdef readonly long long time
    cdef readonly object key
    cdef readonly object namespace
    cdef CopyOnWriteStateMap last          # the map of the timer registered last, or None
    cdef long long last_time    # its time
    cdef Py_ssize_t unused      # timers removed since the positions were last used

    cdef CopyOnWriteStateMap contents_of(self, long long timestamp)
    cdef int make_index(self) except -1
    cdef int forget(self, CopyOnWriteStateMap contents, int32_t position) except -1
    cpdef bint add(self, long long timestamp, object key, object namespace) except -1
    cpdef bint remove(self, long long timestamp, object key, object namespace) except -1
    cpdef object earliest(self)
    cpdef bint take(self, long long limit) except -1
