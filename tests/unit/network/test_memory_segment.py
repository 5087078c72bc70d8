"""Features of the pure runtime's segments (internals M1)."""

import pytest
from penstock.errors import IllegalStateError
from penstock.network.pure.memory.segment import MemorySegment


def test_strict_segment_is_freed_once():
    """A-2: a second free is an error if strictness is requested."""
    segment = MemorySegment(bytearray(1), strict_free=True)
    segment.free()
    with pytest.raises(IllegalStateError, match="only once"):
        segment.free()
