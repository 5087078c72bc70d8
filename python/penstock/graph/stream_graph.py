"""The StreamGraph: one node per operator, one edge per path of records between two.

Partitioners, output tags and selections have no node of their own.  While the graph is built they
are virtual nodes; adding an edge resolves them into properties of that edge.  Of several successive
partitioners (or tags, or selections) the most downstream one counts, but FORWARD leaves records in
the subtask that a key or a user's function has chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import InvalidProgramError, PenstockError
from penstock.graph.partitioners import FORWARD, REBALANCE, ExchangeMode, PartitionerSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.graph.operators import OperatorDescriptor
    from penstock.graph.settings import GraphSettings
    from penstock.graph.transformations import ChainingStrategy


class IllegalGraphStateError(PenstockError, RuntimeError):
    """The graph's state forbids an operation; a defect of the caller."""


@dataclass
class StreamEdge:
    """Records of one operator that reach one input of another.

    Attributes:
        source_id: Node that emits.
        target_id: Node that receives.
        input_number: Input of the receiver, from 0.
        partitioner: Distribution of the records over subtasks.
        exchange_mode: Exchange mode of the data.
        tag: Output tag whose records travel here; None for the main output.
        selected_names: Names of a split whose records travel here; empty for all.
        unique_number: Tells apart several edges between the same two nodes.
        buffer_timeout_ms: Flush interval of the emitting node.
        supports_unaligned_checkpoints: Whether in-flight data of the edge may be stored.
    """

    source_id: int
    target_id: int
    input_number: int
    partitioner: PartitionerSpec
    exchange_mode: ExchangeMode
    tag: str | None
    selected_names: tuple[str, ...]
    unique_number: int
    buffer_timeout_ms: int
    supports_unaligned_checkpoints: bool


@dataclass
class StreamNode:
    """One operator of the program; see `Transformation` for the attributes."""

    id: int
    name: str
    descriptor: OperatorDescriptor
    parallelism: int
    max_parallelism: int
    output_type: object | None
    slot_sharing_group: str
    buffer_timeout_ms: int
    chaining_strategy: ChainingStrategy
    has_own_parallelism: bool = False
    co_location_group: str | None = None
    uid: str | None = None
    uid_hash: str | None = None
    input_types: tuple[object | None, ...] = ()
    key_selectors: tuple[object | None, ...] = ()
    key_type: object | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    description: str = ""
    location: str | None = None
    is_source: bool = False
    is_legacy_source: bool = False
    is_sink: bool = False
    bounded: bool = True
    annotated_type: object | None = None
    annotation_problem: str | None = None
    output_selectors: list[object] = field(default_factory=list)
    in_edges: list[StreamEdge] = field(default_factory=list)
    out_edges: list[StreamEdge] = field(default_factory=list)


@dataclass(frozen=True)
class _VirtualNode:
    original_id: int
    partitioner: PartitionerSpec | None = None
    exchange_mode: ExchangeMode = ExchangeMode.UNDEFINED
    tag: str | None = None
    selected_names: tuple[str, ...] = ()


class StreamGraph:
    """Operators and edges of one program, before chaining."""

    def __init__(self, settings: GraphSettings) -> None:
        self.settings = settings
        self.nodes: dict[int, StreamNode] = {}
        #: In order of insertion, as ids of sources and sinks are met.
        self.source_ids: list[int] = []
        self.sink_ids: list[int] = []
        self._virtual: dict[int, _VirtualNode] = {}
        self._tag_types: dict[tuple[int, str], object | None] = {}

    @property
    def job_name(self) -> str:
        """Name of the job."""
        return self.settings.job_name

    def add_node(self, node: StreamNode) -> StreamNode:
        """Add an operator.

        Raises:
            IllegalGraphStateError: The id is taken.
        """
        self._require_new_id(node.id)
        self.nodes[node.id] = node
        if node.is_source:
            self.source_ids.append(node.id)
        if node.is_sink:
            self.sink_ids.append(node.id)
        return node

    def add_virtual_partition(
        self,
        original_id: int,
        virtual_id: int,
        partitioner: PartitionerSpec,
        exchange_mode: ExchangeMode,
    ) -> None:
        """Add a node that stands for `original_id` with a partitioner."""
        self._require_new_id(virtual_id)
        self._virtual[virtual_id] = _VirtualNode(
            original_id, partitioner=partitioner, exchange_mode=exchange_mode
        )

    def add_virtual_side_output(
        self, original_id: int, virtual_id: int, tag: str, type_info: object | None
    ) -> None:
        """Add a node that stands for one output tag of `original_id`.

        Raises:
            InvalidProgramError: The operator already has this tag with another type.
        """
        self._require_new_id(virtual_id)
        operator_id = self._operator_behind(original_id)
        known = self._tag_types.setdefault((operator_id, tag), type_info)
        if known != type_info:
            raise InvalidProgramError(
                f"operator {self.nodes[operator_id].name!r} has a side output {tag!r} of type "
                f"{known} already; the same tag cannot also have type {type_info}"
            )
        self._virtual[virtual_id] = _VirtualNode(original_id, tag=tag)

    def add_virtual_select(self, original_id: int, virtual_id: int, names: Sequence[str]) -> None:
        """Add a node that stands for the records of `original_id` marked with the names."""
        self._require_new_id(virtual_id)
        self._virtual[virtual_id] = _VirtualNode(original_id, selected_names=tuple(names))

    def add_output_selector(self, node_id: int, selector: object) -> None:
        """Add a selector by which the operator behind a node names its records (split)."""
        self.nodes[self._operator_behind(node_id)].output_selectors.append(selector)

    def tag_type(self, node_id: int, tag: str) -> object | None:
        """Return the type of a side output of an operator."""
        return self._tag_types[node_id, tag]

    def slot_sharing_group_of(self, node_id: int) -> str:
        """Return the slot sharing group of the operator behind a node, virtual or not."""
        return self.nodes[self._operator_behind(node_id)].slot_sharing_group

    def add_edge(self, upstream_id: int, downstream_id: int, input_number: int) -> StreamEdge:
        """Connect a node, virtual or not, with an input of an operator.

        Args:
            upstream_id: Node that emits.
            downstream_id: Operator that receives.
            input_number: Input of the receiver, from 0.

        Raises:
            InvalidProgramError: A forward partitioner joins different parallelisms.
        """
        partitioner: PartitionerSpec | None = None
        exchange_mode = ExchangeMode.UNDEFINED
        tag: str | None = None
        selected_names: tuple[str, ...] = ()
        while upstream_id in self._virtual:
            virtual = self._virtual[upstream_id]
            upstream_id = virtual.original_id
            if virtual.partitioner is not None and _gives_way(partitioner, virtual.partitioner):
                partitioner = virtual.partitioner
                exchange_mode = virtual.exchange_mode
            if virtual.tag is not None and tag is None:
                tag = virtual.tag
            if virtual.selected_names and not selected_names:
                selected_names = virtual.selected_names
        source = self.nodes[upstream_id]
        target = self.nodes[downstream_id]
        partitioner = self._settle_partitioner(partitioner, source, target)
        edge = StreamEdge(
            source_id=source.id,
            target_id=target.id,
            input_number=input_number,
            partitioner=partitioner,
            exchange_mode=exchange_mode,
            tag=tag,
            selected_names=selected_names,
            unique_number=sum(1 for e in source.out_edges if e.target_id == target.id),
            buffer_timeout_ms=source.buffer_timeout_ms,
            supports_unaligned_checkpoints=partitioner.supports_unaligned_checkpoints,
        )
        source.out_edges.append(edge)
        target.in_edges.append(edge)
        return edge

    def edges(self) -> list[StreamEdge]:
        """Return all edges, by source in the order the sources were added."""
        return [edge for node in self.nodes.values() for edge in node.out_edges]

    def _settle_partitioner(
        self, partitioner: PartitionerSpec | None, source: StreamNode, target: StreamNode
    ) -> PartitionerSpec:
        if partitioner is None:
            return FORWARD if source.parallelism == target.parallelism else REBALANCE
        if partitioner.is_forward and source.parallelism != target.parallelism:
            raise InvalidProgramError(
                "Forward partitioning does not allow change of parallelism. "
                f"Upstream operation: {source.name} parallelism: {source.parallelism}, "
                f"downstream operation: {target.name} parallelism: {target.parallelism}. "
                "Use another partitioning strategy, such as broadcast, rebalance, shuffle or "
                "global."
            )
        return partitioner

    def _operator_behind(self, node_id: int) -> int:
        while node_id in self._virtual:
            node_id = self._virtual[node_id].original_id
        return node_id

    def _require_new_id(self, node_id: int) -> None:
        if node_id in self.nodes or node_id in self._virtual:
            raise IllegalGraphStateError(f"the graph already has a node with id {node_id}")


def _gives_way(downstream: PartitionerSpec | None, upstream: PartitionerSpec) -> bool:
    if downstream is None:
        return True
    return downstream.is_forward and upstream.kind in ("KEY_GROUP", "CUSTOM")
