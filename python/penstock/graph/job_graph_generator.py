"""StreamGraph → JobGraph: operators that may share a thread become one vertex.

Starting from each source, and then from the target of each edge that leaves a chain, chainable
edges are followed depth first.  The order is that of ids and edges, never of hashing, so a program
always results in the same graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.aggregates.combination import combination_of
from penstock.common.options import pipeline
from penstock.errors import InvalidProgramError
from penstock.graph.chaining import is_chainable
from penstock.graph.event_time_origins import origins_of
from penstock.graph.job_code import JobCode
from penstock.graph.job_graph import (
    BLOCKING,
    PIPELINED_BOUNDED,
    ChainConfig,
    ChainedOutput,
    GateConfig,
    IntermediateDataSet,
    JobEdge,
    JobGraph,
    JobVertex,
    NetworkOutput,
    OperatorConfig,
    OperatorIdentity,
)
from penstock.graph.key_groups import default_max_parallelism
from penstock.graph.partitioners import ExchangeMode
from penstock.graph.stream_graph_hasher import StreamGraphHasher, murmur3_128
from penstock.graph.wiring import DistributionPattern
from penstock.serialization.code_pickle import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.aggregates.combination import Combination
    from penstock.graph.stream_graph import StreamEdge, StreamGraph, StreamNode


@dataclass
class _Chain:
    """A chain while it is built: members depth first from the head."""

    head: StreamNode
    members: list[StreamNode] = field(default_factory=list)
    leaving: list[StreamEdge] = field(default_factory=list)

    @property
    def position(self) -> dict[int, int]:
        return {node.id: i for i, node in enumerate(self.members)}


class JobGraphGenerator:
    """Builds the JobGraph of one StreamGraph.

    Args:
        graph: The finished StreamGraph.
        job_id: 16 bytes; random when None.
        restored_key_groups: The number of key groups of the operators' initial state, by operator
            id.
    """

    def __init__(
        self,
        graph: StreamGraph,
        *,
        job_id: bytes | None = None,
        restored_key_groups: Mapping[bytes, int] = MappingProxyType({}),
    ) -> None:
        self._graph = graph
        self._restored_key_groups = restored_key_groups
        self._job_id = job_id
        self._ids: dict[int, bytes] = {}
        self._chains: dict[int, _Chain] = {}

    def generate(self) -> JobGraph:
        """Build and return the graph.

        Raises:
            InvalidProgramError: Uids collide, or a user's function cannot be shipped.
        """
        settings = self._graph.settings
        self._ids = StreamGraphHasher(
            self._graph, auto_generate=settings.auto_generate_uids
        ).operator_ids()
        self._build_chains()
        vertices = {}
        for chain in self._chains.values():
            vertex = self._vertex_without_edges(chain)
            vertices[vertex.id] = vertex
        self._connect(vertices)
        job = JobGraph(
            name=self._graph.job_name,
            vertices=vertices,
            configuration=dict(settings.configuration),
            checkpoint_interval_ms=settings.checkpoint_interval_ms,
        )
        if self._job_id is not None:
            job.job_id = self._job_id
        job.sort_topologically()
        if pipeline.INDEX_IN_NAMES.read(job.configuration):
            for index, vertex in enumerate(job.vertices.values()):
                vertex.name = f"[vertex-{index}]{vertex.name}"
        built = [(chain, vertices[self._ids[chain.head.id]]) for chain in self._chains.values()]
        codes = JobCode().pickled(
            [self._chain_config(chain, vertex, vertices) for chain, vertex in built]
        )
        for (_, vertex), code in zip(built, codes, strict=True):
            vertex.code = code
        return job

    # Chains ---------------------------------------------------------------------------------

    def _build_chains(self) -> None:
        heads = sorted(self._graph.source_ids)
        for head_id in heads:  # grows while it is walked: targets of leaving edges are heads
            if head_id in self._chains:
                continue
            chain = _Chain(self._graph.nodes[head_id])
            self._chains[head_id] = chain
            self._extend(chain)
            heads.extend(edge.target_id for edge in chain.leaving)

    def _extend(self, chain: _Chain) -> None:
        # Depth first with an explicit stack: deep chains must not hit the recursion limit.
        stack = [chain.head]
        while stack:
            node = stack.pop()
            chain.members.append(node)
            chained = []
            for edge in node.out_edges:
                if is_chainable(edge, self._graph):
                    chained.append(self._graph.nodes[edge.target_id])
                else:
                    chain.leaving.append(edge)
            stack.extend(reversed(chained))

    def _chain_name(self, node: StreamNode) -> str:
        # Names are built from the tails towards the head, for the same reason.
        names: dict[int, str] = {}
        order = [node]
        for current in order:
            order.extend(self._chained_successors(current))
        for current in reversed(order):
            successors = [names[s.id] for s in self._chained_successors(current)]
            if not successors:
                names[current.id] = current.name
            elif len(successors) == 1:
                names[current.id] = f"{current.name} -> {successors[0]}"
            else:
                names[current.id] = f"{current.name} -> ({', '.join(successors)})"
        return names[node.id]

    def _chained_successors(self, node: StreamNode) -> list[StreamNode]:
        return [
            self._graph.nodes[edge.target_id]
            for edge in node.out_edges
            if is_chainable(edge, self._graph)
        ]

    # Vertices -------------------------------------------------------------------------------

    def _vertex_without_edges(self, chain: _Chain) -> JobVertex:
        head = chain.head
        # The head reads the network, so data is distributed by its key groups.
        configured = head.max_parallelism
        if configured <= 0:
            configured = max(node.max_parallelism for node in chain.members)
        resources: dict[str, float] = {}
        for node in chain.members:
            for name, amount in node.resources.items():
                resources[name] = resources.get(name, 0.0) + amount
        groups = {n.co_location_group for n in chain.members if n.co_location_group is not None}
        if len(groups) > 1:
            raise InvalidProgramError(
                f"operators of the chain {self._chain_name(head)!r} belong to different "
                f"co-location groups: {', '.join(sorted(groups))}"
            )
        return JobVertex(
            id=self._ids[head.id],
            name=self._chain_name(head),
            parallelism=head.parallelism,
            has_own_parallelism=any(
                node.has_own_parallelism or node.max_parallelism == 1 for node in chain.members
            ),
            max_parallelism=configured if configured > 0 else self._derived_key_groups(chain),
            max_parallelism_configured=configured > 0,
            operators=tuple(
                OperatorIdentity(
                    self._ids[node.id],
                    node.uid,
                    None if node.uid_hash is None else bytes.fromhex(node.uid_hash),
                    node.name,
                )
                for node in chain.members
            ),
            slot_sharing_group=head.slot_sharing_group,
            co_location_group=groups.pop() if groups else None,
            resources=resources,
            is_source=head.is_source,
            bounded=head.bounded,
            descriptions=tuple(node.description for node in chain.members),
            coordinators=tuple(
                (self._ids[node.id], _pickle_coordinated(node))
                for node in chain.members
                if node.descriptor.is_coordinated
            ),
        )

    def _derived_key_groups(self, chain: _Chain) -> int:
        """Return the number of key groups of the initial state, or a default by parallelism."""
        parallelism = chain.head.parallelism
        for node in chain.members:
            ids = [self._ids[node.id]]
            if node.uid_hash is not None:
                ids.append(bytes.fromhex(node.uid_hash))
            for restored in (self._restored_key_groups.get(id_) for id_ in ids):
                if restored is None:
                    continue
                if restored < parallelism:
                    raise InvalidProgramError(
                        f"{node.name!r} has parallelism {parallelism}, and the state that it is to "
                        f"start from has {restored} key groups: its parallelism can be "
                        f"{restored} at most"
                    )
                return restored
        return default_max_parallelism(parallelism)

    def _connect(self, vertices: dict[bytes, JobVertex]) -> None:
        for chain in self._chains.values():
            producer = vertices[self._ids[chain.head.id]]
            for index, edge in enumerate(chain.leaving):
                producer.produced.append(
                    IntermediateDataSet(
                        id=_dataset_id(producer.id, index),
                        producer_id=producer.id,
                        type=BLOCKING
                        if edge.exchange_mode is ExchangeMode.BATCH
                        else PIPELINED_BOUNDED,
                        buffer_timeout_ms=edge.buffer_timeout_ms,
                    )
                )
        # Gates are in the order of the receiver's in-edges, which is the order of the program.
        for chain in self._chains.values():
            consumer = vertices[self._ids[chain.head.id]]
            for edge in chain.head.in_edges:
                consumer.inputs.append(
                    JobEdge(
                        dataset_id=self._dataset_of(edge),
                        target_id=consumer.id,
                        distribution=_distribution(edge),
                        ship_strategy=edge.partitioner.ship_strategy,
                        input_number=edge.input_number,
                    )
                )

    def _dataset_of(self, edge: StreamEdge) -> bytes:
        chain = self._chain_with(edge.source_id)
        index = next(i for i, other in enumerate(chain.leaving) if other is edge)
        return _dataset_id(self._ids[chain.head.id], index)

    def _chain_with(self, node_id: int) -> _Chain:
        node = self._graph.nodes[node_id]
        while node.id not in self._chains:
            node = self._graph.nodes[node.in_edges[0].source_id]
        return self._chains[node.id]

    # Code -----------------------------------------------------------------------------------

    def _chain_config(
        self, chain: _Chain, vertex: JobVertex, vertices: dict[bytes, JobVertex]
    ) -> ChainConfig:
        position = chain.position
        return ChainConfig(
            operators=tuple(
                self._operator_config(node, chain, position, vertices) for node in chain.members
            ),
            gates=tuple(
                GateConfig(
                    dataset_id=job_edge.dataset_id,
                    input_number=edge.input_number,
                    type=self._edge_type(edge),
                    distribution=job_edge.distribution,
                    supports_unaligned_checkpoints=edge.supports_unaligned_checkpoints,
                    origins=origins_of(self._graph, edge),
                    combination=self._combination(edge),
                )
                for edge, job_edge in zip(chain.head.in_edges, vertex.inputs, strict=True)
            ),
        )

    def _operator_config(
        self,
        node: StreamNode,
        chain: _Chain,
        position: dict[int, int],
        vertices: dict[bytes, JobVertex],
    ) -> OperatorConfig:
        chained = []
        network = []
        for edge in node.out_edges:
            index = next((i for i, e in enumerate(chain.leaving) if e is edge), None)
            if index is None:
                chained.append(
                    ChainedOutput(
                        position[edge.target_id], edge.input_number, edge.tag, edge.selected_names
                    )
                )
                continue
            partitioner = edge.partitioner
            if partitioner.kind == "KEY_GROUP":
                consumer = vertices[self._ids[edge.target_id]]
                partitioner = replace(partitioner, max_parallelism=consumer.max_parallelism)
            network.append(
                NetworkOutput(
                    partition=index,
                    partitioner=partitioner,
                    tag=edge.tag,
                    type=self._edge_type(edge),
                    selected_names=edge.selected_names,
                    supports_unaligned_checkpoints=edge.supports_unaligned_checkpoints,
                    combination=self._combination(edge),
                )
            )
        return OperatorConfig(
            id=self._ids[node.id],
            uid=node.uid,
            name=node.name,
            descriptor=node.descriptor,
            input_types=node.input_types,
            output_type=node.output_type,
            key_selectors=node.key_selectors,
            key_type=node.key_type,
            chained_outputs=tuple(chained),
            network_outputs=tuple(network),
            buffer_timeout_ms=node.buffer_timeout_ms,
            output_selectors=tuple(node.output_selectors),
            location=node.location,
        )

    def _combination(self, edge: StreamEdge) -> Combination | None:
        is_keyed = edge.partitioner.kind == "KEY_GROUP"
        return combination_of(self._graph.nodes[edge.target_id].descriptor) if is_keyed else None

    def _edge_type(self, edge: StreamEdge) -> object | None:
        if edge.tag is not None:
            return self._graph.tag_type(edge.source_id, edge.tag)
        return self._graph.nodes[edge.source_id].output_type


def _distribution(edge: StreamEdge) -> DistributionPattern:
    if edge.partitioner.is_pointwise:
        return DistributionPattern.POINTWISE
    return DistributionPattern.ALL_TO_ALL


def _dataset_id(producer_id: bytes, index: int) -> bytes:
    return murmur3_128(producer_id + b"dataset" + index.to_bytes(4, "big"))


def _pickle_coordinated(node: StreamNode) -> bytes:
    try:
        return dumps(node.descriptor)
    except Exception as error:
        raise InvalidProgramError(
            f"operator {node.name!r} cannot be shipped, because it cannot be pickled: {error}"
        ) from error
