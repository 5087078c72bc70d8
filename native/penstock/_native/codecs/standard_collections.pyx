"""Collections of the standard library; see ``penstock.serialization.standard_collections``."""

from collections import Counter, OrderedDict, defaultdict, deque

from cpython.dict cimport PyDict_Copy, PyDict_GetItem, PyDict_SetItem, PyDict_Update
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from penstock._native.codecs.dynamic_codec cimport decode_dynamic, encode_dynamic
from penstock._native.codecs.plain_instances cimport Parts, stands_alone
from penstock._native.wire.failure cimport fail_too_deep_bytes
from penstock._native.wire.limits cimport MAX_DEPTH
from penstock._native.wire.wire cimport put8, reserve

from penstock.serialization import standard_collections as pure
from penstock.serialization.class_reference import is_own, reference_of
from penstock.serialization.extended_values import rebuild_value

cdef extern from "values/instance_values.h":
    bint ps_has_attributes(PyObject *instance) noexcept

# The names of factories that every process can import, and the factories by name.
cdef dict names = {}
cdef dict factories = {}

cdef enum:
    MAX_FACTORIES = 256

# ``Counter.__init__`` would only count its arguments.
cdef object new_counter = Counter.__new__

if list(pure.TAGS.values()) != [DEQUE, ORDERED_DICT, COUNTER, DEFAULT_DICT]:
    raise ImportError("collections have other tags")


cdef object name_of(object factory):
    """Return the name of a ``defaultdict``'s factory; None if it has no name."""
    cdef PyObject *found = PyDict_GetItem(names, factory)
    cdef object name
    if found != NULL:
        return <object>found
    if not isinstance(factory, type):
        return None
    name = reference_of(factory)
    # More of the job's own classes may be registered, and written ones are recorded.
    if name is not None and not is_own(factory) and len(names) < MAX_FACTORIES:
        names[factory] = name
        factories[name] = factory
    return name


cdef object elements_of(object value):
    if type(value) is deque:
        return list(value)
    if type(value) is OrderedDict:
        return None if ps_has_attributes(<PyObject *>value) else value
    if type(value) is defaultdict and value.default_factory is not None:
        return None if name_of(value.default_factory) is None else value
    return value


cdef dict in_order(object value):
    """Return an ``OrderedDict`` as a dict in its order, which the base dict may lack."""
    cdef dict found = {}
    cdef object key
    for key in value:
        PyDict_SetItem(found, key, value[key])
    return found


cdef bint write_collection(Writer *writer, ClassForm form, object value, int depth) except -1:
    cdef Parts met
    cdef object parts, factory
    met.count = 0
    if not stands_alone(value, &met):
        return False
    if type(value) is deque:
        parts = (value.maxlen, list(value))
    elif type(value) is OrderedDict:
        parts = in_order(value)
    elif type(value) is Counter:
        parts = PyDict_Copy(value)
    else:
        factory = value.default_factory
        parts = (None if factory is None else name_of(factory), PyDict_Copy(value))
    reserve(writer, 1)
    put8(writer, <uint8_t>form.count)
    encode_dynamic(writer, parts, depth + 1)
    return True


cdef object read_collection(Reader *reader, uint8_t tag):
    cdef object parts, made
    cdef PyObject *factory
    reader.depth += 1
    if reader.depth > MAX_DEPTH:
        fail_too_deep_bytes()
    parts = decode_dynamic(reader)
    reader.depth -= 1
    if type(parts) is dict:
        if tag == ORDERED_DICT:
            return OrderedDict(parts)
        if tag == COUNTER:
            made = new_counter(Counter)
            PyDict_Update(made, parts)
            return made
    elif tag == DEFAULT_DICT and type(parts) is tuple and len(<tuple>parts) == 2:
        factory = PyDict_GetItem(factories, (<tuple>parts)[0])
        if factory != NULL and type((<tuple>parts)[1]) is dict:
            made = defaultdict(<object>factory)
            PyDict_Update(made, (<tuple>parts)[1])
            return made
    return rebuild_value(tag, parts)
