# Keyed state as rows of an ordered store.

cimport cython

from libc.stdint cimport uint8_t

from penstock._native.state.key_group_entries cimport KeyGroupEntries
from penstock._native.state.state_map cimport PsWord
from penstock._native.wire.wire cimport Writer


@cython.final
cdef class StateRows:
    cdef KeyGroupEntries groups
    cdef bint is_busy
    cdef Writer writer
    cdef uint8_t block[512]

    cdef int begin(self) except -1
    cdef bytes ended(self)
    cdef bytes key_of_word(self, bytes tail, PsWord word)
    cdef bytes value_of_word(self, bytes key, bytes tail, bytes original, PsWord word, PsWord value)
