# C declarations for python/penstock/taskexecutor/state/heap_states.py, which Cython compiles as
# penstock._native.heap_states.


cimport cython


@cython.locals(items=tuple)
cpdef object map_key(object key)


cdef class HeapState:
    cdef public object _context
    cdef public object _table
    cdef public object _check
    cdef public object _check_key
    cdef public dict _keys


cdef class HeapValueState(HeapState):
    pass


cdef class ListOperations(HeapState):
    pass


cdef class MapOperations(HeapState):
    pass


cdef class HeapListState(ListOperations):
    pass


cdef class HeapMapState(MapOperations):
    pass


cdef class HeapReducingState(HeapState):
    cdef object _reduce


cdef class HeapAggregatingState(HeapState):
    cdef object _function
    cdef object _add
    cdef object _get_result
