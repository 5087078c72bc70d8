from cpython.object cimport PyObject


# Who may change a value: only its state, or other code as well.  MANY: the value has more parts
# than may be visited, so this is not known.
cdef enum Holder:
    UNSET = -1
    STATE
    HELD
    MANY


# Who may change a value; the caller passes the number of other known references to it, and the
# number of parts that may be visited, which decreases.
cdef Holder held_by(PyObject *value, Py_ssize_t owners, Py_ssize_t *left) except UNSET
cpdef bint is_held(tuple holder, Py_ssize_t place) except -1
