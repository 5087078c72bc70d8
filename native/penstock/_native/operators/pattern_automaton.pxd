# C declarations for python/penstock/taskexecutor/compiled/pattern_automaton.py.

cimport cython


@cython.final
cdef class MatchCondition:
    cdef readonly int kind
    cdef readonly Py_ssize_t index
    cdef MatchCondition left
    cdef MatchCondition right


@cython.final
cdef class MatchState:
    cdef readonly Py_ssize_t index
    cdef readonly str name
    cdef readonly str label
    cdef readonly bint is_final
    cdef readonly bint is_stop
    cdef readonly bint is_pending
    cdef readonly long long window_ms
    cdef readonly list edges
    cdef public bint may_end


@cython.final
cdef class MatchEdge:
    cdef readonly int action
    cdef readonly MatchState target
    cdef MatchCondition condition
