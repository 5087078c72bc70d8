# Records that a program of expression.pyx computes, written without creating objects.

cimport cython

from penstock._native.codecs.codec cimport Codec
from penstock._native.codecs.composite_codecs cimport TupleNode
from penstock._native.evaluator.registers cimport PsMade
from penstock._native.keys.channel_selector cimport ChannelSelector, KeyGroupSelector
from penstock._native.wire.wire cimport Writer

cdef enum:
    NO_CHANNEL = -2


@cython.final
cdef class ComputedRecords:
    cdef KeyGroupSelector selector
    cdef TupleNode node             # None if the records describe themselves

    cdef int channel_of(self, const PsMade *made) noexcept
    cdef int encode_into(self, Writer *writer, const PsMade *made) except -1


cdef ComputedRecords computed_records(ChannelSelector selector, Codec codec)
