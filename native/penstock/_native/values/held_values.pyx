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
    const Py_ssize_t PY_SSIZE_T_MAX
    Py_ssize_t Py_REFCNT(PyObject *value)
    PyTypeObject *Py_TYPE(PyObject *value)
    bint PyType_Check(object value)
    bint PyObject_IS_GC(PyObject *value)
    object PyLong_FromVoidPtr(void *pointer)

cdef enum:
    FEW = 64
    NO_MEMORY = -1
    NO_MORE = -2


cdef struct Stack:
    PyObject *few[FEW]
    PyObject **items    # owned
    Py_ssize_t count
    Py_ssize_t capacity
    Py_ssize_t *left    # the number of parts that may still be visited


cdef void begin(Stack *parts, Py_ssize_t *left) noexcept:
    parts.items = parts.few
    parts.count = 0
    parts.capacity = FEW
    parts.left = left


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
    if parts.left[0] <= 0:
        return NO_MORE
    parts.left[0] -= 1
    if is_atom(<object>part) or PyType_Check(<object>part):
        return 0
    if parts.count == parts.capacity:
        items = <PyObject **>malloc(2 * parts.capacity * sizeof(PyObject *))
        if items == NULL:
            return NO_MEMORY
        memcpy(items, parts.items, parts.count * sizeof(PyObject *))
        if parts.items != parts.few:
            free(parts.items)
        parts.items = items
        parts.capacity *= 2
    Py_INCREF(<object>part)
    parts.items[parts.count] = part
    parts.count += 1
    return 0


cdef bint push_parts(Stack *parts, PyObject *value, int kind) except -1:
    """Push the parts of a value; return False if there are more than may be visited."""
    cdef object part
    cdef object found = None
    cdef int status = 0
    if kind == ROW and isinstance(<object>value, RowBase):
        # Rows may share the list of names, which never changes.
        found = (<RowBase><object>value).values
    elif kind == DEEPCOPY:
        found = parts_of(<object>value)
    elif PyObject_IS_GC(value):
        status = (<Traverse>(<void *>Py_TYPE(value).tp_traverse))(value, &push, parts)
    if found is not None:
        for part in found:
            status = push(<PyObject *>part, parts)
            if status < 0:
                break
    if status == NO_MEMORY:
        fail_memory()
    return status == 0


cdef bint has_atoms_alone(PyObject *value, int kind, Py_ssize_t most) except -1:
    """Return whether a value visibly holds only atoms, at most so many, as most values do."""
    cdef PyObject *key
    cdef PyObject *item
    cdef Py_ssize_t position = 0
    if type(<object>value) is dict:
        if len(<dict>value) > most:
            return False
        while PyDict_Next(<object>value, &position, &key, &item):
            if not is_atom(<object>key) or not is_atom(<object>item):
                return False
        return True
    if type(<object>value) is list:
        if PyList_GET_SIZE(<object>value) > most:
            return False
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
    cdef Py_ssize_t left = PY_SSIZE_T_MAX
    return held_by(value, Py_REFCNT(value) - 1, &left) == HELD


cdef Holder held_by(PyObject *value, Py_ssize_t owners, Py_ssize_t *left) except UNSET:
    cdef Stack parts
    cdef PyObject *part
    cdef Holder found
    cdef int kind = kind_of(<object>value)
    if kind == UNCHANGING:
        return STATE
    if owners > 1:
        return STATE if is_fixed(<object>value) else HELD
    if has_atoms_alone(value, kind, left[0]):
        return STATE
    if owners == 1:
        return holder_of_parts(value, kind, left)
    # No other reference to the value exists, but the state may refer to its parts.
    begin(&parts, left)
    try:
        if not push_parts(&parts, value, kind):
            return MANY
        while parts.count > 0:
            parts.count -= 1
            part = parts.items[parts.count]
            try:
                # One of its references is the stack's, which this function takes over, and one is
                # its owner's.
                found = held_by(part, Py_REFCNT(part) - 2, left)
                if found != STATE:
                    return found
            finally:
                Py_DECREF(<object>part)
    finally:
        end(&parts)
    return STATE


cdef Holder holder_of_parts(PyObject *value, int kind, Py_ssize_t *left) except UNSET:
    """Return whether a mutable part of a value has an owner outside of the value."""
    cdef Stack parts
    cdef PyObject *part
    cdef dict visits = None     # by address, how often a part with several owners was visited
    cdef list shared = None     # these parts
    cdef object place
    cdef Py_ssize_t i
    cdef int kind_of_part
    begin(&parts, left)
    try:
        if not push_parts(&parts, value, kind):
            return MANY
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
                if has_atoms_alone(part, kind_of_part, left[0]):
                    continue
                if not push_parts(&parts, part, kind_of_part):
                    return MANY
            finally:
                Py_DECREF(<object>part)
        if shared is None:
            return STATE
        for i in range(len(shared)):
            part = <PyObject *>PyList_GET_ITEM(shared, i)
            # The list is an owner, too.
            if Py_REFCNT(part) - 1 > visits[PyLong_FromVoidPtr(part)]:
                if not is_fixed(<object>part):
                    return HELD
    finally:
        end(&parts)
    return STATE
