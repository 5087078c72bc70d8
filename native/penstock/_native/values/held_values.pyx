"""Detects values of a state that are held elsewhere.

Twin of ``penstock.taskexecutor.copies.held_values``, which explains the method.
"""

from cpython.dict cimport PyDict_Next
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from penstock._native.values.row cimport RowBase
from penstock._native.values.value_copies cimport (
    DEEPCOPY, INSTANCE, ROW, UNCHANGING, is_atom, is_fixed, is_instance_of_atoms, kind_of,
)
from penstock._native.wire.failure cimport fail_memory

from penstock.taskexecutor.copies.copy_plans import parts_of

ctypedef int (*Visit)(PyObject *, void *) noexcept
ctypedef int (*Traverse)(PyObject *, Visit, void *) noexcept

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject *value)
    PyTypeObject *Py_TYPE(PyObject *value)
    bint PyType_Check(object value)
    bint PyObject_IS_GC(PyObject *value)
    object PyLong_FromVoidPtr(void *pointer)

cdef enum:
    FEW = 64


cdef struct Stack:
    PyObject *few[FEW]
    PyObject **items    # owned
    Py_ssize_t count
    Py_ssize_t capacity


cdef void begin(Stack *parts) noexcept:
    parts.items = parts.few
    parts.count = 0
    parts.capacity = FEW


cdef void end(Stack *parts) noexcept:
    while parts.count > 0:
        parts.count -= 1
        Py_DECREF(<object>parts.items[parts.count])
    if parts.items != parts.few:
        free(parts.items)


cdef int push(PyObject *part, void *stack) noexcept:
    """Push a mutable part to a stack; called while its owner is traversed."""
    cdef Stack *parts = <Stack *>stack
    cdef PyObject **items
    if is_atom(<object>part) or PyType_Check(<object>part):
        return 0
    if parts.count == parts.capacity:
        items = <PyObject **>malloc(2 * parts.capacity * sizeof(PyObject *))
        if items == NULL:
            return -1
        memcpy(items, parts.items, parts.count * sizeof(PyObject *))
        if parts.items != parts.few:
            free(parts.items)
        parts.items = items
        parts.capacity *= 2
    Py_INCREF(<object>part)
    parts.items[parts.count] = part
    parts.count += 1
    return 0


cdef int push_parts(Stack *parts, PyObject *value, int kind) except -1:
    """Push the parts of a value."""
    cdef object part
    if kind == ROW and isinstance(<object>value, RowBase):
        # Rows may share the list of names, which never changes.
        for part in (<RowBase><object>value).values:
            if push(<PyObject *>part, parts) < 0:
                return fail_memory()
    elif kind == DEEPCOPY:
        for part in parts_of(<object>value):
            if push(<PyObject *>part, parts) < 0:
                return fail_memory()
    elif PyObject_IS_GC(value):
        if (<Traverse>(<void *>Py_TYPE(value).tp_traverse))(value, &push, parts) < 0:
            return fail_memory()
    return 0


cdef bint has_atoms_alone(PyObject *value, int kind) except -1:
    """Return whether a value visibly holds only atoms, as most do."""
    cdef PyObject *key
    cdef PyObject *item
    cdef Py_ssize_t position = 0
    if type(<object>value) is dict:
        while PyDict_Next(<object>value, &position, &key, &item):
            if not is_atom(<object>key) or not is_atom(<object>item):
                return False
        return True
    if type(<object>value) is list:
        for position in range(PyList_GET_SIZE(<object>value)):
            if not is_atom(<object>PyList_GET_ITEM(<object>value, position)):
                return False
        return True
    if kind == ROW and isinstance(<object>value, RowBase):
        # Rows may share the list of names, which never changes.
        for item_of_row in (<RowBase><object>value).values:
            if not is_atom(item_of_row):
                return False
        return True
    return kind == INSTANCE and is_instance_of_atoms(<object>value)


cpdef bint is_held(tuple holder, Py_ssize_t place) except -1:
    """Return whether another owner beside a state may change the value at a place of a tuple."""
    cdef PyObject *value = <PyObject *>PyTuple_GET_ITEM(holder, place)
    return is_held_value(value, Py_REFCNT(value) - 1)


cdef bint is_held_value(PyObject *value, Py_ssize_t owners) except -1:
    cdef Stack parts
    cdef PyObject *part
    cdef int kind = kind_of(<object>value)
    if kind == UNCHANGING:
        return False
    if owners > 1:
        return not is_fixed(<object>value)
    if has_atoms_alone(value, kind):
        return False
    if owners == 1:
        return has_held_parts(value, kind)
    # No other reference to the value exists, but the state may refer to its parts.
    begin(&parts)
    try:
        push_parts(&parts, value, kind)
        while parts.count > 0:
            parts.count -= 1
            part = parts.items[parts.count]
            try:
                # One of its references is the stack's, which this function takes over, and one is
                # its owner's.
                if is_held_value(part, Py_REFCNT(part) - 2):
                    return True
            finally:
                Py_DECREF(<object>part)
    finally:
        end(&parts)
    return False


cdef bint has_held_parts(PyObject *value, int kind) except -1:
    """Return whether a mutable part of a value has an owner outside of the value."""
    cdef Stack parts
    cdef PyObject *part
    cdef dict visits = None     # by address, how often a part with several owners was visited
    cdef list shared = None     # these parts
    cdef object place
    cdef Py_ssize_t i
    cdef int kind_of_part
    begin(&parts)
    try:
        push_parts(&parts, value, kind)
        while parts.count > 0:
            parts.count -= 1
            part = parts.items[parts.count]
            try:
                kind_of_part = UNCHANGING if part == value else kind_of(<object>part)
                if kind_of_part == UNCHANGING:
                    continue
                if Py_REFCNT(part) > 2:
                    if visits is None:
                        visits, shared = {}, []
                    place = PyLong_FromVoidPtr(part)
                    if place in visits:
                        visits[place] += 1
                        continue
                    visits[place] = 1
                    shared.append(<object>part)
                if not has_atoms_alone(part, kind_of_part):
                    push_parts(&parts, part, kind_of_part)
            finally:
                Py_DECREF(<object>part)
        if shared is None:
            return False
        for i in range(len(shared)):
            part = <PyObject *>PyList_GET_ITEM(shared, i)
            # The list is an owner, too.
            if Py_REFCNT(part) - 1 > visits[PyLong_FromVoidPtr(part)]:
                if not is_fixed(<object>part):
                    return True
    finally:
        end(&parts)
    return False
