"""LZ4 blocks in plain Python, with which the native runtime compresses buffers (internals M17).

A block is a series of sequences: a token (four bits for the number of literals, four for the length
of a match less 4, each continued in further bytes while they are 255), the literals, and the
distance back to the match (u16, little-endian).  The last sequence has literals only; the last five
bytes of a block's content are always literals, and no match begins in its last twelve.
"""

from penstock.errors import CorruptStreamError

_MIN_MATCH = 4
_LAST_LITERALS = 5
_NO_MATCH_IN_LAST = 12
_MAX_DISTANCE = 0xFFFF
_MIN_BYTES = 64
"""Smaller content is not compressed."""


def compress(content: bytes) -> bytes | None:
    """Return a block of ``content``, or None if it is not smaller."""
    if len(content) < _MIN_BYTES:
        return None
    block = bytearray()
    seen: dict[bytes, int] = {}
    anchor = position = 0
    while position <= len(content) - _NO_MATCH_IN_LAST:
        start = content[position : position + _MIN_MATCH]
        before = seen.get(start, -1)
        seen[start] = position
        if before < 0 or position - before > _MAX_DISTANCE:
            position += 1
            continue
        end, limit = position + _MIN_MATCH, len(content) - _LAST_LITERALS
        distance = position - before
        while end < limit and content[end] == content[end - distance]:
            end += 1
        _sequence(block, content[anchor:position], distance, end - position)
        anchor = position = end
    _sequence(block, content[anchor:], 0, 0)
    return bytes(block) if len(block) < len(content) else None


def _sequence(block: bytearray, literals: bytes, distance: int, length: int) -> None:
    """Append literals and a match; the last sequence has no match."""
    match = length - _MIN_MATCH if length else 0
    block.append(min(len(literals), 15) << 4 | min(match, 15))
    _append_length(block, len(literals))
    block += literals
    if length:
        block += distance.to_bytes(2, "little")
        _append_length(block, match)


def _append_length(block: bytearray, length: int) -> None:
    """Append the part of a length that exceeds the four bits of a token."""
    if length >= 15:
        full, last = divmod(length - 15, 255)
        block += b"\xff" * full
        block.append(last)


def decompress(block: bytes, limit: int) -> bytes:
    """Return the content of a block.

    Raises:
        CorruptStreamError: the block is invalid, empty, or holds more than ``limit`` bytes.
    """
    content = bytearray()
    position = 0
    try:
        while True:
            token = block[position]
            count, position = _length(block, position + 1, token >> 4)
            end = position + count
            if end > len(block) or len(content) + count > limit:
                break
            content += block[position:end]
            position = end
            if position == len(block):
                if not content:
                    break
                return bytes(content)
            distance = block[position] | block[position + 1] << 8
            count, position = _length(block, position + 2, token & 15)
            count += _MIN_MATCH
            if not 0 < distance <= len(content) or len(content) + count > limit:
                break
            # A match may overlap its own output: then it repeats itself.
            piece = content[-distance:]
            content += (piece * (count // distance + 1))[:count]
    except IndexError:
        pass
    raise CorruptStreamError(f"a compressed buffer of {len(block)} bytes cannot be read")


def _length(block: bytes, position: int, length: int) -> tuple[int, int]:
    """Return a length that begins with four bits of a token, and the position after it."""
    if length == 15:
        while (more := block[position]) == 255:
            length += 255
            position += 1
        length += more
        position += 1
    return length, position
