"""Copies of values for their receivers.

Twin of ``penstock.taskexecutor.compiled.value_copies``.

A copy keeps no record of its parts as long as every part has a single owner, as the reference
counts tell: most values are trees.  A part with several owners may be met again, and is noted in a
memo of the form that ``copy.deepcopy`` uses.
"""

cimport cython
from cpython.bytearray cimport (
    PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE,
)
from cpython.dict cimport PyDict_Copy, PyDict_GetItem, PyDict_Next
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.tuple cimport PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc

from penstock._native.values.row cimport RowBase, make_row

import copy

from penstock.taskexecutor.copies import copy_plans

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object value)
    int PyObject_GenericSetAttr(object value, object name, object attribute) except -1
    object PyObject_GenericGetDict(object value, void *context)
    object PyLong_FromVoidPtr(void *pointer)
    PyObject *Py_NewRef(PyObject *value)

cdef extern from "values/instance_values.h":
    bint ps_may_have_values(PyTypeObject *cls) noexcept
    int ps_value_count(PyObject *instance) noexcept
    PyObject *ps_value_set(PyObject *instance, int i, uint8_t *place) noexcept
    bint ps_set_value_at(PyObject *instance, uint8_t place, PyObject *value) noexcept
    Py_ssize_t ps_slot_offset(PyTypeObject *cls, object name) noexcept

ctypedef object (*New)(PyTypeObject *, PyObject *, PyObject *)

cdef enum:
    # The owner's reference and the one of the variable that holds the part while it is copied.
    ONE_OWNER = 2
    # copy.deepcopy handles deeper values; it follows tuples that contain themselves.
    DEEPEST = 200

cdef object deepcopy = copy.deepcopy
cdef object plan_of = copy_plans.plan_of


@cython.final
cdef class Plan:
    """A ``CopyPlan``."""

    cdef int kind
    cdef tuple slots
    cdef bint has_dict
    # Whether the attributes of an instance may be stored where copying them needs no dict.
    cdef bint has_values
    # For the slots; NULL if one is more than a plain slot.
    cdef Py_ssize_t *offsets

    def __cinit__(self, plan, cls):
        cdef Py_ssize_t i
        self.kind = plan.kind
        self.slots = plan.slots
        self.has_dict = plan.has_dict
        self.has_values = plan.has_dict and ps_may_have_values(<PyTypeObject *>cls)
        self.offsets = <Py_ssize_t *>malloc((len(plan.slots) + 1) * sizeof(Py_ssize_t))
        if self.offsets == NULL:
            raise MemoryError
        for i in range(len(plan.slots)):
            self.offsets[i] = ps_slot_offset(<PyTypeObject *>cls, plan.slots[i])
            if self.offsets[i] == 0:
                free(self.offsets)
                self.offsets = NULL
                return

    def __dealloc__(self):
        free(self.offsets)


# By class.  A class of the program is kept forever, since the process belongs to the job.
cdef dict PLANS = {cls: Plan(copy_plans.CopyPlan(UNCHANGING), cls)
                   for cls in copy_plans.UNCHANGING_CLASSES}


class _TooDeepError(Exception):
    """A value is nested deeper than ``DEEPEST``, perhaps endlessly."""


cdef struct State:
    # The outermost container, borrowed, and its copy, owned.
    PyObject *root
    PyObject *root_copy
    # A dict, owned; NULL until a part has several owners.
    PyObject *memo


cdef object memo_of(State *state):
    cdef dict memo
    if state.memo == NULL:
        memo = {}
        if state.root != NULL:
            memo[PyLong_FromVoidPtr(state.root)] = <object>state.root_copy
        Py_INCREF(memo)
        state.memo = <PyObject *>memo
    return <object>state.memo


cdef int remember(State *state, object original, object made) except -1:
    """Record a copy before its parts are copied; the first one is the outermost container."""
    if state.root == NULL:
        state.root = <PyObject *>original
        Py_INCREF(made)
        state.root_copy = <PyObject *>made
    elif Py_REFCNT(original) > ONE_OWNER:
        (<dict>memo_of(state))[PyLong_FromVoidPtr(<PyObject *>original)] = made
    return 0


cdef inline PyObject *recall(State *state, object original) except? NULL:
    """Return the copy of a part that was met before, borrowed; NULL if there is none."""
    if state.root == <PyObject *>original:
        return state.root_copy
    if state.memo == NULL or Py_REFCNT(original) <= ONE_OWNER:
        return NULL
    return PyDict_GetItem(
        <dict>state.memo, PyLong_FromVoidPtr(<PyObject *>original)
    )


# A variable always holds the part being copied: ONE_OWNER counts it.
cdef object copy_of(State *state, object value, int depth):
    cdef PyObject *known
    if is_atom(value):
        return value
    if depth >= DEEPEST:
        raise _TooDeepError
    if type(value) is tuple:
        return copy_tuple(state, <tuple>value, depth)
    known = recall(state, value)
    if known != NULL:
        return <object>known
    if type(value) is list:
        return copy_list(state, <list>value, depth)
    if type(value) is dict:
        return copy_dict(state, <dict>value, depth)
    if type(value) is set:
        return copy_set(state, value, depth)
    return copy_other(state, value, depth)


cdef object copy_tuple(State *state, tuple value, int depth):
    cdef Py_ssize_t i, count = PyTuple_GET_SIZE(value)
    cdef object item, made
    cdef tuple result = None
    cdef PyObject *known
    for i in range(count):
        item = <object>value[i]
        if is_atom(item):
            continue
        if result is None:
            known = recall(state, value)
            if known != NULL:
                return <object>known
        made = copy_of(state, item, depth + 1)
        if made is item:
            continue
        if result is None:
            result = tuple_like(value)
        replace(result, i, made)
    return value if result is None else remembered(state, value, result)


cdef tuple tuple_like(tuple value):
    cdef Py_ssize_t i, count = PyTuple_GET_SIZE(value)
    cdef tuple result = PyTuple_New(count)
    cdef object item
    for i in range(count):
        item = <object>value[i]
        Py_INCREF(item)
        PyTuple_SET_ITEM(result, i, item)
    return result


cdef int replace(tuple values, Py_ssize_t i, object item) except -1:
    """Set an item of a tuple that no other code has seen."""
    cdef object before = <object>values[i]
    Py_INCREF(item)
    PyTuple_SET_ITEM(values, i, item)
    Py_XDECREF(<PyObject *>before)
    return 0


cdef object copy_list(State *state, list value, int depth):
    cdef Py_ssize_t i, count = PyList_GET_SIZE(value)
    cdef object item
    cdef list result = []
    remember(state, value, result)
    for i in range(count):
        if i >= PyList_GET_SIZE(value):
            raise RuntimeError("a list changed size while it was copied")
        item = <object>value[i]
        if not is_atom(item):
            item = copy_of(state, item, depth + 1)
        result.append(item)
    return result


cdef bint has_atomic_items(dict value) noexcept:
    cdef PyObject *key
    cdef PyObject *item
    cdef Py_ssize_t position = 0
    while PyDict_Next(value, &position, &key, &item):
        if not is_atom(<object>key) or not is_atom(<object>item):
            return False
    return True


cdef object copy_dict(State *state, dict value, int depth):
    cdef dict result
    if has_atomic_items(value):
        result = PyDict_Copy(value)
        remember(state, value, result)
        return result
    result = {}
    remember(state, value, result)
    copy_items(state, value, result, depth)
    return result


cdef int copy_items(State *state, dict value, dict result, int depth) except -1:
    cdef object key, item
    for key, item in value.items():
        result[key if is_atom(key) else copy_of(state, key, depth + 1)] = (
            item if is_atom(item) else copy_of(state, item, depth + 1)
        )
    return 0


cdef object copy_set(State *state, set value, int depth):
    cdef set result = set()
    cdef object item
    remember(state, value, result)
    for item in value:
        result.add(item if is_atom(item) else copy_of(state, item, depth + 1))
    return result


cdef Plan plan_for(object value):
    cdef object cls = type(value)
    cdef PyObject *found = PyDict_GetItem(PLANS, cls)
    cdef Plan plan
    if found != NULL:
        return <Plan>found
    plan = Plan(plan_of(value), cls)
    PLANS[cls] = plan
    return plan


cdef object copy_other(State *state, object value, int depth):
    cdef Plan plan
    cdef object made
    cls = type(value)
    if cls is frozenset:
        return copy_frozenset(state, value, depth)
    if cls is bytearray:
        made = PyByteArray_FromStringAndSize(
            PyByteArray_AS_STRING(value), PyByteArray_GET_SIZE(value)
        )
        remember(state, value, made)
        return made
    plan = plan_for(value)
    if plan.kind == UNCHANGING:
        return value
    if plan.kind == NAMED_TUPLE:
        return copy_named_tuple(state, cls, value, depth)
    if plan.kind == FROZEN:
        return copy_frozen(state, plan, value, depth)
    if plan.kind == INSTANCE:
        made = instance_of(cls)
        remember(state, value, made)
        set_attributes(state, plan, value, made, depth)
        return made
    if plan.kind == ROW and isinstance(value, RowBase):
        return copy_row(state, <RowBase>value, depth)
    return deepcopy(value, memo_of(state))


cdef object copy_row(State *state, RowBase row, int depth):
    cdef list values = []
    cdef object item, made = make_row(row.names, values, row.kind)
    remember(state, row, made)
    for item in row.values:
        values.append(item if is_atom(item) else copy_of(state, item, depth + 1))
    return made


cdef object copy_frozenset(State *state, object value, int depth):
    cdef bint changed = False
    cdef set result = set()
    cdef object item, made
    for item in value:
        made = item if is_atom(item) else copy_of(state, item, depth + 1)
        changed = changed or made is not item
        result.add(made)
    if not changed:
        return value
    return remembered(state, value, frozenset(result))


cdef object copy_named_tuple(State *state, object cls, object value, int depth):
    cdef list parts = []
    cdef bint changed = False
    cdef object item, made
    for item in <tuple>value:
        made = item if is_atom(item) else copy_of(state, item, depth + 1)
        changed = changed or made is not item
        parts.append(made)
    if not changed:
        return value
    return remembered(state, value, tuple.__new__(cls, parts))


cdef object copy_frozen(State *state, Plan plan, object value, int depth):
    """Return the instance itself if its attributes are immutable, else a copy."""
    cdef object name, item, made
    cdef list slots = [], parts = []
    cdef dict attributes
    cdef bint changed = False
    cdef Py_ssize_t i
    if plan.has_values and not plan.slots and has_atomic_values(value):
        return value
    for name in plan.slots:
        item = getattr(value, name, plan)
        if item is not plan:
            made = item if is_atom(item) else copy_of(state, item, depth + 1)
            changed = changed or made is not item
            slots.append(name)
            parts.append(made)
    attributes = PyObject_GenericGetDict(value, NULL) if plan.has_dict else None
    if attributes is not None:
        for item in attributes.values():
            made = item if is_atom(item) else copy_of(state, item, depth + 1)
            changed = changed or made is not item
            parts.append(made)
    if not changed:
        return value
    made = instance_of(type(value))
    for i in range(len(slots)):
        PyObject_GenericSetAttr(made, slots[i], parts[i])
    if attributes is not None:
        PyObject_GenericGetDict(made, NULL).update(zip(attributes, parts[len(slots):]))
    return remembered(state, value, made)


cdef inline object instance_of(object cls):
    return (<New><void *>(<PyTypeObject *>cls).tp_new)(<PyTypeObject *>cls, <PyObject *>(), NULL)


cdef object remembered(State *state, object original, object made):
    """Record the copy of a value that can only be copied after its parts.

    Returns:
        The copy, or the one that the parts have created if they refer back to the value.
    """
    cdef PyObject *known = recall(state, original)
    if known != NULL:
        return <object>known
    if Py_REFCNT(original) > ONE_OWNER:
        (<dict>memo_of(state))[PyLong_FromVoidPtr(<PyObject *>original)] = made
    return made


cdef int set_attributes(State *state, Plan plan, object value, object made, int depth) except -1:
    if plan.offsets != NULL:
        copy_slots(state, plan, value, made, depth)
    else:
        copy_gotten(state, plan, value, made, depth)
    if not plan.has_dict:
        return 0
    if plan.has_values and ps_value_count(<PyObject *>value) >= 0:
        return copy_values(state, value, made, depth)
    return copy_attributes(state, value, made, depth)


cdef int copy_slots(State *state, Plan plan, object value, object made, int depth) except -1:
    cdef PyObject *held
    cdef PyObject **slot
    cdef object item
    cdef Py_ssize_t i
    for i in range(PyTuple_GET_SIZE(plan.slots)):
        held = (<PyObject **>(<char *><PyObject *>value + plan.offsets[i]))[0]
        if held == NULL:
            continue
        item = <object>held
        if not is_atom(item):
            item = copy_of(state, item, depth + 1)
        slot = <PyObject **>(<char *><PyObject *>made + plan.offsets[i])
        # Already set only if a part that refers back here set it, by code of its class.
        held = slot[0]
        slot[0] = Py_NewRef(<PyObject *>item)
        Py_XDECREF(held)
    return 0


cdef int copy_gotten(State *state, Plan plan, object value, object made, int depth) except -1:
    cdef object name, item
    for name in plan.slots:
        item = getattr(value, name, plan)
        if item is not plan:
            PyObject_GenericSetAttr(made, name, copy_of(state, item, depth + 1))
    return 0


cdef int copy_values(State *state, object value, object made, int depth) except -1:
    """Copy the attributes of an instance without a dict, without creating one for the copy."""
    cdef int i, count = ps_value_count(<PyObject *>value)
    cdef uint8_t place = 0
    cdef object item
    for i in range(count):
        if ps_value_count(<PyObject *>value) != count:
            raise RuntimeError("the attributes of an instance changed while they were copied")
        item = <object>ps_value_set(<PyObject *>value, i, &place)
        if not is_atom(item):
            item = copy_of(state, item, depth + 1)
        if not ps_set_value_at(<PyObject *>made, place, Py_NewRef(<PyObject *>item)):
            Py_XDECREF(<PyObject *>item)
            return copy_attributes(state, value, made, depth)
    return 0


cdef int copy_attributes(State *state, object value, object made, int depth) except -1:
    """Copy the attributes of any instance to one that may have some."""
    return copy_items(
        state, PyObject_GenericGetDict(value, NULL), PyObject_GenericGetDict(made, NULL), depth
    )


cdef bint has_atomic_values(object value) noexcept:
    """Return whether an instance has no dict, and immutable attributes."""
    cdef int i, count = ps_value_count(<PyObject *>value)
    cdef uint8_t place = 0
    for i in range(count):
        if not is_atom(<object>ps_value_set(<PyObject *>value, i, &place)):
            return False
    return count >= 0


cdef bint has_atoms_alone(tuple value) noexcept:
    cdef Py_ssize_t i
    for i in range(PyTuple_GET_SIZE(value)):
        if not is_atom(<object>value[i]):
            return False
    return True


@cython.final
cdef class ValueCopier:
    """Copies mutable values, with all mutable parts in them.

    Within a value, shared parts stay shared, and cycles stay cycles in the copy.
    """

    def __cinit__(self, str where):
        """Create a copier; ``where`` names the sender of the values in messages."""
        self.where = where

    cpdef object copied(self, object value):
        """Return a value that changes of ``value`` do not affect: itself if it is immutable."""
        if is_atom(value) or (type(value) is tuple and has_atoms_alone(<tuple>value)):
            return value
        return whole_copy(self, value)

    cpdef list copied_all(self, object values):
        """Return copies of all values of an iterable; shared parts are copied for each."""
        return [self.copied(value) for value in values]


cdef object whole_copy(ValueCopier copier, object value):
    cdef State state
    state.root = state.root_copy = state.memo = NULL
    try:
        try:
            return copy_of(&state, value, 0)
        except _TooDeepError:
            return deepcopy(value)
    except Exception as error:
        raise copy_plans.cannot_be_copied(copier.where, value, error) from error
    finally:
        Py_XDECREF(state.root_copy)
        Py_XDECREF(state.memo)


cdef int kind_of(object value) except -1:
    """Return the way in which a value is copied."""
    cdef object cls = type(value)
    if cls is list or cls is dict or cls is tuple or cls is set or cls is frozenset:
        return BUILTIN
    if cls is bytearray:
        return BUILTIN
    return UNCHANGING if is_atom(value) else plan_for(value).kind


cdef bint is_instance_of_atoms(object value) except -1:
    """Return whether an instance without slots has no dict, and attributes that are atoms."""
    cdef Plan plan = plan_for(value)
    return plan.has_values and not plan.slots and has_atomic_values(value)


cdef bint is_fixed(object value) except -1:
    """Return whether neither a value nor anything in it ever changes."""
    cdef State state
    cdef object cls = type(value)
    cdef int kind = kind_of(value)
    if kind == UNCHANGING:
        return True
    if cls is not tuple and cls is not frozenset and kind != NAMED_TUPLE and kind != FROZEN:
        return False
    state.root = state.root_copy = state.memo = NULL
    try:
        return copy_of(&state, value, 0) is value
    except Exception:
        return False
    finally:
        Py_XDECREF(state.root_copy)
        Py_XDECREF(state.memo)


cpdef bint never_changes(object value) except -1:
    """Return whether a value is visibly immutable; see the pure twin."""
    return (
        is_atom(value)
        or (type(value) is tuple and has_atoms_alone(<tuple>value))
        or kind_of(value) == UNCHANGING
    )
