"""What instances of plain classes may hold, as ``penstock.serialization.plain_instances`` says."""

import enum

from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF

from penstock.serialization import plain_instances as plain

cdef extern from "Python.h":
    PyTypeObject *Py_TYPE(object value)
    bint PyType_IsSubtype(PyTypeObject *cls, PyTypeObject *base)

cdef enum:
    TYPES = 16

cdef PyTypeObject *scalar_types[TYPES]
cdef int scalar_count = 0
cdef PyTypeObject *enum_type

if plain.MAX_COLLECTIONS != COLLECTIONS:
    raise ImportError(f"instances may hold {plain.MAX_COLLECTIONS} collections, not {COLLECTIONS}")
if len(plain.SCALARS) > TYPES:
    raise ImportError(f"there are {len(plain.SCALARS)} types of scalars, and room for {TYPES}")
for _scalar in plain.SCALARS:
    # For good: it is compared by its address.
    Py_INCREF(_scalar)
    scalar_types[scalar_count] = <PyTypeObject *>_scalar
    scalar_count += 1
enum_type = <PyTypeObject *>enum.Enum


cdef inline bint is_scalar(object value) noexcept:
    # These are most attributes.
    if type(value) is str or type(value) is int or type(value) is float or value is None:
        return True
    return is_other_scalar(value)


cdef bint is_other_scalar(object value) noexcept:
    cdef PyTypeObject *cls = Py_TYPE(value)
    cdef int i
    for i in range(scalar_count):
        if scalar_types[i] == cls:
            return True
    return PyType_IsSubtype(cls, enum_type)


cdef bint stands_alone(object value, Collections *known) noexcept:
    return is_scalar(value) or is_new_collection(value, known)


cdef bint is_new_collection(object value, Collections *known) noexcept:
    """A collection of scalars that has not been met."""
    cdef int i
    if known.count == COLLECTIONS:
        return False
    for i in range(known.count):
        if known.met[i] == <PyObject *>value:
            return False
    known.met[known.count] = <PyObject *>value
    known.count += 1
    return holds_scalars(value)


cdef bint holds_scalars(object value) noexcept:
    cdef object element
    cdef Py_ssize_t position = 0
    cdef PyObject *key
    cdef PyObject *item
    if type(value) is list:
        for element in <list>value:
            if not is_scalar(element):
                return False
    elif type(value) is tuple:
        for element in <tuple>value:
            if not is_scalar(element):
                return False
    elif type(value) is dict:
        while PyDict_Next(value, &position, &key, &item):
            if not is_scalar(<object>key) or not is_scalar(<object>item):
                return False
    elif type(value) is set:
        for element in <set>value:
            if not is_scalar(element):
                return False
    elif type(value) is frozenset:
        for element in <frozenset>value:
            if not is_scalar(element):
                return False
    else:
        return False
    return True
