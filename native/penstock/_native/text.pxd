# UTF-8 of text that is not ASCII, where a function call no longer matters.

cdef bytes encode_utf8(object text)
cdef object decode_utf8(const char *data, Py_ssize_t size)
