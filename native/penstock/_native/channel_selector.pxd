# Channel selectors: which subpartition an element goes to.

cimport cython

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from penstock._native.codec cimport Codec
from penstock._native.key_hash cimport HashKind
from penstock._native.registers cimport PsValue

cdef enum:
    ALL_CHANNELS = -1


cdef class ChannelSelector:
    cdef readonly int num_channels
    cdef readonly bint is_broadcast

    # The channel of an element, or ALL_CHANNELS.
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
    cdef object attribute           # by which the key is taken without calling key_selector
    cdef object item                # by which elements are subscripted without calling it
    cdef HashKind kind
    cdef object exact               # the class of keys of the declared type
    cdef int bits                   # of the integers that the type holds, 0 for no bound
    cdef object convert             # gives a key of the declared type; None when all are
    cdef Codec elements             # what it sends elements as, when that may change their key
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
