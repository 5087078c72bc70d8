"""Containers that the garbage collector need not traverse, the twin of ``compiled.untracked``."""

from cpython.object cimport PyObject

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(PyObject *container)


cpdef int untrack(object container) except -1:
    """Hide a container from the garbage collector; see the pure twin."""
    PyObject_GC_UnTrack(<PyObject *>container)
    return 0
