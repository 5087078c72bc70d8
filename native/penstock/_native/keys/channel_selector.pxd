# Channel selectors, which choose the subpartition of a record.

cimport cython

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from penstock._native.codecs.codec cimport Codec
from penstock._native.evaluator.registers cimport PsValue
from penstock._native.keys.key_hash cimport HashKind

cdef enum:
    ALL_CHANNELS = -1
    SEVERAL_CHANNELS = -3           # the channels in `CustomSelector.chosen`


cdef class ChannelSelector:
    cdef readonly int num_channels
    cdef readonly bint is_broadcast

    # Returns the channel of a record, ALL_CHANNELS or SEVERAL_CHANNELS.
    cdef int choose(self, object value) except -2


@cython.final
cdef class BroadcastSelector(ChannelSelector):
    pass


@cython.final
cdef class RoundRobinSelector(ChannelSelector):
    cdef int current


@cython.final
cdef class ShuffleSelector(ChannelSelector):
    cdef uint64_t state


@cython.final
cdef class KeyGroupSelector(ChannelSelector):
    cdef object key_selector
    cdef Py_ssize_t position        # of the field of a tuple that is the key, or -1
    cdef object attribute           # reads the key without calling key_selector
    cdef object item                # subscript of records; replaces a call of key_selector
    cdef HashKind kind
    cdef object exact               # the class of keys of the declared type
    cdef int bits                   # size of the type's integers, 0 without a limit
    cdef object convert             # converts a key to the declared type; None if no key needs it
    cdef Codec elements             # the codec of records, if sending may change their keys
    cdef int32_t max_parallelism
    cdef int32_t *channels          # of each key group

    cdef object key_of(self, object value)
    cdef object received(self, object value)
    cdef bint is_exact(self, object key) except -1
    cdef inline bint holds(self, int64_t number) noexcept
    cdef inline int channel_of(self, uint32_t hash) noexcept
    cdef int choose_by_key(self, const PsValue *key) noexcept


@cython.final
cdef class CustomSelector(ChannelSelector):
    cdef object key_selector
    cdef object function
    cdef list chosen                # the channels of the last record that has several
