# The fields of a row; penstock.common.types.Row is built on it.

cdef class RowBase:
    cdef list names             # None without
    cdef list values
    cdef object kind

    cdef void track(self) noexcept
    cdef Py_ssize_t place_of(self, object name) except -1


# A new row, which takes over the lists.
cdef object make_row(list names, list values, object kind)
