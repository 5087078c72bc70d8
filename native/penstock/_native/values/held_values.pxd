from cpython.object cimport PyObject


# Whether code outside of a state may change a value; the caller passes the number of other known
# references to it.
cdef bint is_held_value(PyObject *value, Py_ssize_t owners) except -1
cpdef bint is_held(tuple holder, Py_ssize_t place) except -1
