"""Scalars of a segment in three byte orders, in both runtimes (SEMANTICS A1)."""

import importlib
import struct

import pytest
from penstock.errors import IllegalStateError

SCALARS = {
    "char": ("H", 0xBEEF),
    "short": ("h", -12345),
    "int": ("i", -123456789),
    "long": ("q", -(2**62) - 5),
    "float": ("f", 1.5),
    "double": ("d", -2.25),
}
ORDERS = {"": "=", "_big_endian": ">", "_little_endian": "<"}
ACCESSORS = [(name, order) for name in SCALARS for order in ORDERS]


@pytest.fixture(params=["allocate_heap", "allocate_off_heap"])
def make(request, plane):
    """What allocates a segment of either kind in either runtime."""
    module = "penstock._core" if plane.kind == "native" else "penstock.network.pure.memory_segment"
    return getattr(importlib.import_module(module).MemorySegment, request.param)


@pytest.mark.parametrize(("name", "order"), ACCESSORS)
def test_scalar(make, name, order):
    """A-1, A-5: the last place works, one further and all wild indexes raise."""
    code, value = SCALARS[name]
    width, segment = struct.calcsize("=" + code), make(64)
    get = getattr(segment, f"get_{name}{order}")
    put = getattr(segment, f"put_{name}{order}")
    for index in (0, 1, 7, 64 - width):
        put(index, value)
        assert get(index) == value
    for index in (-1, 64 - width + 1, 64, 2**31 - 1, 2**31, -(2**31)):
        with pytest.raises(IndexError):
            get(index)
        with pytest.raises(IndexError):
            put(index, value)


@pytest.mark.parametrize("name", SCALARS)
def test_byte_orders(make, name):
    """A-3: each order is what it is called, and each reads the other's bytes reversed."""
    code, value = SCALARS[name]
    segment = make(8)
    getattr(segment, f"put_{name}_big_endian")(0, value)
    (reversed_value,) = struct.unpack("<" + code, struct.pack(">" + code, value))
    read = getattr(segment, f"get_{name}_little_endian")(0)
    assert struct.pack("<" + code, read) == struct.pack("<" + code, reversed_value)
    (native,) = struct.unpack("=" + code, struct.pack(">" + code, value))
    read = getattr(segment, f"get_{name}")(0)
    assert struct.pack("=" + code, read) == struct.pack("=" + code, native)


@pytest.mark.parametrize(("name", "order"), ACCESSORS)
@pytest.mark.parametrize("size", [0, 1, 64])
def test_freed_and_undersized(make, name, order, size):
    """A-2, A-4: too small a segment raises, a freed one raises that it is freed."""
    code, value = SCALARS[name]
    segment = make(size)
    if size < struct.calcsize("=" + code):
        with pytest.raises(IndexError):
            getattr(segment, f"get_{name}{order}")(0)
    segment.free()
    segment.free()
    assert segment.is_freed
    assert segment.size == size
    with pytest.raises(IllegalStateError, match="freed"):
        getattr(segment, f"get_{name}{order}")(0)
    with pytest.raises(IllegalStateError, match="freed"):
        getattr(segment, f"put_{name}{order}")(size + 1, value)
