# C declarations for python/penstock/taskexecutor/state/heap_states.py, which Cython compiles as
# penstock._native.state.heap_states.


cimport cython

from penstock._native.state.lent_values cimport LentValues
from penstock._native.state.state_table cimport CopyOnWriteStateMap as Map, StateTable as Table
from penstock._native.state.type_check cimport ValueCheck as Check


@cython.locals(items=tuple)
cpdef object map_key(object key)


@cython.final
cdef class NoKey:
    cdef readonly str operator
    cdef readonly str place
    cdef readonly str remedy


cdef class KeyContext:
    cdef public object current_key
    cdef public NoKey no_key
    cdef readonly LentValues lent
    cdef public object on_key

    cpdef visible_key(self)


cdef class HeapState:
    cdef public KeyContext _context
    cdef public Table _table
    cdef public Check _check
    cdef public Check _check_key
    cdef public Map _keys
    cdef public bint lends
    cdef public Py_ssize_t changes

    cpdef _key(self)


cdef class HeapValueState(HeapState):
    pass


cdef class ListOperations(HeapState):
    pass


cdef class MapOperations(HeapState):
    pass


cdef class HeapListState(ListOperations):
    pass


cdef class HeapMapState(MapOperations):
    @cython.locals(content=dict)
    cpdef get(self, object key)
    @cython.locals(content=dict)
    cpdef put(self, object key, object value)
    @cython.locals(content=dict)
    cpdef bint contains(self, object key) except -1
