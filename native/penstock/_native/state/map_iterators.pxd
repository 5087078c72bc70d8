# C declarations for python/penstock/taskexecutor/state/map_iterators.py, which Cython compiles as
# penstock._native.state.map_iterators.

cimport cython

from penstock._native.state.lent_values cimport LentValues as Lent


@cython.final
cdef class MapIterator:
    cdef object _state
    cdef object _contents
    cdef object _current
    cdef object _pairs
    cdef Py_ssize_t _changes
    cdef int _shown
    cdef Lent _lent
    cdef object _last
