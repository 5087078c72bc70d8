"""Channel selectors, the native twin of ``penstock.network.pure.channel_selector``."""

import random

from cpython.object cimport PyObject, PyObject_GetAttr, PyObject_GetItem
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from penstock._native.codecs.codec cimport Codec
from penstock._native.codecs.composite_codecs cimport RowNode
from penstock._native.evaluator.registers cimport ps_as_number
from penstock._native.keys.key_hash cimport (
    HASH_ANY, HASH_LONG, hash_key, hash_kind, ps_hash_long, ps_hash_text, ps_murmur,
)
from penstock._native.keys.keys cimport converted
from penstock._native.values.integers cimport ps_short_int

from penstock.graph.key_groups import operator_index
from penstock.serialization.key_selection import field_of, part_of
from penstock.serialization.key_types import UNDECLARED
from penstock.network.pure.channel_selector import checked_channel, checked_channels, identity

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(object values, Py_ssize_t index)
    bint PyUnicode_CheckExact(PyObject *value)


cdef class ChannelSelector:
    """Chooses a channel for each record; this one always chooses channel 0."""

    def __cinit__(self, int num_channels, *args):
        self.num_channels = num_channels
        self.is_broadcast = False

    cdef int choose(self, object value) except -2:
        return 0

    def select(self, value):
        """Return the channel of a record, −1 for all, or a list of several."""
        cdef int channel = self.choose(value)
        if channel == SEVERAL_CHANNELS:
            return list((<CustomSelector>self).chosen)
        return channel


cdef class BroadcastSelector(ChannelSelector):
    """BROADCAST: all channels."""

    def __cinit__(self, int num_channels):
        self.is_broadcast = True

    cdef int choose(self, object value) except -2:
        return ALL_CHANNELS


cdef class RoundRobinSelector(ChannelSelector):
    """REBALANCE and RESCALE: one channel after the other, from the one after ``start``."""

    def __cinit__(self, int num_channels, int start):
        self.current = start

    cdef int choose(self, object value) except -2:
        self.current += 1
        if self.current >= self.num_channels:
            self.current = 0
        return self.current


cdef class ShuffleSelector(ChannelSelector):
    """SHUFFLE: any channel with equal probability."""

    def __cinit__(self, int num_channels):
        self.state = random.getrandbits(64) | 1

    cdef int choose(self, object value) except -2:
        # xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators"),
        # its high half scaled to the range.
        self.state ^= self.state >> 12
        self.state ^= self.state << 25
        self.state ^= self.state >> 27
        cdef uint64_t high = (self.state * <uint64_t>0x2545F4914F6CDD1D) >> 32
        return <int>(high * <uint64_t>self.num_channels >> 32)


cdef class KeyGroupSelector(ChannelSelector):
    """KEY_GROUP: the subtask that owns the key group of the record's key."""

    def __cinit__(
        self, int num_channels, key_selector, key_type, int max_parallelism, Codec elements
    ):
        cdef int group
        self.key_selector = key_selector
        position = field_of(key_selector)
        self.position = -1 if position is None else position
        part = part_of(key_selector)
        if part is not None:
            self.attribute = part.name if part.is_attribute else None
            self.item = None if part.is_attribute else part.name
        else:
            self.item = position
        self.kind = hash_kind(key_type.kind)
        self.exact = key_type.exact
        self.bits = key_type.bits
        self.convert = key_type.convert
        self.elements = elements
        self.max_parallelism = max_parallelism
        self.channels = <int32_t *>malloc(max_parallelism * sizeof(int32_t))
        if self.channels == NULL:
            raise MemoryError
        for group in range(max_parallelism):
            self.channels[group] = operator_index(max_parallelism, num_channels, group)

    def __dealloc__(self):
        free(self.channels)

    cdef object key_of(self, object value):
        if self.attribute is None and self.item is None:
            return self.key_selector(value)
        try:
            if self.attribute is not None:
                return PyObject_GetAttr(value, self.attribute)
            return PyObject_GetItem(value, self.item)
        except Exception:
            # Fail again, now with the user's own line in the traceback.
            return self.key_selector(value)

    cdef object received(self, object value):
        """Return a record in the form that the receiver gets."""
        cdef object named
        if isinstance(self.elements.root, RowNode):
            named = (<RowNode>self.elements.root).named(value)
            if named is not None:
                return named
        return self.elements.decode(self.elements.encode(value))

    cdef bint is_exact(self, object key) except -1:
        """Return whether a key is of the declared type already."""
        cdef int64_t number
        if type(key) is not self.exact:
            return False
        if self.bits == 0:
            return True
        return ps_short_int(<PyObject *>key, &number) and self.holds(number)

    cdef inline bint holds(self, int64_t number) noexcept:
        """Return whether the declared integer type can hold a number."""
        cdef int64_t limit
        if self.bits == 0 or self.bits == 64:
            return True
        limit = <int64_t>1 << (self.bits - 1)
        return -limit <= number < limit

    cdef inline int channel_of(self, uint32_t hash) noexcept:
        return self.channels[ps_murmur(hash) % self.max_parallelism]

    cdef int choose_by_key(self, const PsValue *key) noexcept:
        """Choose the channel of a record with this key, and store it; -2 if `choose` is needed."""
        cdef int64_t number
        if ps_as_number(key, &number):
            if self.convert is not None and not (self.exact is int and self.holds(number)):
                return -2
            if self.kind == HASH_ANY and number == <int32_t>number:
                return self.channel_of(<uint32_t>number)
            if self.kind == HASH_ANY or self.kind == HASH_LONG:
                return self.channel_of(ps_hash_long(<uint64_t>number))
            return -2
        if self.kind != HASH_ANY or not PyUnicode_CheckExact(key.object):
            return -2
        if self.convert is not None and self.exact is not str:
            return -2
        return self.channel_of(ps_hash_text(<object>key.object))

    cdef int choose(self, object value) except -2:
        cdef uint32_t hash = 0
        cdef object key
        if self.elements is not None and not self.elements.root.keeps(value):
            # The receiver computes the key of the received value, so the sender must, too.
            value = self.received(value)
        if PyTuple_CheckExact(value) and 0 <= self.position < PyTuple_GET_SIZE(value):
            key = <object>PyTuple_GET_ITEM(value, self.position)
        else:
            key = self.key_of(value)
        if self.convert is not None and not self.is_exact(key):
            key = converted(self.convert, key)
        hash_key(self.kind, key, &hash)
        return self.channel_of(hash)


cdef class CustomSelector(ChannelSelector):
    """CUSTOM: the result of the user's partitioner for the record's key."""

    def __cinit__(self, int num_channels, key_selector, function):
        self.key_selector = key_selector
        self.function = function

    cdef int choose(self, object value) except -2:
        cdef object channel = self.function(self.key_selector(value), self.num_channels)
        if type(channel) is list or type(channel) is tuple:
            self.chosen = checked_channels(channel, self.num_channels)
            return SEVERAL_CHANNELS
        return checked_channel(channel, self.num_channels)


def make_selector(kind, int num_channels, *, key_selector=None, key_type=UNDECLARED,
                  elements=None, int max_parallelism=0, function=None, int subtask_index=0):
    """Return the selector of a partitioner; arguments and errors as of the pure twin."""
    if num_channels < 1:
        raise ValueError(f"{num_channels} channels")
    if kind == "FORWARD" or kind == "GLOBAL":
        return ChannelSelector(num_channels)
    if kind == "REBALANCE":
        return RoundRobinSelector(num_channels, random.randrange(num_channels))
    if kind == "RESCALE":
        return RoundRobinSelector(num_channels, -1)
    if kind == "SHUFFLE":
        return ShuffleSelector(num_channels)
    if kind == "BROADCAST":
        return BroadcastSelector(num_channels)
    if kind == "KEY_GROUP":
        if key_selector is None or max_parallelism < num_channels:
            raise ValueError(
                "KEY_GROUP needs a key selector and at least as many key groups as channels, "
                f"not {max_parallelism} for {num_channels}"
            )
        return KeyGroupSelector(num_channels, key_selector, key_type, max_parallelism, elements)
    if kind == "CUSTOM":
        if function is None:
            raise ValueError("CUSTOM needs a function")
        return CustomSelector(num_channels, key_selector or identity, function)
    raise ValueError(f"unknown partitioner kind {kind!r}")
