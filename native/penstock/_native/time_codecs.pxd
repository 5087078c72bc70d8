# Nodes of declared dates and times.

cimport cython

from penstock._native.basic_codecs cimport ConvertedNode


@cython.final
cdef class TimestampNode(ConvertedNode):
    pass
