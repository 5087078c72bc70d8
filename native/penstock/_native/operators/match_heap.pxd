# C declarations for python/penstock/taskexecutor/compiled/match_heap.py.

cimport cython


@cython.locals(first=cython.longlong, other=cython.longlong)
cpdef bint is_before(tuple left, tuple right) except -1


@cython.locals(position=Py_ssize_t, parent=Py_ssize_t)
cpdef push(list heap, tuple match)


@cython.locals(size=Py_ssize_t, child=Py_ssize_t)
cpdef sift_down(list heap, Py_ssize_t position, tuple match)


cpdef tuple pop(list heap)
