# C declarations for python/penstock/taskexecutor/compiled/time_operators.py.

cimport cython

from penstock._native.expression cimport Expression
from penstock._native.keys cimport KeyReader as Keys
from penstock._native.operator_loop cimport StreamOperator
from penstock._native.state_table cimport StateMap as Map
from penstock._native.timer_queue cimport TimerHeap
from penstock._native.timestamps cimport timestamp_of


cdef class TimestampsOperator(StreamOperator):
    cdef public object extract
    cdef public Expression expression
    cdef public object stamped
    cdef public object on_event
    cdef public object emitter
    cdef public bint tracks_maximum
    cdef public long long max_timestamp
    cdef public bint had_events
    cdef public bint idle

    @cython.locals(done=bint)
    cpdef process(self, object value, long long timestamp)
    cpdef process_all(self, object values, long long timestamp)


cdef class TimerlessWindowLoop(StreamOperator):
    cdef public long long size
    cdef public long long slide
    cdef public long long offset
    cdef public Keys keys
    cdef public int keep
    cdef public object function
    cdef public object create_accumulator
    cdef public long long last_start
    cdef public Map last_contents
    cdef public long long last_count
    cdef public list last_windows
    cdef public object copier
    cdef public TimerHeap order

    @cython.locals(remainder=cython.longlong, start=cython.longlong, contents=Map, done=bint)
    cpdef process(self, object value, long long timestamp)
    @cython.locals(count=cython.longlong, windows=list, contents=Map, first=cython.longlong)
    cdef slide_into(self, object value, long long start, long long remainder, long long timestamp)
    @cython.final
    @cython.locals(position=Py_ssize_t)
    cdef inline int keep_element(
        self, Map contents, long long start, object key, object value
    ) except -1
