# Text, where a function call no longer matters or is worth its price.

from libc.stdint cimport uint8_t

cdef bytes encode_utf8(object text)
cdef object decode_utf8(const char *data, Py_ssize_t size)
cdef object cached_ascii(const uint8_t *data, Py_ssize_t size)

cdef enum:
    CACHED_TEXT_BYTES = 16          # PS_CACHE_MAX_SIZE
