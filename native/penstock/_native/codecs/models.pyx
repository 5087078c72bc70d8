"""Parts of pydantic models besides their fields; see ``penstock.serialization.models``."""

from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.object cimport PyObject, PyTypeObject
from cpython.set cimport PySet_Add, PySet_Contains, PySet_GET_SIZE, PySet_New
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport int64_t

from penstock._native.codecs.dynamic_codec cimport (
    decode_dynamic, encode_dynamic, write_number, write_tuple_header,
)
from penstock._native.codecs.plain_instances cimport stands_alone
from penstock._native.wire.failure cimport fail_too_deep_value
from penstock._native.wire.limits cimport MAX_DEPTH

from penstock.serialization import models as pure

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(object values, Py_ssize_t index)
    PyObject *Py_NewRef(object value)
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1

cdef extern from "values/instance_values.h":
    Py_ssize_t ps_member_offset(PyTypeObject *cls, object name)

cdef enum:
    # The most fields with one bit each in an integer; Python writes the rest of larger models.
    MAX_BITS = 62

cdef object NAMES = ("__pydantic_fields_set__", "__pydantic_private__", "__pydantic_extra__")


cdef int find_slots(ClassForm form) except -1:
    cdef Py_ssize_t i
    for i in range(2 if pure.has_attachments(form.cls) else 0, -1, -1):
        form.model_slots[i] = ps_member_offset(<PyTypeObject *>form.cls, NAMES[i])
    form.every_field = frozenset(form.names)
    form.every_bit = ((<int64_t>1 << form.count) - 1) if form.count <= MAX_BITS else -1
    return 0


cdef inline PyObject **slot(ClassForm form, object value, int i) noexcept:
    return <PyObject **>(<char *><PyObject *>value + form.model_slots[i])


cdef int64_t mask_of(ClassForm form, object fields_set, object extra) except -2:
    """Return a bit for each field or extra attribute that was set; -1 if anything else was set."""
    cdef int64_t mask = 0
    cdef Py_ssize_t i, position = 0, count = 0
    cdef PyObject *name
    cdef PyObject *_
    for i in range(form.count):
        if PySet_Contains(fields_set, <object>PyTuple_GET_ITEM(form.names, i)):
            mask |= <int64_t>1 << i
            count += 1
    if extra is not None:
        i = form.count
        while PyDict_Next(extra, &position, &name, &_):
            if PySet_Contains(fields_set, <object>name):
                mask |= <int64_t>1 << i
                count += 1
            i += 1
    return mask if count == PySet_GET_SIZE(fields_set) else -1


cdef object fields_of(ClassForm form, int64_t mask, object extra):
    """Return the set of the names whose bits are set."""
    cdef object found = set()
    cdef Py_ssize_t i, position = 0
    cdef PyObject *name
    cdef PyObject *_
    for i in range(form.count):
        if mask >> i & 1:
            PySet_Add(found, <object>PyTuple_GET_ITEM(form.names, i))
    if extra is not None:
        i = form.count
        while PyDict_Next(extra, &position, &name, &_):
            if mask >> i & 1:
                PySet_Add(found, <object>name)
            i += 1
    return found


cdef inline bint is_dict_or_none(object value) noexcept:
    return value is None or type(value) is dict


cdef inline bint is_short(ClassForm form, object extra) noexcept:
    """Return whether the mask has a bit for every name."""
    return form.count + (0 if extra is None else PyDict_Size(extra)) <= MAX_BITS


cdef inline object held_in(ClassForm form, object value, int i):
    """Return private or extra attributes; the form itself if they were never set."""
    cdef PyObject *held = <PyObject *>None
    if form.model_slots[i] != 0:
        held = slot(form, value, i)[0]
    return form if held == NULL else <object>held


cdef bint write_rest(
    Writer *writer, ClassForm form, object value, Parts *met, int depth
) except -1:
    cdef object private = held_in(form, value, 1), extra = held_in(form, value, 2)
    cdef PyObject *fields_set = slot(form, value, 0)[0]
    cdef int64_t mask
    if not is_rest(form, fields_set, private, extra, met):
        return False
    if not is_short(form, extra):
        rest = pure.rest_of(value, form.names)
        if rest is not None:
            encode_dynamic(writer, rest, depth + 1)
        return rest is not None
    mask = mask_of(form, <object>fields_set, extra)
    if mask < 0:
        return False
    if private is not None or extra is not None:
        if depth + 1 >= MAX_DEPTH:
            fail_too_deep_value()
        write_tuple_header(writer, 3)
        write_number(writer, mask)
        encode_dynamic(writer, private, depth + 2)
        encode_dynamic(writer, extra, depth + 2)
    else:
        write_number(writer, mask)
    return True


cdef inline bint is_rest(
    ClassForm form, PyObject *fields_set, object private, object extra, Parts *met
) except -1:
    """Return whether the parts have their usual types, and stand alone."""
    return (
        fields_set != NULL and type(<object>fields_set) is set
        and is_dict_or_none(private) and is_dict_or_none(extra)
        and (private is None or stands_alone(private, met))
        and (extra is None or stands_alone(extra, met))
    )


cdef bint rest_stands_alone(ClassForm form, object value, Parts *met) except -1:
    """Return whether the parts of a model within an instance stand alone."""
    cdef object private = held_in(form, value, 1), extra = held_in(form, value, 2)
    cdef PyObject *fields_set = slot(form, value, 0)[0]
    if not is_rest(form, fields_set, private, extra, met):
        return False
    if not is_short(form, extra):
        return pure.rest_of(value, form.names) is not None
    return mask_of(form, <object>fields_set, extra) >= 0


cdef int read_rest(Reader *reader, ClassForm form, object made) except -1:
    cdef object rest = decode_dynamic(reader), number = rest
    cdef object fields_set, private = None, extra = None
    cdef int64_t mask = -1
    cdef int overflow = 0
    if type(rest) is tuple and PyTuple_GET_SIZE(rest) == 3 and form.model_slots[1] != 0:
        number = <object>PyTuple_GET_ITEM(rest, 0)
        private = <object>PyTuple_GET_ITEM(rest, 1)
        extra = <object>PyTuple_GET_ITEM(rest, 2)
    if (
        type(number) is int and is_dict_or_none(private) and is_dict_or_none(extra)
        and is_short(form, extra)
    ):
        mask = PyLong_AsLongLongAndOverflow(number, &overflow)
    if mask < 0 or mask >> (form.count + (0 if extra is None else PyDict_Size(extra))):
        pure.set_rest(made, form.names, rest)
        return 0
    if mask == form.every_bit:
        fields_set = PySet_New(form.every_field)
    else:
        fields_set = fields_of(form, mask, extra)
    # No other code has seen the instance, so its slots are empty.
    slot(form, made, 0)[0] = Py_NewRef(fields_set)
    if form.model_slots[1] != 0:
        slot(form, made, 1)[0] = Py_NewRef(private)
        slot(form, made, 2)[0] = Py_NewRef(extra)
    return 0
