# C declarations for python/penstock/taskexecutor/state/folding_states.py, which Cython compiles as
# penstock._native.state.folding_states.

cimport cython

from penstock._native.state.heap_states cimport HeapState
from penstock._native.values.value_copies cimport never_changes


cdef class HeapReducingState(HeapState):
    cdef object _reduce

    @cython.locals(position=Py_ssize_t)
    cpdef add(self, object value)


cdef class HeapAggregatingState(HeapState):
    cdef object _function
    cdef object _add
    cdef object _get_result

    @cython.locals(position=Py_ssize_t)
    cpdef add(self, object value)
