"""A whole program as one chain of operators that call each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.datastream.functions.multiple_input import MultipleInputProcessFunction
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.graph.job_graph import ChainConfig, ChainedOutput, OperatorConfig

if TYPE_CHECKING:
    from penstock.graph.stream_graph import StreamEdge, StreamGraph, StreamNode


class _Pass(MultipleInputProcessFunction):
    def process_element(self, input_number: int, value: Any, ctx: Any) -> Any:  # noqa: ARG002
        """Return the record itself."""
        return (value,)


def passing(num_inputs: int = 1) -> operators.OperatorDescriptor:
    """Join streams: records keep their timestamps, the slowest decides the watermark."""
    return operators.MultipleInputProcess(_Pass(), num_inputs=num_inputs)


@dataclass
class Layout:
    """Positions of a program's operators in the chain.

    Attributes:
        configs: The operators, receivers after their senders.
        positions: Their positions, by the ids of the graph's nodes.
        num_inputs: The number of inputs of each.
    """

    configs: list[OperatorConfig] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    num_inputs: list[int] = field(default_factory=list)

    @property
    def chain(self) -> ChainConfig:
        """Return the operators as a task receives them."""
        return ChainConfig(tuple(self.configs))


def lay_out(graph: StreamGraph) -> Layout:
    """Lay out a program; an operator replaces each union of streams.

    Raises:
        InvalidProgramError: The program has iterations, which need a cluster.
    """
    order = _receivers_last(graph)
    if any(isinstance(node.descriptor, operators.IterationHead) for node in order):
        raise InvalidProgramError(
            "a PipelineTestHarness cannot run iterations: execute the program, with "
            "execution.target: in-process"
        )
    layout = Layout()
    #: (node, input number) → position of the union before it.
    unions: dict[tuple[int, int], int] = {}
    place = 0
    for node in order:
        for input_number, edges in _edges_by_input(node).items():
            if len(edges) > 1:
                unions[node.id, input_number] = place
                place += 1
        layout.positions[node.id] = place
        place += 1
    for node in order:
        inputs = _edges_by_input(node)
        for input_number, edges in inputs.items():
            if (node.id, input_number) in unions:
                to_node = ChainedOutput(layout.positions[node.id], input_number)
                layout.configs.append(
                    OperatorConfig(
                        id=unions[node.id, input_number].to_bytes(16, "big"),
                        uid=None,
                        name="Union",
                        descriptor=passing(len(edges)),
                        chained_outputs=(to_node,),
                    )
                )
                layout.num_inputs.append(len(edges))
        outputs = tuple(_output(edge, graph, layout, unions) for edge in node.out_edges)
        layout.configs.append(_config(node, layout.positions[node.id], outputs))
        layout.num_inputs.append(len(inputs))
    return layout


def _receivers_last(graph: StreamGraph) -> list[StreamNode]:
    order: list[StreamNode] = []
    waiting = {node.id: len(node.in_edges) for node in graph.nodes.values()}
    ready = [number for number, count in waiting.items() if count == 0]
    while ready:
        node = graph.nodes[ready.pop(0)]
        order.append(node)
        for edge in node.out_edges:
            waiting[edge.target_id] -= 1
            if waiting[edge.target_id] == 0:
                ready.append(edge.target_id)
    return order


def _edges_by_input(node: StreamNode) -> dict[int, list[StreamEdge]]:
    found: dict[int, list[StreamEdge]] = {}
    for edge in node.in_edges:
        found.setdefault(edge.input_number, []).append(edge)
    return found


def _output(
    edge: StreamEdge, graph: StreamGraph, layout: Layout, unions: dict[tuple[int, int], int]
) -> ChainedOutput:
    target, input_number = layout.positions[edge.target_id], edge.input_number
    union = unions.get((edge.target_id, edge.input_number))
    if union is not None:
        united = _edges_by_input(graph.nodes[edge.target_id])[edge.input_number]
        target, input_number = union, united.index(edge)
    return ChainedOutput(target, input_number, edge.tag, edge.selected_names)


def _config(node: StreamNode, place: int, outputs: tuple[ChainedOutput, ...]) -> OperatorConfig:
    return OperatorConfig(
        id=place.to_bytes(16, "big"),
        uid=node.uid,
        name=node.name,
        descriptor=node.descriptor,
        input_types=node.input_types,
        output_type=node.output_type,
        key_selectors=node.key_selectors,
        key_type=node.key_type,
        chained_outputs=outputs,
        output_selectors=tuple(node.output_selectors),
        location=node.location,
    )
