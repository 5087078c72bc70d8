# C declarations for python/penstock/taskexecutor/compiled/time_operators.py.

cimport cython

from penstock._native.evaluator.expression cimport Expression
from penstock._native.operators.operator_loop cimport StreamOperator
from penstock._native.values.timestamps cimport timestamp_of


cdef class TimestampsOperator(StreamOperator):
    cdef public object extract
    cdef public Expression expression
    cdef public object columns
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
    @cython.locals(done=bint)
    cpdef process_batch(self, object batch)
