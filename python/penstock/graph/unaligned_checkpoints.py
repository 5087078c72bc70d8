"""Edges on which checkpoints must not overtake data, as far as the job graph shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.options.checkpointing import FORCE_UNALIGNED
from penstock.errors import InvalidProgramError
from penstock.graph import operators

if TYPE_CHECKING:
    from penstock.graph.stream_graph import StreamGraph


def settle_edges(graph: StreamGraph) -> None:
    """Make the inputs of an operator agree: overtaken data in one would block all others.

    If only the program knows the owner of records, in-flight data ties both ends to their
    parallelism; in a job that changes its own, it is not overtaken.
    """
    for node in graph.nodes.values():
        if graph.settings.is_adaptive:
            for edge in node.in_edges:
                if edge.partitioner.kind == "CUSTOM":
                    edge.supports_unaligned_checkpoints = False
        supported = all(edge.supports_unaligned_checkpoints for edge in node.in_edges)
        for edge in node.in_edges:
            edge.supports_unaligned_checkpoints = supported


def refuse_where_unsafe(graph: StreamGraph) -> None:
    """Check for parts that are not known to be safe with unaligned checkpoints.

    Raises:
        InvalidProgramError: The job has such a part; the error names it and a remedy.
    """
    for node in graph.nodes.values():
        if isinstance(node.descriptor, operators.IterationHead):
            raise _refusal(
                "iterative jobs: checkpoints do not contain the records inside an iteration",
                node.location,
            )
        for edge in node.out_edges:
            if edge.partitioner.kind == "CUSTOM":
                raise _refusal(
                    f"the partitioner of partition_custom behind {node.name!r}, which cannot say "
                    "where stored data belongs after rescaling",
                    node.location,
                )


def _refusal(what: str, location: str | None) -> InvalidProgramError:
    error = InvalidProgramError(
        f"unaligned checkpoints are not supported for {what}; set {FORCE_UNALIGNED.key} "
        "to use them anyway"
    )
    error.location = location
    return error
