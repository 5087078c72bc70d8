# C declarations for python/penstock/taskexecutor/compiled/process_operators.py.

cimport cython

from penstock._native.keys.keys cimport KeyReader as Keys
from penstock._native.operators.operator_loop cimport FunctionOperator, Output, StreamOperator
from penstock._native.operators.procedure cimport Procedure
from penstock._native.operators.timers cimport InternalTimerService, TimerTarget
from penstock._native.state.heap_states cimport KeyContext as Context
from penstock._native.values.timestamps cimport timestamp_of


@cython.final
cdef class KeyedTimerService:
    cdef InternalTimerService _service


cdef class ElementContext:
    cdef public long long current_timestamp
    cdef public object timers

    cpdef long long timestamp(self) except? -1
    cpdef timer_service(self)


cdef class KeyedElementContext(ElementContext):
    cdef public Context state
    cdef public object domain

    cpdef get_current_key(self)


cpdef emit_results(Output output, object result, long long timestamp, object tag_class)


@cython.locals(pair=tuple)
cdef emit_result(Output output, object element, long long timestamp, object tag_class)


@cython.final
cdef class FunctionTimers(TimerTarget):
    cdef public InternalTimerService service
    cdef StreamOperator operator
    cdef readonly object on_timer
    cdef public Procedure procedure
    cdef object tag_class
    cdef object event_time
    cdef object processing_time
    cdef object element_context
    cdef KeyedElementContext keyed_context
    cdef long long last_time
    cdef object time_object

    @cython.locals(done=bint, outcome=int)
    cdef fire(self, long long timestamp, object domain)
    cdef call(self, long long timestamp, object domain)
    cdef enter(self, long long timestamp, object domain)


cdef class ProcessOperator(FunctionOperator):
    cdef public ElementContext element_context
    cdef public object tag_class

    @cython.locals(done=bint)
    cpdef process(self, object value, long long timestamp)


cdef class KeyedProcessOperator(ProcessOperator):
    cdef public Keys keys
    cdef public Context state
    cdef public FunctionTimers timers
    cdef public Procedure procedure

    @cython.locals(done=bint, outcome=int)
    cpdef process(self, object value, long long timestamp)
    cpdef process_watermark(self, long long timestamp)
