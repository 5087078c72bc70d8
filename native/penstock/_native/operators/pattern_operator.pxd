# C declarations for python/penstock/taskexecutor/compiled/pattern_operator.py.

cimport cython

from penstock._native.keys.keys cimport KeyReader as Keys
from penstock._native.operators.operator_loop cimport FunctionOperator
from penstock._native.operators.pattern_matching cimport PatternMatcher
from penstock._native.operators.process_operators cimport emit_results
from penstock._native.operators.timers cimport InternalTimerService, TimerTarget
from penstock._native.operators.untracked cimport untrack
from penstock._native.state.heap_states cimport KeyContext as Context
from penstock._native.state.state_table cimport CopyOnWriteStateMap as Map


@cython.final
cdef class MatchTimes:
    cdef object clock
    cdef public long long match_timestamp


@cython.final
cdef class PatternTimers(TimerTarget):
    cdef PatternOperator operator


cdef class PatternOperator(FunctionOperator):
    cdef readonly PatternMatcher matcher
    cdef Keys keys
    cdef Context state
    cdef readonly Map entries
    cdef readonly Map waiting
    cdef readonly Map touched
    cdef object now
    cdef object tag_class
    cdef bint is_event_time
    cdef bint is_ordered
    cdef object sort_key
    cdef str late_tag
    cdef object late_records_dropped
    cdef object copier
    cdef long long ttl_ms
    cdef object process_timed_out
    cdef InternalTimerService timers
    cdef MatchTimes times
    cdef list unused

    @cython.locals(done=bint)
    cpdef process(self, object value, long long timestamp)
    cpdef process_watermark(self, long long timestamp)
    cdef _take_late(self, object value, long long timestamp)
    @cython.locals(
        waiting=dict, time=object, earliest=cython.longlong, values=list, known=list
    )
    cdef _keep(self, object key, object value, long long timestamp)
    cdef _register(self, long long timestamp)
    @cython.locals(entry=list, is_kept=bint)
    cdef _process(self, object key, object value, long long timestamp)
    @cython.locals(
        waiting=dict, entry=list, is_kept=bint, values=list, time=object, now=cython.longlong,
        rest=dict
    )
    cdef reach(self, object key, long long timestamp)
    cdef _touch(self, object key, list entry)
    cdef expire(self, object key, long long timestamp)
    cdef list _entry(self, object key)
    cdef _store(self, object key, list entry, bint is_kept)
    @cython.locals(matcher=PatternMatcher, found=list)
    cdef _offer(self, list entry, object value, long long timestamp)
    @cython.locals(matcher=PatternMatcher, found=list, timed_out=list)
    cdef _advance(self, list entry, long long timestamp)
    cdef _emit(self, list matches, long long timestamp)
    cdef _emit_timed_out(self, dict match, long long timestamp)
    cdef dict _own(self, dict match)
