"""Groups of iterations that become quiescent together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.graph.stream_graph import StreamGraph


class Iteration(NamedTuple):
    """The nodes of an iteration: its head and its tail."""

    head_id: int
    tail_id: int


def iteration_groups(graph: StreamGraph, iterations: Sequence[Iteration]) -> list[list[int]]:
    """Group the iterations, by index: each of a group leads into all others of it.

    Records in a loop may come from the loops nested in it, so none of them is at rest before all
    are.  An iteration that only follows another waits for it as for any source.
    """
    leads_to = [
        {
            other
            for other, iteration in enumerate(iterations)
            if iteration.tail_id in _downstream(graph, head_id)
        }
        for head_id, _ in iterations
    ]
    for between in range(len(iterations)):
        for targets in leads_to:
            if between in targets:
                targets |= leads_to[between]
    groups: list[list[int]] = []
    for index, targets in enumerate(leads_to):
        group = sorted({index, *(other for other in targets if index in leads_to[other])})
        if group not in groups:
            groups.append(group)
    return groups


def _downstream(graph: StreamGraph, node_id: int) -> set[int]:
    found: set[int] = set()
    left = [node_id]
    while left:
        for edge in graph.nodes[left.pop()].out_edges:
            if edge.target_id not in found:
                found.add(edge.target_id)
                left.append(edge.target_id)
    return found
