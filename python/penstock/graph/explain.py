"""The plan of a program as text: threads, exchanges between them, and reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from penstock.expressions.evaluation import Evaluation
from penstock.graph.chaining import why_not_chainable
from penstock.graph.explain_columns import ColumnFacts
from penstock.graph.explain_functions import function_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.graph.job_graph import JobGraph, JobVertex
    from penstock.graph.stream_graph import StreamGraph, StreamNode

#: Metrics of operators that an analysis shows, with their descriptions.
_COUNTS: Final[Mapping[str, str]] = {
    "numRecordsIn": "records in",
    "numRecordsEvaluated": "evaluated",
    "numEvaluationsGivenUp": "given up and called",
    "numBatchesInColumns": "batches in columns",
    "numBatchesGivenUp": "batches given up",
    "numBatchesInColumnState": "batches with state in columns",
    "numBlocksInColumns": "blocks in columns",
    "numBlocksInRows": "blocks line by line",
    "numKeysConverted": "keys converted by a call",
    "numSumsInPlace": "summed in place",
    "numRecordsOut": "records out",
    "numBatchesOut": "batches out",
    "numRecordsCombined": "combined before they were sent",
    "numRecordsOutComputed": "written without an object",
}


class PlanText(str):
    """A plan as text, with a picture for notebooks."""

    _svg: str

    def __new__(cls, text: str, svg: str) -> Self:
        """Create a text with its picture."""
        plan = super().__new__(cls, text)
        plan._svg = svg
        return plan

    def _repr_svg_(self) -> str:
        """Return the picture for a notebook."""
        return self._svg


def explain(
    graph: StreamGraph,
    job: JobGraph,
    totals: Mapping[tuple[bytes, str], Mapping[str, int]] | None = None,
) -> str:
    """Return a description of a program for people.

    Args:
        graph: The operators and edges of the program.
        job: The same program, chained.
        totals: The counts of a run by vertex id and operator name, or None if the program has not
            run.
    """
    evaluation = Evaluation.of(graph.settings.configuration)
    lines = [
        f"Job {job.name!r}: {len(graph.nodes)} operators in {len(job.vertices)} vertices, "
        f"{job.slots_required} slots",
        "",
        "Operators",
    ]
    columns = ColumnFacts(graph, evaluation)
    for node in graph.nodes.values():
        lines.append(f"  [{node.id}] {node.name}  ({', '.join(_facts(node))})")
        lines.extend(f"      {text}" for text in _inputs(node, graph))
        lines.extend(f"      {text}" for text in function_facts(node, evaluation))
        lines.extend(f"      {text}" for text in columns.of(node))
    lines += ["", "Vertices (one thread per subtask)"]
    names = {d.id: v.name for v in job.vertices.values() for d in v.produced}
    for number, vertex in enumerate(job.vertices.values(), 1):
        max_parallelism = f"{vertex.max_parallelism}"
        if not vertex.max_parallelism_configured:
            max_parallelism += " (derived)"
        lines += [
            f"  {number}. {vertex.name}",
            f"      id {vertex.id.hex()}, parallelism {vertex.parallelism}, max parallelism "
            f"{max_parallelism}, slot sharing group {vertex.slot_sharing_group}",
        ]
        lines.extend(
            f"      reads {names[edge.dataset_id]!r} by {edge.ship_strategy} "
            f"({edge.distribution.value})"
            for edge in vertex.inputs
        )
        if totals is not None:
            lines.extend(f"      {text}" for text in _counted(vertex, totals))
    return "\n".join(lines) + "\n"


def _counted(
    vertex: JobVertex, totals: Mapping[tuple[bytes, str], Mapping[str, int]]
) -> Iterator[str]:
    """Yield one line for each operator of a chain that counted something."""
    for name in dict.fromkeys(config.name for config in vertex.load_chain().operators):
        counted = totals.get((vertex.id, name), {})
        texts = [
            f"{counted[key]:,} {what}"
            for key, what in _COUNTS.items()
            # If no batch of columns arrived, the number is not shown.
            if key in counted and (counted[key] or not key.startswith(("numBatches", "numBlocks")))
        ]
        if texts:
            yield f"{name}: {', '.join(texts)}"


def _facts(node: StreamNode) -> list[str]:
    facts = [f"parallelism {node.parallelism}"]
    if node.uid is not None:
        facts.append(f"uid {node.uid}")
    if node.output_type is None and not node.is_sink:
        known = "type not declared"
        if node.annotated_type is not None:
            known = f"type {node.annotated_type} by annotation, not declared"
        elif node.annotation_problem is not None:
            known = f"type not declared, and none by annotation, because {node.annotation_problem}"
        facts.append(
            f"{known}: values are encoded with their Python types, and pickled where these have "
            "no encoding"
        )
    elif node.output_type is not None:
        facts.append(f"type {node.output_type}")
    return facts


def _inputs(node: StreamNode, graph: StreamGraph) -> list[str]:
    texts = []
    for edge in node.in_edges:
        source = graph.nodes[edge.source_id]
        tag = "" if edge.tag is None else f" (side output {edge.tag!r})"
        names = "" if not edge.selected_names else f" (selected {', '.join(edge.selected_names)})"
        reason = why_not_chainable(edge, graph)
        how = "chained" if reason is None else f"not chained: {reason}"
        texts.append(
            f"<- [{source.id}] {source.name}{tag}{names} {edge.partitioner.ship_strategy}, {how}"
        )
    return texts
