"""Redistribution of list state over another number of subtasks."""

from __future__ import annotations


def list_blocks(count: int, parallelism: int, start: int) -> tuple[list[range], int]:
    """Cut a list into blocks whose lengths differ by at most one.

    The subtasks with the longer blocks rotate from list to list.

    Args:
        count: Number of elements of the list.
        parallelism: Number of subtasks.
        start: The subtask that gets the first block; the longer blocks come first.

    Returns:
        The positions of each subtask's elements, and the subtask that the next list starts at.
    """
    base, more = divmod(count, parallelism)
    blocks = [range(0)] * parallelism
    position = 0
    for index in range(parallelism):
        end = position + base + (index < more)
        blocks[(start + index) % parallelism] = range(position, end)
        position = end
    return blocks, (start + more) % parallelism
