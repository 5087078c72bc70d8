# C declarations for python/penstock/taskexecutor/compiled/pattern_matching.py.

cimport cython

from penstock._native.operators.match_heap cimport is_before, pop, push, sift_down
from penstock._native.operators.match_nodes cimport (
    add_node, add_record, flatten, has_record, refer, release
)
from penstock._native.operators.pattern_automaton cimport MatchCondition, MatchEdge, MatchState
from penstock._native.operators.untracked cimport untrack


@cython.final
cdef class PartialMatch:
    cdef object clock
    cdef list states
    cdef list entry
    cdef tuple match
    cdef long long current_timestamp

    @cython.locals(
        match=tuple, nodes=list, records=list, node=Py_ssize_t, index=Py_ssize_t, slot=Py_ssize_t,
        found=list
    )
    cpdef list get_events_for_pattern(self, str name)
    @cython.locals(
        match=tuple, nodes=list, node=Py_ssize_t, index=Py_ssize_t, slot=Py_ssize_t,
        found=Py_ssize_t
    )
    cdef Py_ssize_t _place_of(self, str name, bint is_first) except -2


@cython.final
cdef class PatternMatcher:
    cdef list states
    cdef MatchState start
    cdef list functions
    cdef list is_iterative
    cdef readonly long long window_ms
    cdef int skip
    cdef str skip_to
    cdef bint throws_on_miss
    cdef readonly str names
    cdef tuple not_begun
    cdef bint has_windows
    cdef bint has_iterative
    cdef PartialMatch context
    cdef bytearray known
    cdef object value
    cdef long long timestamp
    cdef object record
    cdef Py_ssize_t slot
    cdef public list timed_out
    cdef readonly bint has_begun
    cdef readonly list deadlines
    cdef readonly long long ended_at

    @cython.locals(matches=list, entry=list)
    cpdef list new_entry(self)
    cpdef bint is_unused(self, list entry) except -1
    @cython.locals(index=Py_ssize_t, fresh=list, complete=list, matches=list, match=tuple)
    cpdef list process(self, list entry, object value, long long timestamp)
    @cython.locals(
        ended=int, end=cython.longlong, fresh=list, complete=list, matches=list, match=tuple,
        state=MatchState
    )
    cpdef list advance(self, list entry, long long timestamp)
    cdef _add_complete(self, list entry, list complete)
    @cython.locals(first=tuple)
    cdef bint _is_due(self, list entry, long long timestamp) except -1
    @cython.locals(window_ms=cython.longlong, state=MatchState)
    cdef int _ended_window(self, tuple match, long long timestamp) except -1
    @cython.locals(
        node=Py_ssize_t, is_new=bint, index=Py_ssize_t, goes_on=list, is_discarded=bint,
        is_owned=bint, source=Py_ssize_t, state=MatchState, waiting=list, edge=MatchEdge,
        target=MatchState, following=tuple
    )
    cdef _step(self, list entry, tuple match, list fresh, list complete)
    @cython.locals(index=Py_ssize_t, following=tuple, added=Py_ssize_t)
    cdef tuple _with_node(self, list entry, tuple match, list goes_on)
    @cython.locals(
        following=tuple, ended=tuple, end=MatchState, time=object, record=object,
        before=Py_ssize_t, added=Py_ssize_t
    )
    cdef tuple _take(
        self, list entry, tuple match, MatchState state, MatchState target, list complete
    )
    @cython.locals(waiting=list, edge=MatchEdge)
    cdef MatchState _end_after(self, MatchState state)
    @cython.locals(kind=int, known=int, result=bint)
    cdef bint _holds(self, MatchCondition condition) except -1
    @cython.locals(waiting=list, found=list, match=tuple, path=list)
    cdef list _completed(self, list entry, list fresh)
    cdef object _limit(self, list path)
    @cython.locals(kept=list, match=tuple, position=Py_ssize_t)
    cdef _prune(self, list entry, list heap, object limit)
    @cython.locals(
        nodes=list, records=list, node=Py_ssize_t, slot=Py_ssize_t, path=list, state=MatchState
    )
    cdef list _path(self, list entry, tuple match)
    @cython.locals(match=dict, values=list)
    cdef dict _match_of(self, list path)
