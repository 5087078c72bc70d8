# Instances of classes with a layout, members of enums; see penstock.serialization.value_layouts.

cimport cython
from cpython.object cimport PyObject

from libc.stdint cimport int64_t, uint8_t

from penstock._native.wire.wire cimport Reader, Writer

cdef extern from "values/instance_values.h":
    ctypedef struct PsPlaces:
        const void *keys
        uint8_t places[30]


cdef enum ClassKind:
    NAMED_TUPLE = 0
    DICT = 1
    SLOTS = 2
    ENUM = 3
    # See scalars.pyx.
    DATETIME = 4
    DATE = 5
    TIMEDELTA = 6
    DECIMAL = 7
    UUID = 8
    NUMPY = 9
    ROW = 10
    # All other classes: decomposed by `reduce_value`.
    REDUCED = 11
    # A class whose fields differ from the written ones: see former_layouts.
    FORMER = 12
    # A subclass of a builtin class.
    BUILTIN = 13
    # A collection of the standard library, whose tag is the count.
    COLLECTION = 14


@cython.final
cdef class ClassForm:
    """Reader and writer of a class's instances."""

    cdef ClassKind kind
    cdef object cls
    cdef tuple names
    cdef Py_ssize_t count
    # For DICT, the places of the fields in instances without a dict; for SLOTS, the slots' offsets,
    # NULL if a slot is more than a plain slot.
    cdef PsPlaces places
    cdef int searches
    cdef Py_ssize_t *offsets
    # The bytes before the fields: by number if the job knows the class, and by signature.  For a
    # numpy number, its dtype.
    cdef bytes numbered
    cdef bytes signed
    cdef bint is_own
    # Instances may have other attributes, and all must stand alone; see instance_fields.
    cdef bint is_plain
    # For an enum: the bytes of a member, by its address.
    cdef dict members
    # For BUILTIN: the builtin class, and the layout.
    cdef object base
    cdef object layout
    # For a pydantic model, which is a DICT with further parts: the set of all its fields, the same
    # as bits, and the offsets of the set of assigned fields and of the private and extra
    # attributes, 0 if the class has none.
    cdef bint is_model
    cdef object every_field
    cdef int64_t every_bit
    cdef Py_ssize_t[3] model_slots


cdef ClassForm form_of_class(object cls)

# The attributes of an instance without a dict, complete and in order; NULL if unknown.
cdef PyObject **values_of(ClassForm form, object value) noexcept

# Returns False and writes nothing if the value does not match its class.
cdef bint write_instance(Writer *writer, ClassForm form, object value, int depth) except -1
cdef bint write_builtin(Writer *writer, ClassForm form, object value, int depth) except -1
cdef bint write_member(Writer *writer, ClassForm form, object value) except -1
cdef object read_numbered(Reader *reader)
cdef object read_signed(Reader *reader)
# Returns NULL and reads nothing unless a cached member follows.
cdef PyObject *read_member(Reader *reader) except? NULL
cdef int keep_member(const unsigned char *start, Reader *reader, object member) except -1
