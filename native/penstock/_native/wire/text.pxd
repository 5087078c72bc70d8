# Strings: inline fast paths, and the cases in which a call does not matter.

from libc.stdint cimport uint8_t

cdef extern from "wire/text_cache.h":
    ctypedef struct PsTextCache:
        pass
    ctypedef struct PsLookahead:
        void *slot
        size_t offset
    void ps_learn(PsLookahead *ahead, const PsTextCache *cache, const uint8_t *record, size_t size)
    void ps_look_ahead(
        PsLookahead *ahead, PsTextCache *cache, const uint8_t *next, const uint8_t *end
    )

cdef PsTextCache text_cache

cdef bytes encode_utf8(object text)
cdef object decode_utf8(const char *data, Py_ssize_t size)
cdef object cached_ascii(const uint8_t *data, Py_ssize_t size)

cdef enum:
    CACHED_TEXT_BYTES = 16          # PS_CACHE_MAX_SIZE
