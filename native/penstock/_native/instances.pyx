"""Instances of classes with a layout, and members of enums, as values of undeclared type.

The layouts are those of ``penstock.serialization.value_layouts``, compiled once for each class.
"""

import enum

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem, PyDict_Next, PyDict_Size
from cpython.long cimport PyLong_FromUnsignedLong, PyLong_FromVoidPtr
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t

from penstock._native.dynamic_codec cimport decode_dynamic, encode_dynamic
from penstock._native.failure cimport fail_too_deep_bytes
from penstock._native.limits cimport MAX_DEPTH
from penstock._native.wire cimport get32, left, need, ps_copy, read_varint, reserve, text_of

from penstock.serialization import class_reference
from penstock.serialization import value_layouts
from penstock.serialization.class_reference import is_own, reference_of
from penstock.serialization.extended_values import reduce_value
from penstock.serialization.pure import dynamic_codec as pure

cdef extern from "Python.h":
    object PyObject_GenericGetDict(object value, void *context)
    int PyObject_GenericSetAttr(object value, object name, object attribute) except -1
    object PyType_GenericAlloc(PyTypeObject *cls, Py_ssize_t items)
    # They take over the reference.
    void PyTuple_SET_ITEM(object values, Py_ssize_t index, PyObject *value)
    PyObject *PyTuple_GET_ITEM(object values, Py_ssize_t index)

cdef extern from "bytes_cache.h":
    ctypedef struct PsBytesCache:
        pass
    PyObject *ps_meaning(PsBytesCache *cache, const uint8_t *data, size_t size)
    int ps_keep_meaning(
        PsBytesCache *cache, const uint8_t *data, size_t size, object meaning
    ) except -1
    void ps_forget_meanings(PsBytesCache *cache)

ctypedef object (*New)(PyTypeObject *, PyObject *, PyObject *)

cdef enum:
    NUMBERS = 256

cdef PsBytesCache signatures
cdef PsBytesCache members

# The layouts that were read lately, by the low bits of their numbers; `recent` owns them.
cdef uint32_t recent_numbers[NUMBERS]
cdef list recent = [None] * NUMBERS

# By class, what is known of it.
cdef dict FORMS = {}


def forget_class(cls):
    """What is known of a class has changed."""
    cdef int i
    FORMS.pop(cls, None)
    ps_forget_meanings(&signatures)
    ps_forget_meanings(&members)
    for i in range(NUMBERS):
        recent[i] = None


value_layouts.on_change.append(forget_class)

# Whether some thread wants to know of the job's own classes that it writes.
cdef bint noting = False


def set_noting(bint wanted):
    """Some thread wants to know of the classes that it writes, or none does any more."""
    global noting
    noting = wanted


class_reference.on_noting.append(set_noting)


cdef ClassForm make_form(object layout):
    cdef ClassForm form = ClassForm.__new__(ClassForm)
    form.cls = layout.cls
    form.kind = layout.kind
    form.names = layout.names
    form.count = len(layout.names)
    form.is_own = layout.is_own
    if layout.number is not None:
        form.numbered = pure.instance_header(layout, True)
    form.signed = pure.instance_header(layout, False)
    return form


cdef ClassForm form_of_class(object cls):
    """What is known of a class; kept unless the job may come to know more."""
    cdef PyObject *found = PyDict_GetItem(FORMS, cls)
    cdef ClassForm form
    if found != NULL:
        return <ClassForm>found
    from penstock._native import scalars

    layout = value_layouts.layout_of(cls)
    if layout is not None:
        form = make_form(layout)
    else:
        form = ClassForm.__new__(ClassForm)
        form.cls = cls
        form.kind = REDUCED
        scalar = scalars.scalar_kind(cls)
        form.is_own = is_own(cls)
        if issubclass(cls, enum.Enum) and reference_of(cls) is not None:
            form.kind = ENUM
            form.members = {}
        elif scalar is not None:
            form.kind, form.signed = scalar
        elif form.is_own:
            return form
    FORMS[cls] = form
    return form


cdef inline int write_raw(Writer *writer, bytes data) except -1:
    cdef size_t size = PyBytes_GET_SIZE(data)
    reserve(writer, size)
    ps_copy(writer.data + writer.position, <const uint8_t *>PyBytes_AS_STRING(data), size)
    writer.position += size
    return 0


cdef bint write_instance(Writer *writer, ClassForm form, object value, int depth) except -1:
    cdef size_t start = writer.position
    cdef Py_ssize_t i, position = 0
    cdef PyObject *name
    cdef PyObject *field
    cdef object held, attributes = None
    if form.kind == DICT:
        attributes = PyObject_GenericGetDict(value, NULL)
        if PyDict_Size(attributes) != form.count:
            return False
    elif form.kind == NAMED_TUPLE and PyTuple_GET_SIZE(value) != form.count:
        return False
    if writer.numbered and form.numbered is not None:
        write_raw(writer, form.numbered)
    else:
        if noting and form.is_own:
            reference_of(form.cls)  # whoever ships the class has to know
        write_raw(writer, form.signed)
    for i in range(form.count):
        if form.kind == NAMED_TUPLE:
            held = <object>PyTuple_GET_ITEM(value, i)
        elif form.kind == DICT:
            # Mostly the attributes were set in the order of the fields.
            if (
                not PyDict_Next(attributes, &position, &name, &field)
                or name != PyTuple_GET_ITEM(form.names, i)
            ):
                field = PyDict_GetItem(attributes, <object>PyTuple_GET_ITEM(form.names, i))
                if field == NULL:
                    writer.position = start
                    return False
            held = <object>field
        else:
            held = getattr(value, <object>PyTuple_GET_ITEM(form.names, i), form)
            if held is form:
                writer.position = start
                return False
        encode_dynamic(writer, held, depth + 1)
    return True


cdef ClassForm numbered_form(uint32_t number):
    cdef object found = recent[number % NUMBERS]
    if found is not None and recent_numbers[number % NUMBERS] == number:
        return <ClassForm>found
    found = make_form(value_layouts.layout_numbered(PyLong_FromUnsignedLong(number)))
    recent_numbers[number % NUMBERS] = number
    recent[number % NUMBERS] = found
    return <ClassForm>found


cdef object read_numbered(Reader *reader):
    need(reader, 4)
    return read_instance(reader, numbered_form(get32(reader)))


cdef object read_signed(Reader *reader):
    cdef size_t size = read_varint(reader)
    cdef const uint8_t *data = reader.position
    cdef PyObject *found
    cdef ClassForm form
    need(reader, size)
    reader.position += size
    found = ps_meaning(&signatures, data, size)
    if found != NULL:
        form = <ClassForm>found
    else:
        form = make_form(value_layouts.layout_signed(text_of(data, size)))
        if form.kind == FORMER:
            # Not kept: it is what the bytes mean while state is restored, and an error else.
            return read_former(reader, form)
        ps_keep_meaning(&signatures, data, size, form)
    return read_instance(reader, form)


cdef object read_former(Reader *reader, ClassForm form):
    cdef list fields = []
    cdef Py_ssize_t _
    reader.depth += 1
    if reader.depth > MAX_DEPTH:
        fail_too_deep_bytes()
    for _ in range(form.count):
        fields.append(decode_dynamic(reader))
    reader.depth -= 1
    return form.cls(fields)


cdef object read_instance(Reader *reader, ClassForm form):
    cdef PyTypeObject *cls = <PyTypeObject *>form.cls
    cdef object made, field
    cdef Py_ssize_t i
    reader.depth += 1
    if reader.depth > MAX_DEPTH:
        fail_too_deep_bytes()
    if form.kind == NAMED_TUPLE:
        made = PyType_GenericAlloc(cls, form.count)
        for i in range(form.count):
            field = decode_dynamic(reader)
            Py_INCREF(field)
            PyTuple_SET_ITEM(made, i, <PyObject *>field)
    else:
        # As unpickling does: __init__ and __post_init__ ran when the value was made.
        made = (<New><void *>cls.tp_new)(cls, <PyObject *>(), NULL)
        for i in range(form.count):
            field = decode_dynamic(reader)
            PyObject_GenericSetAttr(made, <object>PyTuple_GET_ITEM(form.names, i), field)
    reader.depth -= 1
    return made


cdef bint write_member(Writer *writer, ClassForm form, object value) except -1:
    """A member of an enum; combined ones of a Flag, which have no name, are not written here."""
    cdef object address = PyLong_FromVoidPtr(<PyObject *>value)
    cdef PyObject *found = PyDict_GetItem(form.members, address)
    cdef bytes data
    if found == NULL:
        tag, parts = reduce_value(value)
        if tag != pure.ENUM:
            return False
        data = pure.extended_bytes(tag, parts)
        form.members[address] = data
    else:
        data = <bytes>found
        if noting and form.is_own and not writer.numbered:
            reference_of(form.cls)
    write_raw(writer, data)
    return True


cdef PyObject *read_member(Reader *reader) except? NULL:
    """The member whose class and name follow, borrowed; NULL, and nothing read, if not known."""
    cdef Py_ssize_t size = size_of_texts(reader)
    cdef PyObject *found
    if size == 0:
        return NULL
    found = ps_meaning(&members, reader.position, size)
    if found != NULL:
        reader.position += size
    return found


cdef int keep_member(const unsigned char *start, Reader *reader, object member) except -1:
    """Keeps the member that has just been read from ``start`` on."""
    return ps_keep_meaning(&members, start, reader.position - start, member)


cdef Py_ssize_t size_of_texts(Reader *reader) noexcept:
    """The bytes of a tuple of two short texts that follows, 0 if it is something else."""
    cdef const uint8_t *position = reader.position
    cdef const uint8_t *end = reader.end
    cdef int _
    if left(reader) < 3 or position[0] != 0x82:
        return 0
    position += 1
    for _ in range(2):
        if end - position < 2:
            return 0
        if 0x40 <= position[0] < 0x80:
            position += 1 + position[0] - 0x40
        elif position[0] == 0x09 and position[1] < 0x80:
            position += 2 + position[1]
        else:
            return 0
    return position - reader.position if position <= end else 0
