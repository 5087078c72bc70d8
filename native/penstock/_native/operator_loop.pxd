# C declarations for python/penstock/taskexecutor/operator_loop.py, which Cython compiles as
# penstock._native.operator_loop.  RecordWriter cimports Output, StreamInputProcessor Input.

cimport cython


cdef class Output:
    cpdef collect(self, object value, long long timestamp)
    cpdef collect_all(self, object values, long long timestamp)
    cpdef collect_side(self, str tag_id, object value, long long timestamp)
    cpdef emit_watermark(self, long long timestamp)
    cpdef emit_status(self, bint idle)
    cpdef emit_latency_marker(self, long long marked_time, long long operator_id_lower,
                              long long operator_id_upper, int subtask)


cdef class Input:
    cpdef process(self, object value, long long timestamp)
    cpdef process_all(self, object values, long long timestamp)
    cpdef process_watermark(self, long long timestamp)
    cpdef process_status(self, bint idle)
    cpdef process_latency_marker(self, long long marked_time, long long operator_id_lower,
                                 long long operator_id_upper, int subtask)


cdef class ChainingOutput(Output):
    cdef public Input target


cdef class StreamOperator(Input):
    cdef public Output output
    cdef public object failed_with
    cdef public object context


cdef class BroadcastOutput(Output):
    cdef list outputs
    cdef dict sides
    cdef object choose
    cdef list everyone

    @cython.locals(output=Output)
    cpdef collect(self, object value, long long timestamp)
    @cython.locals(output=Output)
    cpdef collect_side(self, str tag_id, object value, long long timestamp)
    @cython.locals(output=Output)
    cpdef emit_watermark(self, long long timestamp)
    @cython.locals(output=Output)
    cpdef emit_status(self, bint idle)
    @cython.locals(output=Output)
    cpdef emit_latency_marker(self, long long marked_time, long long operator_id_lower,
                              long long operator_id_upper, int subtask)


cdef class SideOutputs(Output):
    cdef Output main
    cdef BroadcastOutput rest
    cdef object tag_class


cdef class DiscardingOutput(Output):
    pass


cdef class FunctionOperator(StreamOperator):
    cdef public object user_function
    cdef public object function
    cdef bint opened


cdef class MapOperator(FunctionOperator):
    cpdef process(self, object value, long long timestamp)


cdef class FilterOperator(FunctionOperator):
    cpdef process(self, object value, long long timestamp)


cdef class FlatMapOperator(FunctionOperator):
    cpdef process(self, object value, long long timestamp)


cdef class KeyedReduceOperator(FunctionOperator):
    cdef public object key_selector
    cdef public Py_ssize_t key_position
    cdef public dict table

    @cython.locals(fields=tuple)
    cpdef process(self, object value, long long timestamp)


cdef class FinalReduceOperator(KeyedReduceOperator):
    @cython.locals(fields=tuple)
    cpdef process(self, object value, long long timestamp)
    cpdef process_watermark(self, long long timestamp)


cdef class FusedOperator(StreamOperator):
    cdef object function
    cdef object function_of_all
    cdef object dropped
    cdef object blame

    cpdef process(self, object value, long long timestamp)
    cpdef process_all(self, object values, long long timestamp)


cdef class TimestampsOperator(StreamOperator):
    cdef public object extract
    cdef public object on_event
    cdef public object emitter
    cdef public bint tracks_maximum
    cdef public long long max_timestamp
    cdef public bint had_events
    cdef public bint idle

    cpdef process(self, object value, long long timestamp)


cdef class TumblingWindowLoop(StreamOperator):
    cdef public long long size
    cdef public long long offset
    cdef public object key_selector
    cdef public Py_ssize_t key_position
    cdef public int keep
    cdef public object function
    cdef public object create_accumulator
    cdef public long long last_start
    cdef public dict last_contents

    @cython.locals(remainder=cython.longlong, start=cython.longlong, contents=dict, fields=tuple)
    cpdef process(self, object value, long long timestamp)


cdef class ElementContext:
    cdef public long long current_timestamp
    cdef public object timers

    cpdef long long timestamp(self) except? -1
    cpdef timer_service(self)


cdef class KeyedElementContext(ElementContext):
    cdef public object state
    cdef public object domain

    cpdef get_current_key(self)


cdef class ProcessOperator(FunctionOperator):
    cdef public ElementContext element_context
    cdef public object tag_class

    cpdef process(self, object value, long long timestamp)
    @cython.locals(output=Output, pair=tuple)
    cpdef emit(self, object result, long long timestamp)


cdef class KeyedProcessOperator(ProcessOperator):
    cdef public object key_selector
    cdef public Py_ssize_t key_position
    cdef public object state

    @cython.locals(fields=tuple)
    cpdef process(self, object value, long long timestamp)


cdef class DiscardingSink(StreamOperator):
    cpdef process(self, object value, long long timestamp)


cdef class FunctionSink(FunctionOperator):
    cpdef process(self, object value, long long timestamp)


cdef class SourceOperator(StreamOperator):
    cpdef int emit_next(self, int limit) except -1


cdef class NumberSequenceSource(SourceOperator):
    cdef public long long next
    cdef public long long end

    cpdef int emit_next(self, int limit) except -1


cdef class IteratorSource(SourceOperator):
    cdef public object iterator

    @cython.locals(output=Output, none=cython.longlong, remaining=int)
    cpdef int emit_next(self, int limit) except -1
