cimport cython

from cpython.object cimport PyTypeObject

cdef extern from "Python.h":
    PyTypeObject PyUnicode_Type, PyLong_Type, PyFloat_Type, PyBool_Type, PyBytes_Type
    PyTypeObject *Py_TYPE(object value)

cdef enum:
    UNCHANGING = 0
    NAMED_TUPLE = 1
    FROZEN = 2
    INSTANCE = 3
    DEEPCOPY = 4
    ROW = 5
    # Kind of builtin containers, which have no plan.
    BUILTIN = 6


cdef inline bint is_atom(object value) noexcept:
    cdef PyTypeObject *cls = Py_TYPE(value)
    return (
        cls == &PyUnicode_Type or cls == &PyLong_Type or cls == &PyFloat_Type
        or value is None or cls == &PyBool_Type or cls == &PyBytes_Type
    )


cdef bint is_instance_of_atoms(object value) except -1
cdef int kind_of(object value) except -1
cdef bint is_fixed(object value) except -1
cpdef bint never_changes(object value) except -1


@cython.final
cdef class ValueCopier:
    cdef readonly str where

    cpdef object copied(self, object value)
    cpdef list copied_all(self, object values)
