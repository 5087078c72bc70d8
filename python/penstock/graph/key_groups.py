"""Key groups: the fixed shards of keyed state, and their assignment to subtasks.

A key belongs to the group ``murmur(hash(key)) mod max_parallelism`` for the life of a job's state;
rescaling only moves whole groups between subtasks.  The hash of a key itself is canonical per type
and belongs to the codecs; this module starts from its 32-bit value.  The mixing function is the
32-bit MurmurHash3 over one integer (Appleby, public domain).
"""

from __future__ import annotations

from typing import Final

#: Smallest derived max parallelism.
LOWER_BOUND_DEFAULT_MAX_PARALLELISM: Final = 1 << 7
#: Largest max parallelism: key groups are addressed with 16 bits.
UPPER_BOUND_MAX_PARALLELISM: Final = 1 << 15

_MASK: Final = 0xFFFFFFFF
_INT_MIN: Final = -(1 << 31)


def murmur_hash(code: int) -> int:
    """Mix a 32-bit hash; the result is never negative.

    Args:
        code: The hash of the key; only its low 32 bits count.
    """
    h = (code & _MASK) * 0xCC9E2D51 & _MASK
    h = (h << 15 | h >> 17) & _MASK
    h = h * 0x1B873593 & _MASK
    h = (h << 13 | h >> 19) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & _MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    signed = h - (1 << 32) if h & 0x80000000 else h
    if signed >= 0:
        return signed
    return -signed if signed != _INT_MIN else 0


def key_group(key_hash: int, max_parallelism: int) -> int:
    """Return the key group of a key, given its canonical 32-bit hash."""
    return murmur_hash(key_hash) % max_parallelism


def operator_index(max_parallelism: int, parallelism: int, group: int) -> int:
    """Return the subtask that owns a key group."""
    return group * parallelism // max_parallelism


def key_group_range(max_parallelism: int, parallelism: int, subtask: int) -> tuple[int, int]:
    """Return the first and the last key group that a subtask owns, both inclusive.

    Raises:
        ValueError: There are more subtasks than key groups, or no such subtask.
    """
    if not 0 < parallelism <= max_parallelism:
        raise ValueError(
            f"parallelism {parallelism} must be between 1 and max parallelism {max_parallelism}"
        )
    if not 0 <= subtask < parallelism:
        raise ValueError(f"subtask {subtask} is not one of {parallelism}")
    start = (subtask * max_parallelism + parallelism - 1) // parallelism
    end = ((subtask + 1) * max_parallelism - 1) // parallelism
    return start, end


def default_max_parallelism(parallelism: int) -> int:
    """Return the default max parallelism: room to grow by half."""
    wanted = parallelism + parallelism // 2
    rounded = 1 << (wanted - 1).bit_length() if wanted > 0 else 1
    return min(
        max(rounded, LOWER_BOUND_DEFAULT_MAX_PARALLELISM),
        UPPER_BOUND_MAX_PARALLELISM,
    )
