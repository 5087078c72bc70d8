"""Origins of an input's event time: the sources and strategies before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.graph import operators

if TYPE_CHECKING:
    from penstock.graph.operators import OperatorDescriptor
    from penstock.graph.stream_graph import StreamEdge, StreamGraph


class EventTimeOrigin(NamedTuple):
    """An operator that decides the event time of the records it emits.

    Attributes:
        name: The name of the operator.
        has_strategy: Whether its strategy emits watermarks; a source may emit its own without one.
        has_assigner: Whether its strategy has a timestamp assigner.
    """

    name: str
    has_strategy: bool
    has_assigner: bool


def strategy_of(descriptor: OperatorDescriptor) -> Any:
    """Return the watermark strategy of an operator; None if it has none."""
    if isinstance(descriptor, operators.Watermarks):
        return descriptor.strategy
    return getattr(descriptor, "watermark_strategy", None)


def emits_event_time(descriptor: OperatorDescriptor) -> bool:
    """Return whether the strategy of an operator emits watermarks."""
    strategy = strategy_of(descriptor)
    return strategy is not None and bool(strategy.emits_periodically)


def origins_of(graph: StreamGraph, edge: StreamEdge) -> tuple[EventTimeOrigin, ...]:
    """Return the origins of an edge's event time, each once."""
    found: dict[EventTimeOrigin, None] = {}
    waiting, seen = [edge.source_id], set()
    while waiting:
        node_id = waiting.pop()
        if node_id in seen:
            continue
        seen.add(node_id)
        node = graph.nodes[node_id]
        if node.in_edges and not isinstance(node.descriptor, operators.Watermarks):
            waiting += [before.source_id for before in node.in_edges]
            continue
        strategy = strategy_of(node.descriptor)
        has_assigner = strategy is not None and strategy.timestamp_assigner is not None
        found[EventTimeOrigin(node.name, emits_event_time(node.descriptor), has_assigner)] = None
    return tuple(found)
