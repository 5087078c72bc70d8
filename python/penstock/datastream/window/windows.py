"""Windows: groups of records by time or number."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE
from penstock.common.serializer import TypeSerializer
from penstock.common.timestamps import timestamp_of
from penstock.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from io import BytesIO

    from penstock.datastream.window.assigners import MergingWindowAssigner

_ONE_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")
_MASK_64 = (1 << 64) - 1


def long_to_int_with_bit_mixing(x: int) -> int:
    """Mix 64 bits into a signed 32-bit number, so that hashes of close windows differ.

    The steps are the finaliser of splitmix64 (Stafford's variant 13 of the murmur3 mixer).
    """
    x &= _MASK_64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK_64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK_64
    return _signed_32(x ^ (x >> 31))


def mod_inverse(x: int) -> int:
    """Return the inverse of an odd number modulo 2**32, as a signed 32-bit number."""
    return _signed_32(pow(x, -1, 1 << 32))


def _signed_32(x: int) -> int:
    x &= 0xFFFFFFFF
    return x - (1 << 32) if x >= 1 << 31 else x


class Window(ABC):
    """A group of records."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the largest timestamp that belongs to the window, in ms."""


class TimeWindow(Window):
    """The time from `start` up to but excluding `end`, both in ms."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        """Create a window; fractions are cut off.

        Raises:
            TypeError: A time is not a number.
            OverflowError: A time needs more than 64 bits: such a window could not be
                serialised and would never end.
        """
        if type(start) is not int or type(end) is not int:
            start, end = timestamp_of(start, "TimeWindow"), timestamp_of(end, "TimeWindow")
        elif start < MIN_LONG_VALUE or end > MAX_LONG_VALUE:
            msg = f"a window from {start} to {end} ms needs times of more than 64 bits"
            raise OverflowError(msg)
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        """Return `end` - 1."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether they overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the window that contains a timestamp.

        Args:
            timestamp: In ms, may be negative.
            offset: Shift of the windows, in ms.
            window_size: Distance of the starts, in ms.
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(
        windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        """Find the windows that overlap or touch, and pass each group to the callback.

        The windows of a group are in the order of PyFlink's set, which determines the order of
        the merged contents.
        """
        groups: list[tuple[TimeWindow, list[TimeWindow]]] = []
        for window in sorted(windows, key=lambda w: (w.start, w.end)):
            if groups and groups[-1][0].intersects(window):
                cover, members = groups[-1]
                groups[-1] = (cover.cover(window), [*members, window])
            else:
                groups.append((window, [window]))
        for cover, members in groups:
            if len(members) > 1:
                callback.merge(_in_order_of_a_set(members), cover)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeWindow) and self.start == other.start and self.end == other.end

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return (self.start, self.end) < (other.start, other.end)

    def __le__(self, other: Any) -> bool:
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return (self.start, self.end) <= (other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class _SetMember:
    """A window with its hash in PyFlink."""

    __slots__ = ("window",)

    def __init__(self, window: TimeWindow) -> None:
        self.window = window

    def __hash__(self) -> int:
        x = (self.window.end << 1) + 1
        inverse = x * x * x
        for _ in range(3):
            # PyFlink does not cut the inverse to 32 bits.
            inverse *= 2 - x * inverse
        return hash(self.window.start + inverse)


def _in_order_of_a_set(windows: list[TimeWindow]) -> list[TimeWindow]:
    if len(windows) == 2:
        return windows  # one of them is new and still empty
    return [member.window for member in {_SetMember(window) for window in windows}]


class CountWindow(Window):
    """The `id`-th group of a number of records."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        """Create a window."""
        self.id = id

    def max_timestamp(self) -> int:
        """Return the largest timestamp: such a window never ends."""
        return MAX_LONG_VALUE

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountWindow) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The only window, which contains all records."""

    __slots__ = ()

    def __init__(self) -> None:
        """Create a window; all are equal."""

    @staticmethod
    def get() -> GlobalWindow:
        """Return the window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """Return the largest timestamp."""
        return MAX_LONG_VALUE

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Serializer of start and end as two big-endian 64-bit integers."""

    def __init__(self) -> None:
        """Create a serializer."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        """Write 16 bytes."""
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        """Read 16 bytes."""
        return TimeWindow(*_TWO_LONGS.unpack(_read(stream, _TWO_LONGS.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Serializer of the id as a big-endian 64-bit integer."""

    def __init__(self) -> None:
        """Create a serializer."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        """Write 8 bytes."""
        stream.write(_ONE_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        """Read 8 bytes."""
        return CountWindow(*_ONE_LONG.unpack(_read(stream, _ONE_LONG.size)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Serializer that writes one byte without meaning."""

    def __init__(self) -> None:
        """Create a serializer."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:  # noqa: ARG002
        """Write one byte."""
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        """Read one byte."""
        _read(stream, 1)
        return GlobalWindow()


def _read(stream: BytesIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise SerializationError(f"a window needs {size} bytes, the stream ends after {len(data)}")
    return data
