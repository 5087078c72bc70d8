# Nodes of declared dates and times.

cimport cython
from libc.stdint cimport int64_t

from penstock._native.codecs.basic_codecs cimport ConvertedNode


@cython.final
cdef class TimestampNode(ConvertedNode):
    # Added to the microseconds of an instant.
    cdef int64_t mark
