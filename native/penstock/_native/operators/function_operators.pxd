# C declarations for python/penstock/taskexecutor/compiled/function_operators.py.

cimport cython

from penstock._native.keys.keys cimport KeyReader as Keys
from penstock._native.operators.operator_loop cimport FunctionOperator, StreamOperator
from penstock._native.state.state_table cimport CopyOnWriteStateMap as Map


cdef class MapOperator(FunctionOperator):
    @cython.locals(done=bint)
    cpdef process(self, object value, long long timestamp)


cdef class FilterOperator(FunctionOperator):
    @cython.locals(done=bint)
    cpdef process(self, object value, long long timestamp)


cdef class FlatMapOperator(FunctionOperator):
    @cython.locals(done=bint)
    cpdef process(self, object value, long long timestamp)


cdef class FusedOperator(StreamOperator):
    cdef object function
    cdef object function_of_all
    cdef object dropped
    cdef object blame
    cdef public object columns

    cpdef process(self, object value, long long timestamp)
    cpdef process_all(self, object values, long long timestamp)
    cpdef process_batch(self, object batch)


cdef class KeyedReduceOperator(FunctionOperator):
    cdef public Keys keys
    cdef public Map folds

    @cython.locals(done=bint, position=Py_ssize_t)
    cpdef process(self, object value, long long timestamp)


cdef class FinalReduceOperator(KeyedReduceOperator):
    @cython.locals(done=bint, position=Py_ssize_t)
    cpdef process(self, object value, long long timestamp)
    cpdef process_watermark(self, long long timestamp)


cdef class DiscardingSink(StreamOperator):
    cpdef process(self, object value, long long timestamp)
    cpdef process_batch(self, object batch)


cdef class FunctionSink(FunctionOperator):
    @cython.locals(done=bint)
    cpdef process(self, object value, long long timestamp)
