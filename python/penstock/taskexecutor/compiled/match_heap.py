# cython: annotation_typing=False, boundscheck=True, binding=False
# The C types come from match_heap.pxd; the annotations below are for readers and mypy.
"""Binary heaps of matches by their first record, as ``pattern_matching`` describes them.

One source with two uses; see ``operator_loop``.

The order of matches is that of Flink, whose queues are the binary heaps of Java: among matches with
the same first record, it depends on how the heaps are built, and so does what a skip strategy
discards.
"""

from __future__ import annotations

from typing import Any


def is_before(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Return whether a match has an earlier first record than another; no record sorts last."""
    first: int = left[1]
    other: int = right[1]
    return first != 0 and (other == 0 or first < other)


def push(heap: list[tuple[Any, ...]], match: tuple[Any, ...]) -> None:
    """Add a match to a heap."""
    heap.append(match)
    position = len(heap) - 1
    while position > 0:
        parent = (position - 1) >> 1
        if not is_before(match, heap[parent]):
            break
        heap[position] = heap[parent]
        position = parent
    heap[position] = match


def sift_down(heap: list[tuple[Any, ...]], position: int, match: tuple[Any, ...]) -> None:
    """Put a match at a position of a heap, or below it where it belongs."""
    size = len(heap)
    while position < size >> 1:
        child = 2 * position + 1
        if child + 1 < size and is_before(heap[child + 1], heap[child]):
            child += 1
        if not is_before(heap[child], match):
            break
        heap[position] = heap[child]
        position = child
    heap[position] = match


def pop(heap: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Remove the first match of a heap and return it."""
    first: tuple[Any, ...] = heap[0]
    last = heap.pop()
    if heap:
        sift_down(heap, 0, last)
    return first
