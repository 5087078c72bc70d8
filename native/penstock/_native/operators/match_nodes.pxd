# C declarations for python/penstock/taskexecutor/compiled/match_nodes.py.

cimport cython

from penstock._native.operators.untracked cimport untrack


@cython.locals(records=list)
cpdef Py_ssize_t add_record(list entry, object record, object value) except -1


@cython.locals(records=list)
cpdef bint has_record(list entry, Py_ssize_t slot, object record) except -1


@cython.locals(nodes=list, records=list)
cpdef Py_ssize_t add_node(list entry, object before, object state, Py_ssize_t record) except -1


@cython.locals(nodes=list)
cpdef refer(list entry, Py_ssize_t node)


@cython.locals(nodes=list, records=list, record=Py_ssize_t, before=object)
cpdef release(list entry, Py_ssize_t node)


@cython.locals(slots=dict, record_slots=dict)
cpdef flatten(list entry)
