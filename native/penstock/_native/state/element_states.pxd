# C declarations for python/penstock/taskexecutor/rocksdb/element_states.py, which Cython compiles
# as penstock._native.state.element_states.

cimport cython

from penstock._native.state.heap_states cimport KeyContext as Context
from penstock._native.state.type_check cimport ValueCheck as Check


cdef class ElementState:
    cdef public Context _context
    cdef public object _entries
    cdef public Check _check
    cdef public object _contents
    cdef public bint lends

    cpdef _key(self)


cdef class ElementMapState(ElementState):
    cdef public Check _check_key
    cdef public Py_ssize_t changes
    cdef dict _suffixes

    @cython.locals(suffixes=dict, suffix=bytes)
    cpdef bytes _suffix(self, object key)
    @cython.locals(suffix=bytes, parts=dict, pairs=dict, pair=tuple, found=tuple)
    cpdef _pair(self, object key)
    @cython.locals(pair=tuple)
    cpdef get(self, object key)
    @cython.locals(suffix=bytes, parts=dict, pairs=dict)
    cpdef put(self, object key, object value)


cdef class ElementListState(ElementState):
    pass
