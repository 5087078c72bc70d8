# C declarations for python/penstock/taskexecutor/compiled/source_operators.py.

cimport cython

from penstock._native.operator_loop cimport Output, StreamOperator


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
