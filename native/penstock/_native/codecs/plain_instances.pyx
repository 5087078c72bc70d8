"""Encoding of instances, as ``penstock.serialization.instance_fields`` describes."""

import enum

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Copy, PyDict_GetItem, PyDict_Next, PyDict_Size
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_FromDouble
from cpython.list cimport PyList_GET_SIZE, PyList_GetSlice
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.set cimport PyFrozenSet_New, PySet_New
from cpython.tuple cimport PyTuple_GET_SIZE, PyTuple_GetSlice

from penstock._native.codecs.instances cimport (
    BUILTIN, COLLECTION, DICT, NAMED_TUPLE, SLOTS, form_of_class, values_of,
)

from penstock._native.codecs.models cimport rest_stands_alone
from penstock._native.codecs.standard_collections cimport elements_of

from penstock.serialization import instance_fields as pure

cdef extern from "Python.h":
    PyTypeObject *Py_TYPE(object value)
    bint PyType_IsSubtype(PyTypeObject *cls, PyTypeObject *base)
    PyObject *PyTuple_GET_ITEM(object values, Py_ssize_t index)
    object PyObject_GenericGetDict(object value, void *context)
    object PyUnicode_FromObject(object text)
    object PyNumber_Long(object value)

cdef extern from "values/instance_values.h":
    bint ps_has_attributes(PyObject *instance) noexcept

cdef enum:
    TYPES = 16

cdef PyTypeObject *scalar_types[TYPES]
cdef int scalar_count = 0
cdef PyTypeObject *enum_type

if pure.MAX_PARTS != PARTS:
    raise ImportError(f"instances may hold {pure.MAX_PARTS} parts, not {PARTS}")
if len(pure.SCALARS) > TYPES:
    raise ImportError(f"there are {len(pure.SCALARS)} types of scalars, and room for {TYPES}")
for _scalar in pure.SCALARS:
    # Kept forever, since it is compared by its address.
    Py_INCREF(_scalar)
    scalar_types[scalar_count] = <PyTypeObject *>_scalar
    scalar_count += 1
enum_type = <PyTypeObject *>enum.Enum
cdef object int_of = int.__int__


cdef bint is_other_scalar(object value) noexcept:
    cdef PyTypeObject *cls = Py_TYPE(value)
    cdef int i
    for i in range(scalar_count):
        if scalar_types[i] == cls:
            return True
    return PyType_IsSubtype(cls, enum_type)


cdef inline bint is_scalar(object value) noexcept:
    # These are most attributes.
    if type(value) is str or type(value) is int or type(value) is float or value is None:
        return True
    return is_other_scalar(value)


cdef bint stands_alone(object value, Parts *known) except -1:
    return is_scalar(value) or stands_alone_as_part(value, known)


cdef bint stands_alone_as_part(object value, Parts *known) except -1:
    cdef ClassForm form = None
    if type(value) is tuple:
        if PyTuple_GET_SIZE(value) == 0:
            return True  # there is only one
    elif not (
        type(value) is list or type(value) is dict or type(value) is set
        or type(value) is frozenset
    ):
        form = form_of_class(type(value))
        if form.kind == COLLECTION:
            return is_new(<PyObject *>value, known) and elements_stand_alone(value, known)
        if form.kind > SLOTS and form.kind != BUILTIN:
            return False
        if isinstance(value, (str, int, float, bytes)):
            return not ps_has_attributes(<PyObject *>value)
    if not is_new(<PyObject *>value, known):
        return False
    if form is None:
        return parts_stand_alone(value, known)
    if form.kind == BUILTIN:
        return not ps_has_attributes(<PyObject *>value) and parts_stand_alone(value, known)
    return fields_stand_alone(form, value, known)


cdef bint elements_stand_alone(object value, Parts *known) except -1:
    """Return whether all contents of a standard-library collection are known and stand alone."""
    cdef object elements = elements_of(value)
    return elements is not None and parts_stand_alone(elements, known)


cdef bint is_new(PyObject *part, Parts *known) noexcept:
    """Record a part; return False if it has been met or there is no room."""
    cdef size_t hash = <size_t>part >> 4 ^ <size_t>part >> 12
    cdef uint64_t bit = <uint64_t>1 << (hash & 63)
    cdef size_t word = hash >> 6 & (SEEN_WORDS - 1)
    cdef int i
    if known.count == 0:
        for i in range(SEEN_WORDS):
            known.seen[i] = 0
    elif known.count == PARTS:
        return False
    elif known.seen[word] & bit:
        for i in range(known.count):
            if known.met[i] == part:
                return False
    known.seen[word] |= bit
    known.met[known.count] = part
    known.count += 1
    return True


cdef bint parts_stand_alone(object value, Parts *known) except -1:
    """Return whether the elements of a collection, or of a subclass instance, stand alone."""
    cdef object element
    cdef Py_ssize_t i = 0
    cdef PyObject *key
    cdef PyObject *item
    if isinstance(value, list):
        # It may change meanwhile: classes are checked here.
        while i < PyList_GET_SIZE(value):
            element = <object>(<list>value)[i]
            if not is_scalar(element) and not stands_alone_as_part(element, known):
                return False
            i += 1
    elif isinstance(value, tuple):
        for i in range(PyTuple_GET_SIZE(value)):
            element = <object>PyTuple_GET_ITEM(value, i)
            if not is_scalar(element) and not stands_alone_as_part(element, known):
                return False
    elif isinstance(value, dict):
        while PyDict_Next(value, &i, &key, &item):
            element = <object>item
            if not is_scalar(<object>key) and not stands_alone_as_part(<object>key, known):
                return False
            if not is_scalar(element) and not stands_alone_as_part(element, known):
                return False
    else:
        # Frozen or not, the layout is the same.
        for element in <set>value:
            if not is_scalar(element) and not stands_alone_as_part(element, known):
                return False
    return True


cdef bint fields_stand_alone(ClassForm form, object value, Parts *known) except -1:
    """Return whether an instance matches its class's layout, and its fields stand alone."""
    cdef PyObject **values = NULL
    cdef PyObject *field
    cdef object held, name, attributes = None
    cdef Py_ssize_t i
    if form.kind == NAMED_TUPLE:
        if PyTuple_GET_SIZE(value) != form.count:
            return False
    elif form.kind == DICT:
        values = values_of(form, value)
        if values == NULL:
            attributes = PyObject_GenericGetDict(value, NULL)
            if PyDict_Size(attributes) != form.count:
                return False
    for i in range(form.count):
        name = <object>PyTuple_GET_ITEM(form.names, i)
        if form.kind == NAMED_TUPLE:
            field = PyTuple_GET_ITEM(value, i)
        elif values != NULL:
            field = values[form.places.places[i]]
        elif form.kind == DICT:
            field = PyDict_GetItem(attributes, name)
        elif form.offsets != NULL:
            field = (<PyObject **>(<char *><PyObject *>value + form.offsets[i]))[0]
        else:
            held = getattr(value, name, form)
            if held is form or not stands_alone(held, known):
                return False
            continue
        if field == NULL:
            return False
        held = <object>field
        if not stands_alone(held, known):
            return False
    if values == NULL and form.is_plain and form.kind == DICT and not in_order(form, attributes):
        return False
    return not form.is_model or rest_stands_alone(form, value, known)


cdef bint in_order(ClassForm form, object attributes) except -1:
    """Return whether a dict has a class's names in order, by identity or equality."""
    cdef PyObject *name
    cdef PyObject *_
    cdef Py_ssize_t i = 0, position = 0
    while PyDict_Next(attributes, &position, &name, &_):
        if (
            name != PyTuple_GET_ITEM(form.names, i)
            and <object>name != <object>PyTuple_GET_ITEM(form.names, i)
        ):
            return False
        i += 1
    return True


cdef object builtin_of(ClassForm form, object value):
    if ps_has_attributes(<PyObject *>value):
        return None
    if isinstance(value, str):
        return PyUnicode_FromObject(value)
    if isinstance(value, int):
        return int_of(value)
    if isinstance(value, float):
        return PyFloat_FromDouble(PyFloat_AS_DOUBLE(value))
    if isinstance(value, bytes):
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    if isinstance(value, tuple):
        return PyTuple_GetSlice(value, 0, PyTuple_GET_SIZE(value))
    if isinstance(value, list):
        return PyList_GetSlice(value, 0, PyList_GET_SIZE(value))
    if isinstance(value, dict):
        return PyDict_Copy(value)
    return PySet_New(value) if isinstance(value, set) else PyFrozenSet_New(value)
