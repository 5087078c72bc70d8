"""UTF-8 of text that is not ASCII, and the cache of short ASCII text.

A lone surrogate is encoded as three bytes of UTF-8, so every str can be encoded.
"""

from penstock.errors import CorruptStreamError

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors)
    object PyUnicode_AsEncodedString(object text, const char *encoding, const char *errors)

cdef extern from "wire/text_cache.h":
    object ps_cached_text(PsTextCache *cache, const uint8_t *data, Py_ssize_t size)


cdef object cached_ascii(const uint8_t *data, Py_ssize_t size):
    """Return a str of 2 to CACHED_TEXT_BYTES ASCII bytes, a cached one if there is one."""
    return ps_cached_text(&text_cache, data, size)


cdef bytes encode_utf8(object text):
    return <bytes>PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass")


cdef object decode_utf8(const char *data, Py_ssize_t size):
    try:
        return PyUnicode_DecodeUTF8(data, size, "surrogatepass")
    except UnicodeDecodeError as error:
        raise CorruptStreamError(f"text is not UTF-8: {error}") from error
