"""Redistribution of list state over another number of subtasks."""

from __future__ import annotations


def list_blocks(count: int, parallelism: int, start: int) -> tuple[list[range], int]:
    """Cuts a list into blocks that differ by one element at most.

    The subtasks that get more rotate from list to list.

    Args:
        count: Elements of the list.
        parallelism: Number of subtasks.
        start: The subtask that gets the first block; the longer blocks come first.

    Returns:
        The elements of each subtask as positions in the list, and who is next to get more.
    """
    base, more = divmod(count, parallelism)
    blocks = [range(0)] * parallelism
    position = 0
    for index in range(parallelism):
        end = position + base + (index < more)
        blocks[(start + index) % parallelism] = range(position, end)
        position = end
    return blocks, (start + more) % parallelism
