# C declarations for python/penstock/taskexecutor/compiled/source_operators.py.

cimport cython

from penstock._native.operators.operator_loop cimport Output, StreamOperator


cdef long long LONG_STEP_NS
cdef long long SLICE_NS
cdef int TURN


cdef class SourceOperator(StreamOperator):
    cpdef int emit_next(self, int limit) except -1


cdef class NumberSequenceSource(SourceOperator):
    cdef public long long next
    cdef public long long end
    cdef public long long turn

    @cython.locals(
        first=cython.longlong,
        start=cython.longlong,
        last=cython.longlong,
        number=cython.longlong,
        began_ns=cython.longlong,
        took_ns=cython.longlong,
    )
    cpdef int emit_next(self, int limit) except -1


cdef class IteratorSource(SourceOperator):
    cdef public object iterator

    @cython.locals(output=Output, none=cython.longlong, remaining=int, began_ns=cython.longlong)
    cpdef int emit_next(self, int limit) except -1
