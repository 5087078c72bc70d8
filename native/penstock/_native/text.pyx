"""UTF-8 of text that is not ASCII; a lone surrogate takes three bytes, so that every str passes."""

from penstock.errors import CorruptStreamError

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors)
    object PyUnicode_AsEncodedString(object text, const char *encoding, const char *errors)


cdef bytes encode_utf8(object text):
    return <bytes>PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass")


cdef object decode_utf8(const char *data, Py_ssize_t size):
    try:
        return PyUnicode_DecodeUTF8(data, size, "surrogatepass")
    except UnicodeDecodeError as error:
        raise CorruptStreamError(f"text is not UTF-8: {error}") from error
