from cpython.object cimport PyObject


# Whether somebody beside a state may change a value, of which the caller knows how many others than
# itself refer to it.
cdef bint is_held_value(PyObject *value, Py_ssize_t owners) except -1
cpdef bint is_held(tuple holder, Py_ssize_t place) except -1
