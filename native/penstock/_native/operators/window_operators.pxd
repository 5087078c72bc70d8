# C declarations for python/penstock/taskexecutor/compiled/window_operators.py.

cimport cython

from penstock._native.keys.keys cimport KeyReader as Keys
from penstock._native.operators.operator_loop cimport StreamOperator
from penstock._native.operators.session_heap cimport Session, SessionHeap
from penstock._native.operators.timer_queue cimport TimerHeap
from penstock._native.operators.timers cimport InternalTimerService
from penstock._native.state.state_table cimport CopyOnWriteStateMap as Map


cdef class WindowLoop(StreamOperator):
    cdef public Keys keys
    cdef public int keep
    cdef public object function
    cdef public object create_accumulator

    @cython.final
    @cython.locals(position=Py_ssize_t)
    cdef inline bint keep_element(self, Map contents, object key, object value) except -1


cdef class TimerlessWindowLoop(WindowLoop):
    cdef public long long size
    cdef public long long slide
    cdef public long long offset
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


cdef class SessionWindowLoop(WindowLoop):
    cdef public long long gap
    cdef public object gap_of
    cdef public Map sessions
    cdef public SessionHeap heap
    cdef public InternalTimerService timers
    cdef public long long lateness
    cdef public long long first_start
    cdef public long long last_end
    cdef public Map last_contents
    cdef public long long contents_start
    cdef public long long contents_end

    @cython.locals(session=Session, gap=cython.longlong, done=bint)
    cpdef process(self, object value, long long timestamp)
    @cython.final
    @cython.locals(
        position=Py_ssize_t, last=Py_ssize_t, opened=list, session=Session, touched=Session,
        before=Session,
    )
    cdef Session session_of(self, object key, long long start, long long end)
    @cython.final
    @cython.locals(contents=Map, watermark=cython.longlong)
    cdef Session begun(self, object key, long long start, long long end)
    cpdef Session opened_session(self, object key, long long start, long long end, Map contents)
    cpdef expire(self, Session session)
    @cython.locals(session=Session, other=Session, opened=list, last=Py_ssize_t)
    cpdef Session ended(self, long long limit)
