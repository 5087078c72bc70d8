# cython: annotation_typing=False, boundscheck=True, binding=False
# The C types come from match_nodes.pxd; the annotations below are for readers and mypy.
"""The nodes and records of partial matches, in places 4 and 5 of a key's entry.

One source with two uses; see ``operator_loop``.

A node is a record as a part of a match.  It refers to the node before it, so that matches with the
same beginning share their nodes, and records are stored once.  Both are removed with the last
reference.

Nodes and records stand in flat lists, because an object for each of them would need three times the
memory:

=======  ===========================================================================
node     the node before it or 0, the index of its state, its record, its references
record   the identifier, the value, its references
=======  ===========================================================================

A node or record is named by its slot, from 1 on; the last place of slot n of width w is at n * w.
Unused slots have no references, and their first places link them, from the list's first item on.
"""

from __future__ import annotations

from typing import Any

# Relative: when compiled, the function that the .pxd cimports.
from .untracked import untrack  # noqa: TID252


def add_record(entry: list[Any], record: int, value: object) -> int:
    """Add a record without references.

    Args:
        entry: The state of the key.
        record: The record's identifier.
        value: The record.

    Returns:
        Its slot.
    """
    if entry[4] is None:
        entry[4], entry[5] = [0], [0]
        untrack(entry[4])
        untrack(entry[5])
    records = entry[5]
    slot: int = records[0]
    if slot == 0:
        records += (record, value, 0)
        return len(records) // 3
    records[0] = records[3 * slot - 2]
    records[3 * slot - 2] = record
    records[3 * slot - 1] = value
    return slot


def has_record(entry: list[Any], slot: int, record: int) -> bool:
    """Return whether a slot still has a record that was added to it."""
    records = entry[5]
    return bool(records[3 * slot] > 0 and records[3 * slot - 2] == record)


def add_node(entry: list[Any], before: int, state: int, record: int) -> int:
    """Add a node with one reference.

    Args:
        entry: The state of the key.
        before: The slot of the node before it, or 0.
        state: The index of its state.
        record: The slot of its record.

    Returns:
        Its slot.
    """
    nodes = entry[4]
    entry[5][3 * record] += 1
    slot: int = nodes[0]
    if slot == 0:
        nodes += (before, state, record, 1)
        return len(nodes) // 4
    nodes[0] = nodes[4 * slot - 3]
    nodes[4 * slot - 3] = before
    nodes[4 * slot - 2] = state
    nodes[4 * slot - 1] = record
    nodes[4 * slot] = 1
    return slot


def refer(entry: list[Any], node: int) -> None:
    """Add a reference to a node that has at least one."""
    entry[4][4 * node] += 1


def release(entry: list[Any], node: int) -> None:
    """Remove a reference to a node, and everything without references."""
    nodes, records = entry[4], entry[5]
    while node != 0:
        nodes[4 * node] -= 1
        if nodes[4 * node] > 0:
            return
        record = nodes[4 * node - 1]
        records[3 * record] -= 1
        if records[3 * record] == 0:
            records[3 * record - 2] = records[0]
            records[3 * record - 1] = None
            records[0] = record
        before = nodes[4 * node - 3]
        nodes[4 * node - 3] = nodes[0]
        nodes[0] = node
        node = before


def flatten(entry: list[Any]) -> None:
    """Move the nodes and records of a former version from dictionaries to slots.

    They were found by identifier; a dictionary at the entry's end had the numbers of references
    that were not 1.
    """
    references = entry.pop()
    nodes, records = entry[4] or {}, entry[5]
    entry[4] = entry[5] = None
    record_slots: dict[int, int] = {}
    slots = {0: 0}
    # A node is younger than the one before it, and identifiers grew.
    for identifier in sorted(nodes):
        before, state, record = nodes[identifier]
        if record not in record_slots:
            record_slots[record] = add_record(entry, record, records[record])
        slots[identifier] = add_node(entry, slots[before], state, record_slots[record])
        entry[4][4 * slots[identifier]] = references.get(identifier, 1)
    for place in (2, 3):
        for index, match in enumerate(entry[place] or ()):
            entry[place][index] = (*match[:2], slots[match[2]], *match[3:])
