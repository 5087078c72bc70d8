"""Conditions of operator chaining: which operators may share a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.graph.partitioners import ExchangeMode
from penstock.graph.transformations import ChainingStrategy

if TYPE_CHECKING:
    from penstock.graph.stream_graph import StreamEdge, StreamGraph, StreamNode


def is_chainable(edge: StreamEdge, graph: StreamGraph) -> bool:
    """Return whether the receiver of an edge runs in the thread of its emitter."""
    return why_not_chainable(edge, graph) is None


def why_not_chainable(edge: StreamEdge, graph: StreamGraph) -> str | None:
    """Return why an edge crosses threads, in words for a plan; None if it is chained."""
    up = graph.nodes[edge.source_id]
    down = graph.nodes[edge.target_id]
    if not graph.settings.chaining_enabled:
        return "chaining is disabled for the job"
    if len(down.in_edges) != 1:
        return f"{down.name!r} has {len(down.in_edges)} inputs"
    if up.slot_sharing_group != down.slot_sharing_group:
        return "the slot sharing groups differ"
    if not edge.partitioner.is_forward:
        return f"the partitioner is {edge.partitioner.kind}"
    if edge.exchange_mode is ExchangeMode.BATCH:
        return "the exchange is blocking"
    if up.parallelism != down.parallelism:
        return "the parallelisms differ"
    if (
        not graph.settings.chain_operators_with_different_max_parallelism
        and up.max_parallelism != down.max_parallelism
    ):
        return "the max parallelisms differ"
    return _strategy_forbids(up, down, graph)


def _strategy_forbids(up: StreamNode, down: StreamNode, graph: StreamGraph) -> str | None:
    if up.chaining_strategy is ChainingStrategy.NEVER:
        return f"{up.name!r} is never chained"
    if down.chaining_strategy is ChainingStrategy.NEVER:
        return f"{down.name!r} is never chained"
    if down.chaining_strategy is ChainingStrategy.HEAD:
        return f"{down.name!r} starts a new chain"
    if down.chaining_strategy is ChainingStrategy.HEAD_WITH_SOURCES and not up.is_source:
        return f"{down.name!r} is chained with sources only"
    if down.descriptor.is_yielding and graph.nodes[_chain_head(up, graph)].is_legacy_source:
        # A legacy source owns the task's thread and never returns to the mailbox, so an operator
        # that waits by yielding to the mailbox would wait forever.
        return f"{down.name!r} yields and the chain starts with a legacy source"
    return None


def _chain_head(node: StreamNode, graph: StreamGraph) -> int:
    while len(node.in_edges) == 1 and is_chainable(node.in_edges[0], graph):
        node = graph.nodes[node.in_edges[0].source_id]
    return node.id
