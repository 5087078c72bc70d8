# C declarations for python/penstock/taskexecutor/compiled/operator_loop.py, which Cython compiles
# as penstock._native.operators.operator_loop.  RecordWriter cimports Output, and
# StreamInputProcessor Input.

cimport cython

from penstock._native.values.value_copies cimport ValueCopier as Copier


cdef class Output:
    cpdef collect(self, object value, long long timestamp)
    cpdef collect_all(self, object values, long long timestamp)
    cpdef collect_batch(self, object batch)
    cpdef collect_side(self, str tag_id, object value, long long timestamp)
    cpdef emit_watermark(self, long long timestamp)
    cpdef emit_status(self, bint idle)
    cpdef emit_latency_marker(self, long long marked_time, long long operator_id_lower,
                              long long operator_id_upper, int subtask)


cdef class Input:
    cpdef process(self, object value, long long timestamp)
    cpdef process_all(self, object values, long long timestamp)
    cpdef process_batch(self, object batch)
    cpdef process_watermark(self, long long timestamp)
    cpdef process_status(self, bint idle)
    cpdef process_latency_marker(self, long long marked_time, long long operator_id_lower,
                                 long long operator_id_upper, int subtask)


cdef class ChainingOutput(Output):
    cdef public Input target


cdef class CopyingChainingOutput(ChainingOutput):
    cdef public Copier copier
    cdef object copied


@cython.final
cdef class TypedChainingOutput(ChainingOutput):
    cdef object encode
    cdef object decode
    cdef object exact

    cpdef typed(self, object value)


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
    cpdef collect_batch(self, object batch)
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
    cdef public bint is_checked

    cpdef check_first(self, object result)
