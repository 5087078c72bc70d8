"""Pools of buffers, and helpers to take and return buffers."""

import pytest

from contract.plane import NATIVE_IS_BUILT

SEGMENT_BYTES = 128
KINDS = ["native", "pure"] if NATIVE_IS_BUILT else ["pure"]


@pytest.fixture
def pool_of(plane):
    """Return a function that creates a network pool of a number of segments."""

    def make(count, **settings):
        return plane.load("NetworkBufferPool")(count, SEGMENT_BYTES, **settings)

    return make


def sizes(*pools):
    return [pool.num_buffers for pool in pools]


def take(local, count=1):
    """Take that many buffers, all of which the pool must have."""
    buffers = [local.request_buffer() for _ in range(count)]
    assert None not in buffers
    return buffers


def take_all(local):
    return list(iter(local.request_buffer, None))


def give(buffers):
    while buffers:
        buffers.pop().recycle()
