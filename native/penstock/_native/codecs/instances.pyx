"""Instances of classes with a layout, and members of enums, as values of undeclared type.

The layouts are those of ``penstock.serialization.value_layouts``, compiled once for each class.
"""

import enum

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem, PyDict_Next, PyDict_Size, PyDict_Update
from cpython.list cimport PyList_GET_SIZE, PyList_SetSlice
from cpython.long cimport PyLong_FromUnsignedLong, PyLong_FromVoidPtr
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_DECREF
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from penstock._native.codecs.dynamic_codec cimport decode_dynamic, encode_dynamic
from penstock._native.codecs.models cimport find_slots, read_rest, write_rest
from penstock._native.codecs.plain_instances cimport Parts, builtin_of, stands_alone
from penstock._native.wire.failure cimport fail_too_deep_bytes
from penstock._native.wire.limits cimport MAX_DEPTH
from penstock._native.wire.wire cimport get32, left, need, ps_copy, read_varint, reserve, text_of

from penstock.serialization import class_reference
from penstock.serialization import standard_collections
from penstock.serialization import value_layouts
from penstock.serialization.class_reference import is_own, reference_of
from penstock.serialization.extended_values import is_always_pickled, reduce_value
from penstock.serialization.pure import dynamic_codec as pure

cdef extern from "Python.h":
    object PyObject_GenericGetDict(object value, void *context)
    int PyObject_GenericSetAttr(object value, object name, object attribute) except -1
    object PyType_GenericAlloc(PyTypeObject *cls, Py_ssize_t items)
    # These steal the reference.
    void PyTuple_SET_ITEM(object values, Py_ssize_t index, PyObject *value)
    PyObject *PyTuple_GET_ITEM(object values, Py_ssize_t index)
    PyTypeObject *Py_TYPE(object value)
    PyObject *Py_NewRef(object value)

cdef extern from "values/instance_values.h":
    void ps_find_places(PsPlaces *found, PyTypeObject *cls, object names)
    PyObject **ps_all_values(const PsPlaces *places, PyObject *instance)
    bint ps_in_order(const PsPlaces *places, PyObject *instance)
    bint ps_set_value(const PsPlaces *places, PyObject *instance, Py_ssize_t i, PyObject *value)
    Py_ssize_t ps_slot_offset(PyTypeObject *cls, object name)

cdef extern from "values/bytes_cache.h":
    ctypedef struct PsBytesCache:
        pass
    PyObject *ps_meaning(PsBytesCache *cache, const uint8_t *data, size_t size)
    int ps_keep_meaning(
        PsBytesCache *cache, const uint8_t *data, size_t size, object meaning
    ) except -1
    void ps_forget_meanings(PsBytesCache *cache)

cdef object set_update = set.update

ctypedef object (*New)(PyTypeObject *, PyObject *, PyObject *)

cdef enum:
    NUMBERS = 256
    CLASSES = 64
    SEARCHES = 8

cdef PsBytesCache signatures
cdef PsBytesCache members

# The recently read layouts, by the low bits of their numbers; `recent` owns them.
cdef uint32_t recent_numbers[NUMBERS]
cdef list recent = [None] * NUMBERS

# The forms of classes, and the recently used ones by address; FORMS owns them.
cdef dict FORMS = {}
cdef PyObject *recent_classes[CLASSES]
cdef PyObject *recent_forms[CLASSES]


def forget_class(cls):
    """Forget a class, because its fields have changed."""
    cdef int i
    FORMS.pop(cls, None)
    ps_forget_meanings(&signatures)
    ps_forget_meanings(&members)
    for i in range(NUMBERS):
        recent[i] = None
    for i in range(CLASSES):
        recent_classes[i] = NULL


value_layouts.on_change.append(forget_class)


cdef class ClassForm:
    """Reader and writer of a class's instances."""

    def __dealloc__(self):
        free(self.offsets)

# Whether any thread collects the job's own classes that it writes.
cdef bint noting = False


def set_noting(bint wanted):
    """Set whether some thread collects the classes that it writes."""
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
    form.is_plain = layout.is_plain
    if layout.number is not None:
        form.numbered = pure.instance_header(layout, True)
    form.signed = pure.instance_header(layout, False)
    if form.kind == SLOTS:
        form.offsets = offsets_of(form)
    elif form.kind == BUILTIN:
        form.layout = layout
        form.base = value_layouts.builtin_base_of(form.cls)
    elif layout.kind == value_layouts.MODEL:
        form.kind = DICT
        form.is_model = True
        form.count -= 1
        form.names = layout.names[:form.count]
        find_slots(form)
    return form


cdef Py_ssize_t *offsets_of(ClassForm form) except? NULL:
    cdef Py_ssize_t *offsets = <Py_ssize_t *>malloc((form.count + 1) * sizeof(Py_ssize_t))
    cdef Py_ssize_t i
    if offsets == NULL:
        raise MemoryError
    for i in range(form.count):
        offsets[i] = ps_slot_offset(
            <PyTypeObject *>form.cls, <object>PyTuple_GET_ITEM(form.names, i)
        )
        if offsets[i] == 0:
            free(offsets)
            return NULL
    return offsets


cdef ClassForm form_of_class(object cls):
    """Return the form of a class; cached unless the job may learn more about it."""
    cdef size_t place = (<size_t><void *>cls >> 4 ^ <size_t><void *>cls >> 10) % CLASSES
    cdef PyObject *found
    cdef ClassForm form
    if recent_classes[place] == <PyObject *>cls:
        return <ClassForm>recent_forms[place]
    found = PyDict_GetItem(FORMS, cls)
    if found != NULL:
        recent_classes[place] = <PyObject *>cls
        recent_forms[place] = found
        return <ClassForm>found
    from penstock._native.codecs import scalars

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
        elif cls in standard_collections.TAGS:
            form.kind = COLLECTION
            form.count = standard_collections.TAGS[cls]
        elif scalar is not None:
            form.kind, form.signed = scalar
        elif form.is_own and not is_always_pickled(cls):
            return form
    # Another thread may have created the form meanwhile: only FORMS owns those in `recent_forms`.
    return FORMS.setdefault(cls, form)


cdef inline int write_raw(Writer *writer, bytes data) except -1:
    cdef size_t size = PyBytes_GET_SIZE(data)
    reserve(writer, size)
    ps_copy(writer.data + writer.position, <const uint8_t *>PyBytes_AS_STRING(data), size)
    writer.position += size
    return 0


cdef inline void look_for_places(ClassForm form) noexcept:
    """Find the places of attributes in a class's first instances, a limited number of times."""
    if form.kind == DICT and form.places.keys == NULL and form.searches < SEARCHES:
        form.searches += 1
        ps_find_places(&form.places, <PyTypeObject *>form.cls, form.names)


cdef inline int write_header(Writer *writer, ClassForm form) except -1:
    """Write the bytes in front of the fields."""
    if writer.numbered and form.numbered is not None:
        return write_raw(writer, form.numbered)
    if noting and form.is_own:
        reference_of(form.cls)  # the class must be shipped, so record it
    return write_raw(writer, form.signed)


cdef bint write_instance(Writer *writer, ClassForm form, object value, int depth) except -1:
    if form.is_plain:
        return write_plain_instance(writer, form, value, depth)
    return write_fields(writer, form, value, NULL, depth)


cdef bint write_plain_instance(Writer *writer, ClassForm form, object value, int depth) except -1:
    cdef Parts met
    met.count = 0
    return write_fields(writer, form, value, &met, depth)


cdef bint write_fields(
    Writer *writer, ClassForm form, object value, Parts *met, int depth
) except -1:
    """Write the fields; unless ``met`` is NULL, they must stand alone beside the parts in it."""
    cdef size_t start = writer.position
    cdef PyObject **values
    cdef bint done
    if form.kind == NAMED_TUPLE:
        return write_named_tuple(writer, form, <tuple>value, depth)
    if form.kind == DICT:
        values = values_of(form, value)
        done = (
            write_attributes(writer, form, value, met, depth) if values == NULL
            else write_values(writer, form, values, met, depth)
        )
        if done and form.is_model:
            done = write_rest(writer, form, value, met, depth)
    elif form.offsets != NULL:
        done = write_slots(writer, form, <PyObject *>value, met, depth)
    else:
        done = write_gotten(writer, form, value, met, depth)
    if not done:
        writer.position = start
    return done


cdef PyObject **values_of(ClassForm form, object value) noexcept:
    cdef PyObject **values = ps_all_values(&form.places, <PyObject *>value)
    if form.is_plain and values != NULL and not ps_in_order(&form.places, <PyObject *>value):
        return NULL
    return values


cdef bint write_builtin(Writer *writer, ClassForm form, object value, int depth) except -1:
    """Write an instance of a subclass of a builtin class."""
    cdef Parts met
    cdef object builtin = builtin_of(form, value)
    met.count = 0
    if builtin is None or not stands_alone(builtin, &met):
        return False
    write_header(writer, form)
    encode_dynamic(writer, builtin, depth + 1)
    return True


cdef bint write_named_tuple(Writer *writer, ClassForm form, tuple value, int depth) except -1:
    cdef Py_ssize_t i
    if PyTuple_GET_SIZE(value) != form.count:
        return False
    write_header(writer, form)
    for i in range(form.count):
        encode_dynamic(writer, <object>PyTuple_GET_ITEM(value, i), depth + 1)
    return True


cdef bint write_values(
    Writer *writer, ClassForm form, PyObject **values, Parts *met, int depth
) except -1:
    """Write the attributes of an instance without a dict."""
    cdef object held
    cdef Py_ssize_t i
    write_header(writer, form)
    for i in range(form.count):
        if values[form.places.places[i]] == NULL:
            return False
        # Hold a reference, since writing may run code that changes the instance.
        held = <object>values[form.places.places[i]]
        if met != NULL and not stands_alone(held, met):
            return False
        encode_dynamic(writer, held, depth + 1)
    return True


cdef bint write_attributes(
    Writer *writer, ClassForm form, object value, Parts *met, int depth
) except -1:
    """Write the attributes of an instance with a dict, creating the dict if necessary."""
    cdef object held, attributes
    cdef Py_ssize_t i, position = 0
    cdef PyObject *name = <PyObject *>None
    cdef PyObject *field
    look_for_places(form)
    attributes = PyObject_GenericGetDict(value, NULL)
    if PyDict_Size(attributes) != form.count:
        return False
    write_header(writer, form)
    for i in range(form.count):
        # Usually the attributes were set in the order of the fields.
        if (
            not PyDict_Next(attributes, &position, &name, &field)
            or name != PyTuple_GET_ITEM(form.names, i)
        ):
            # Plain instances also preserve the order; a dict may have other strings as names.
            if form.is_plain and <object>name != <object>PyTuple_GET_ITEM(form.names, i):
                return False
            field = PyDict_GetItem(attributes, <object>PyTuple_GET_ITEM(form.names, i))
            if field == NULL:
                return False
        held = <object>field
        if met != NULL and not stands_alone(held, met):
            return False
        encode_dynamic(writer, held, depth + 1)
    return True


cdef bint write_slots(
    Writer *writer, ClassForm form, PyObject *value, Parts *met, int depth
) except -1:
    cdef PyObject *field
    cdef object held
    cdef Py_ssize_t i
    write_header(writer, form)
    for i in range(form.count):
        field = (<PyObject **>(<char *>value + form.offsets[i]))[0]
        if field == NULL:
            return False
        held = <object>field
        if met != NULL and not stands_alone(held, met):
            return False
        encode_dynamic(writer, held, depth + 1)
    return True


cdef bint write_gotten(
    Writer *writer, ClassForm form, object value, Parts *met, int depth
) except -1:
    """Write the slots of an instance whose class accesses them in its own way."""
    cdef object held
    cdef Py_ssize_t i
    write_header(writer, form)
    for i in range(form.count):
        held = getattr(value, <object>PyTuple_GET_ITEM(form.names, i), form)
        if held is form or met != NULL and not stands_alone(held, met):
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
            # Not cached: the bytes have this meaning only while state is restored.
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
    cdef object made
    reader.depth += 1
    if reader.depth > MAX_DEPTH:
        fail_too_deep_bytes()
    if form.kind == NAMED_TUPLE:
        made = read_named_tuple(reader, form)
    elif form.kind == BUILTIN:
        made = read_builtin(reader, form)
    elif form.offsets != NULL:
        made = read_slots(reader, form)
    else:
        made = read_attributes(reader, form)
    reader.depth -= 1
    return made


cdef inline object read_named_tuple(Reader *reader, ClassForm form):
    cdef object field, made = PyType_GenericAlloc(<PyTypeObject *>form.cls, form.count)
    cdef Py_ssize_t i
    for i in range(form.count):
        field = decode_dynamic(reader)
        PyTuple_SET_ITEM(made, i, Py_NewRef(field))
    return made


cdef object read_builtin(Reader *reader, ClassForm form):
    """Read as unpickling does: the container is created before its elements."""
    cdef PyTypeObject *cls = <PyTypeObject *>form.cls
    cdef object made, value = decode_dynamic(reader)
    if type(value) is not form.base or cls.tp_new != (<PyTypeObject *>form.base).tp_new:
        return value_layouts.made_of_builtin(form.layout, value)
    if type(value) is list or type(value) is dict or type(value) is set:
        made = (<New><void *>cls.tp_new)(cls, <PyObject *>(), NULL)
        if type(value) is list:
            PyList_SetSlice(made, PyList_GET_SIZE(made), PyList_GET_SIZE(made), value)
        elif type(value) is dict:
            PyDict_Update(made, value)
        else:
            set_update(made, value)
        return made
    value = (value,)
    return (<New><void *>cls.tp_new)(cls, <PyObject *>value, NULL)


# As in unpickling, __init__ and __post_init__ are not called again.
cdef inline object read_slots(Reader *reader, ClassForm form):
    cdef object field, made = PyType_GenericAlloc(<PyTypeObject *>form.cls, 0)
    cdef Py_ssize_t i
    for i in range(form.count):
        field = decode_dynamic(reader)
        # No other code has seen the instance, so the slot is empty.
        (<PyObject **>(<char *><PyObject *>made + form.offsets[i]))[0] = Py_NewRef(field)
    return made


cdef inline object read_attributes(Reader *reader, ClassForm form):
    cdef PyTypeObject *cls = <PyTypeObject *>form.cls
    cdef object field, made = (<New><void *>cls.tp_new)(cls, <PyObject *>(), NULL)
    cdef bint places_known = form.places.keys != NULL
    cdef PyObject *owned
    cdef Py_ssize_t i
    for i in range(form.count):
        field = decode_dynamic(reader)
        if places_known:
            owned = Py_NewRef(field)
            if ps_set_value(&form.places, <PyObject *>made, i, owned):
                continue
            Py_DECREF(field)
        PyObject_GenericSetAttr(made, <object>PyTuple_GET_ITEM(form.names, i), field)
    look_for_places(form)
    if form.is_model:
        read_rest(reader, form, made)
    return made


cdef bint write_member(Writer *writer, ClassForm form, object value) except -1:
    """Write a member of an enum, except combined members of a Flag, which have no name."""
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
    """Return the member whose class and name follow, borrowed; NULL, reading nothing, if new."""
    cdef Py_ssize_t size = size_of_texts(reader)
    cdef PyObject *found
    if size == 0:
        return NULL
    found = ps_meaning(&members, reader.position, size)
    if found != NULL:
        reader.position += size
    return found


cdef int keep_member(const unsigned char *start, Reader *reader, object member) except -1:
    """Cache the member that has just been read from ``start`` on."""
    return ps_keep_meaning(&members, start, reader.position - start, member)


cdef Py_ssize_t size_of_texts(Reader *reader) noexcept:
    """Return the size of a following tuple of two short texts, 0 for anything else."""
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
