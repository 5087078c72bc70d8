"""The plan of a program as JSON, in the form that Flink's plan viewer reads.

One object per operator: `id`, `type` (name), `pact` (its role), `contents` (description),
`parallelism`, and, except for sources, `predecessors`: the `id` of each operator it reads from with
the `ship_strategy` of the edge and the `side` of the input.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.graph.stream_graph import StreamGraph, StreamNode


def plan_json(graph: StreamGraph) -> str:
    """Return the plan of a StreamGraph; operators follow the ones that they read from."""
    sinks = set(graph.sink_ids)
    ids = {node_id: _shown_id(node_id, graph) for node_id in graph.nodes}
    order = sorted(graph.nodes, key=lambda node_id: (node_id in sinks, ids[node_id]))
    nodes = [_node(graph.nodes[node_id], ids) for node_id in order]
    return json.dumps({"nodes": nodes}, indent=2)


def _shown_id(node_id: int, graph: StreamGraph) -> int:
    # Heads and tails of iterations have negative ids; a plan numbers them after all others, so that
    # no id is negative.
    return node_id if node_id > 0 else max(graph.nodes) - node_id


def _node(node: StreamNode, ids: dict[int, int]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": ids[node.id],
        "type": node.name,
        "pact": _pact(node),
        "contents": node.description or node.name,
        "parallelism": node.parallelism,
    }
    if not node.is_source:
        shown["predecessors"] = [
            {
                "id": ids[edge.source_id],
                "ship_strategy": edge.partitioner.ship_strategy,
                "side": "first" if position == 0 else "second",
            }
            for position, edge in enumerate(node.in_edges)
        ]
    return shown


def _pact(node: StreamNode) -> str:
    if node.is_source:
        return "Data Source"
    return "Data Sink" if node.is_sink else "Operator"
