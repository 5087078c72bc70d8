"""The fields of a row, twin of ``penstock.common.plain_row``."""

from cpython.dict cimport PyDict_Keys, PyDict_Values
from cpython.list cimport PyList_GET_SIZE, PyList_New
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport uintptr_t

from sys import intern

from penstock.common.row_kind import RowKind

cdef extern from "Python.h":
    PyTypeObject *Py_TYPE(object value)
    PyObject *PyList_GET_ITEM(list values, Py_ssize_t index)
    Py_UCS4 PyUnicode_READ_CHAR(object text, Py_ssize_t index)
    object PyObject_GenericGetAttr(object owner, object name)
    int PyObject_GenericSetAttr(object owner, object name, object value) except -1
    # Steals the reference.
    void PyList_SET_ITEM(object values, Py_ssize_t index, PyObject *value)
    Py_ssize_t PyVectorcall_NARGS(size_t given)
    PyObject *Py_NewRef(PyObject *value)
    bint PyType_IS_GC(PyTypeObject *cls)
    void PyObject_GC_Track(PyObject *value)
    void PyObject_GC_UnTrack(PyObject *value)
    bint PyObject_GC_IsTracked(PyObject *value)

cdef extern from "values/row_call.h":
    # Calls of the class go to a function, without creating a tuple and a dict first.
    ctypedef PyObject *(*PsCall)(PyObject *, PyObject **, size_t, PyObject *) except NULL
    void ps_set_call(PyTypeObject *cls, PsCall call)

ctypedef object (*New)(PyTypeObject *, PyObject *, PyObject *)

# The keyword names of recent calls, by the addresses of their tuples, each of which is a constant
# of the calling code.  `kept_names` owns the tuples and the lists.
cdef enum:
    KEYWORDS = 256

cdef PyObject *known_keywords[KEYWORDS]
cdef PyObject *known_names[KEYWORDS]
cdef list kept_names = [None] * KEYWORDS

cdef object INSERT = RowKind.INSERT
cdef str MIXED = "A Row takes positional or named fields, not both at once"
cdef frozenset ATTRIBUTES = frozenset(("_fields", "_values", "_row_kind"))

# The row's own attributes, which hide fields of the same name; subclasses may add more.
cdef frozenset OWN_NAMES
cdef object Row = None
cdef list NO_VALUES = []


cdef inline Py_ssize_t identical_in(list names, object name) noexcept:
    cdef Py_ssize_t i
    for i in range(PyList_GET_SIZE(names)):
        if PyList_GET_ITEM(names, i) == <PyObject *>name:
            return i
    return -1


cdef inline Py_ssize_t position_of(list names, object name) except -2:
    """Return the position of a name, -1 if there is none; usually the object is identical."""
    cdef Py_ssize_t i = identical_in(names, name)
    if i >= 0:
        return i
    for i in range(PyList_GET_SIZE(names)):
        if <object>PyList_GET_ITEM(names, i) == name:
            return i
    return -1


cdef class RowBase:
    """Operations of a row, except for creating other rows."""

    def __cinit__(self):
        # The shared list of rows without one yet; nothing ever changes it.
        self.values = NO_VALUES
        self.kind = INSERT

    # No docstring, since it would replace the signature that inspect finds.
    def __init__(self, *args, **kwargs):
        if kwargs:
            if args:
                raise ValueError(MIXED)
            self.names = PyDict_Keys(kwargs)
            self.values = PyDict_Values(kwargs)
        else:
            self.names = None
            self.values = list(args)

    def get_row_kind(self):
        """Return the kind of change; INSERT unless it was set."""
        return self.kind

    def set_row_kind(self, row_kind):
        """Set the kind of change."""
        self.track()
        self.kind = row_kind

    def set_field_names(self, field_names):
        """Set the names of the fields."""
        self.track()
        # A new list, since other rows may share the current one.
        self.names = list(field_names)

    def get_fields_by_names(self, names):
        """Return the values of the named fields; all values in order if the row has no names."""
        if self.names is None or names == self.names:
            self.track()
            return self.values
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise ValueError(f"Row has no fields {unknown}, it has {self.names}")
        return [self.values[self.names.index(name)] for name in names]

    def as_dict(self, recursive=False):
        """Return the fields as a dictionary; the fields must have names."""
        if self.names is None:
            raise TypeError("A Row without field names cannot become a dictionary")
        values = [rows_to_dicts(value) for value in self.values] if recursive else self.values
        return dict(zip(self.names, values, strict=False))

    def _field_names(self):
        """Return the names of the fields; None without names."""
        return self.names

    @property
    def _values(self):
        self.track()
        return self.values

    @property
    def _row_kind(self):
        return self.kind

    @property
    def _fields(self):
        if self.names is None:
            raise AttributeError("_fields")
        return list(self.names)

    @property
    def __dict__(self):
        self.track()
        attributes = {"_values": self.values, "_row_kind": self.kind}
        if self.names is not None:
            attributes["_fields"] = list(self.names)
        return attributes

    def __contains__(self, item):
        return item in (self.values if self.names is None else self.names)

    def __getitem__(self, item):
        if isinstance(item, (int, slice)):
            return self.values[item]
        return self.values[self.place_of(item)]

    def __setitem__(self, key, value):
        self.track()
        if isinstance(key, (int, slice)):
            self.values[key] = value
        else:
            self.values[self.place_of(key)] = value

    cdef void track(self) noexcept:
        """Track the row in the garbage collector again, before it can become part of a cycle."""
        if not PyObject_GC_IsTracked(<PyObject *>self):
            PyObject_GC_Track(<PyObject *>self)
        if not PyObject_GC_IsTracked(<PyObject *>self.values):
            PyObject_GC_Track(<PyObject *>self.values)

    cdef Py_ssize_t place_of(self, object name) except -1:
        cdef Py_ssize_t position
        if self.names is None:
            raise AttributeError(self._without(name))
        position = position_of(self.names, name)
        if position < 0:
            raise ValueError(self._without(name))
        if position >= PyList_GET_SIZE(self.values):
            # There may be more names than values, and lists are read without a check.
            raise IndexError("list index out of range")
        return position

    def _without(self, name):
        """Return the message for a missing field."""
        known = "its fields have no names" if self.names is None else f"it has {self.names}"
        return f"Row has no field {name!r}, {known}"

    # No __getattr__ besides it: subclasses would call both through Python.
    def __getattribute__(self, name):
        cdef Py_ssize_t position
        if self.names is not None and <PyObject *>Py_TYPE(self) == <PyObject *>Row:
            position = identical_in(self.names, name)
            if position >= PyList_GET_SIZE(self.values):
                pass
            elif position >= 0 and name not in OWN_NAMES and PyUnicode_READ_CHAR(name, 0) != c"_":
                return self.values[position]
            elif name not in OWN_NAMES and PyUnicode_READ_CHAR(name, 0) != c"_":
                # Not the identical object, as for unpickled names.
                position = position_of(self.names, name)
                if 0 <= position < PyList_GET_SIZE(self.values):
                    return self.values[position]
        try:
            return PyObject_GenericGetAttr(self, name)
        except AttributeError:
            if name.startswith("__"):
                raise
        position = -1 if self.names is None else position_of(self.names, name)
        if not 0 <= position < PyList_GET_SIZE(self.values):
            raise AttributeError(self._without(name), name=name, obj=self)
        return self.values[position]

    def __setattr__(self, key, value):
        self.track()
        if key == "_fields":
            self.names = list(value)
        elif key == "_values":
            self.values = list(value)
        elif key == "_row_kind":
            self.kind = value
        else:
            raise AttributeError(f"set Row fields by index or name: row[{key!r}] = …")

    def __iter__(self):
        return iter(self.values)

    def __len__(self):
        return PyList_GET_SIZE(self.values)

    def __eq__(self, other):
        cdef RowBase that
        if not isinstance(other, RowBase):
            return False
        that = <RowBase>other
        if self.kind is not that.kind:
            return False
        if self.names is None or that.names is None or self.names == that.names:
            return self.names == that.names and self.values == that.values
        if sorted(self.names) != sorted(that.names):
            return False
        return all([self[name] == that[name] for name in self.names])

    def __hash__(self):
        if self.names is None:
            return hash(tuple(self.values))
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        return hash(tuple([
            (self.names[i], self.values[i]) for i in order if i < len(self.values)
        ]))

    def __repr__(self):
        if self.names is None:
            return f"<Row({', '.join(map(repr, self.values))})>"
        pairs = zip(self.names, self.values, strict=False)
        return f"Row({', '.join([f'{name}={value!r}' for name, value in pairs])})"


cdef object rows_to_dicts(object value):
    if isinstance(value, RowBase):
        return value.as_dict(True)
    if isinstance(value, list):
        return [rows_to_dicts(item) for item in value]
    if isinstance(value, dict):
        return {key: rows_to_dicts(item) for key, item in value.items()}
    return value


cdef inline bint are_outside_cycles(list values) noexcept:
    """Return whether no value can be part of a reference cycle."""
    cdef Py_ssize_t i
    for i in range(PyList_GET_SIZE(values)):
        if PyType_IS_GC(Py_TYPE(<object>PyList_GET_ITEM(values, i))):
            return False
    return True


cdef object make_row(list names, list values, object kind):
    """Return a new row that takes over the lists."""
    cdef RowBase row
    if Row is None:
        # This process uses plain rows.
        from penstock.common.types import _restore_row

        return _restore_row(names, values, kind)
    row = (<New><void *>(<PyTypeObject *>Row).tp_new)(<PyTypeObject *>Row, <PyObject *>(), NULL)
    row.names = names
    row.values = values
    row.kind = kind
    if kind is INSERT and are_outside_cycles(values):
        # A garbage collection would traverse all stored rows in vain.
        PyObject_GC_UnTrack(<PyObject *>row)
        PyObject_GC_UnTrack(<PyObject *>values)
    return row


cdef Py_ssize_t rows_of(list columns) except -2:
    """Return the number of rows of columns that are lists of one length; -1 for any others."""
    cdef Py_ssize_t count = -1
    for column in columns:
        if type(column) is not list:
            return -1
        if count < 0:
            count = PyList_GET_SIZE(column)
        elif count != PyList_GET_SIZE(column):
            return -1
    return count


def rows_of_columns(names, columns):
    """Return rows with these names, each of the columns' values at one index."""
    # The interned names, with which code looks them up.
    cdef list shared = [intern(name) if type(name) is str else name for name in names]
    cdef list made = []
    cdef list lists = list(columns)
    cdef list values
    cdef Py_ssize_t i, j, width = len(lists)
    cdef Py_ssize_t count = rows_of(lists)
    if count < 0:
        return [make_row(shared, list(items), INSERT) for items in zip(*lists, strict=True)]
    for i in range(count):
        values = PyList_New(width)
        for j in range(width):
            PyList_SET_ITEM(values, j, Py_NewRef(PyList_GET_ITEM(<list>lists[j], i)))
        made.append(make_row(shared, values, INSERT))
    return made


cdef list names_of_keywords(tuple keywords):
    """Return the names of a call as a list, shared by rows with the same names and immutable."""
    cdef uintptr_t place = (<uintptr_t><PyObject *>keywords >> 4) % KEYWORDS
    cdef list names
    if known_keywords[place] == <PyObject *>keywords:
        return <list>known_names[place]
    names = list(keywords)
    kept_names[place] = (keywords, names)
    known_keywords[place] = <PyObject *>keywords
    known_names[place] = <PyObject *>names
    return names


cdef PyObject *call_row(
    PyObject *cls, PyObject **arguments, size_t given, PyObject *keywords
) except NULL:
    """Create a row from a call's arguments, as ``__init__`` does but without tuple and dict."""
    cdef Py_ssize_t i, count = PyVectorcall_NARGS(given)
    cdef list values, names = None
    cdef object made
    if keywords != NULL and PyTuple_GET_SIZE(<object>keywords) > 0:
        if count > 0:
            raise ValueError(MIXED)
        count = PyTuple_GET_SIZE(<object>keywords)
        names = names_of_keywords(<tuple>keywords)
    values = PyList_New(count)
    for i in range(count):
        PyList_SET_ITEM(values, i, Py_NewRef(arguments[i]))
    made = make_row(names, values, INSERT)
    Py_INCREF(made)
    return <PyObject *>made


def set_row_class(cls):
    """Set the class of the rows that codecs create."""
    global Row, OWN_NAMES
    Row = cls
    OWN_NAMES = frozenset(dir(cls))
    ps_set_call(<PyTypeObject *>cls, call_row)
