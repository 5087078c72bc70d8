"""The JobGraph: chained operators as vertices, and the data sets between them.

A job is submitted in this form.  A vertex carries the code of its chain as one opaque blob, so the
control plane never imports or unpickles user code.
"""

from __future__ import annotations

import pickle
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from penstock.aggregates.combination import Combination
    from penstock.graph.event_time_origins import EventTimeOrigin
    from penstock.graph.operators import OperatorDescriptor
    from penstock.graph.partitioners import PartitionerSpec
    from penstock.graph.wiring import DistributionPattern

PIPELINED_BOUNDED = "PIPELINED_BOUNDED"
BLOCKING = "BLOCKING"


@dataclass(frozen=True)
class ChainedOutput:
    """An output that stays in the chain: a direct call.

    Attributes:
        target: Index of the receiving operator in the chain.
        input_number: Input of the receiver, from 0.
        tag: Output tag whose records are passed; None for the main output.
        selected_names: Names of a split whose records are passed; empty for all.
    """

    target: int
    input_number: int = 0
    tag: str | None = None
    selected_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class NetworkOutput:
    """An output that leaves the chain through a result partition.

    Attributes:
        partition: Index into the vertex' produced data sets, and into the partitions of a
            deployed subtask.
        partitioner: Distribution of the records over the partition's subpartitions.
        tag: Output tag whose records leave here; None for the main output.
        type: TypeInformation of these records, or None.
        selected_names: Names of a split whose records leave here; empty for all.
        supports_unaligned_checkpoints: Whether in-flight data of the edge may be stored.
        combination: Combination of batches before they leave; None if the receiver needs every
            record.
    """

    partition: int
    partitioner: PartitionerSpec
    tag: str | None = None
    type: object | None = None
    selected_names: tuple[str, ...] = ()
    supports_unaligned_checkpoints: bool = True
    combination: Combination | None = None


@dataclass(frozen=True)
class OperatorConfig:
    """One operator of a chain.

    Attributes:
        id: OperatorID, 16 bytes.
        uid: The user's name of the operator's state, or None.
        name: The name in metrics and errors.
        descriptor: Description of the operator's work.
        input_types: TypeInformation per input; the input number is the index.
        output_type: TypeInformation of the main output, or None.
        key_selectors: Per input, record → key or None; empty when nothing is keyed.
        key_type: TypeInformation of the key, or None.
        chained_outputs: Outputs that stay in the chain.
        network_outputs: Outputs that leave it.
        buffer_timeout_ms: Flush interval of its network outputs; -1 and 0 as in Flink.
        output_selectors: Selectors of a split; a record has the names that any of them returns.
        location: The line of the user's program that created it, or None.
    """

    id: bytes
    uid: str | None
    name: str
    descriptor: OperatorDescriptor
    input_types: tuple[object | None, ...] = ()
    output_type: object | None = None
    key_selectors: tuple[object | None, ...] = ()
    key_type: object | None = None
    chained_outputs: tuple[ChainedOutput, ...] = ()
    network_outputs: tuple[NetworkOutput, ...] = ()
    buffer_timeout_ms: int = 100
    output_selectors: tuple[object, ...] = ()
    location: str | None = None


@dataclass(frozen=True)
class GateConfig:
    """One job edge into a vertex, as a subtask sees it; it feeds the head of the chain.

    Attributes:
        dataset_id: IntermediateDataSetID of the data set read, 16 bytes.
        input_number: Input of the chain's head, from 0; a union gives several gates one number.
        type: TypeInformation of the records, or None.
        distribution: How producers and consumers are wired.
        supports_unaligned_checkpoints: Whether in-flight data of the edge may be stored.
        origins: Origins of the records' event time.
        combination: See `NetworkOutput`.
    """

    dataset_id: bytes
    input_number: int
    type: object | None
    distribution: DistributionPattern
    supports_unaligned_checkpoints: bool = True
    origins: tuple[EventTimeOrigin, ...] = ()
    combination: Combination | None = None


@dataclass(frozen=True)
class ChainConfig:
    """The code of one vertex: operators in topological order, the head first.

    Attributes:
        operators: `[0]` is the head; chained outputs are indices into this tuple.
        gates: One per job edge into the vertex, in the order of a subtask's gates.
    """

    operators: tuple[OperatorConfig, ...]
    gates: tuple[GateConfig, ...] = ()


@dataclass
class IntermediateDataSet:
    """Output of a vertex for one consumer.

    Attributes:
        id: IntermediateDataSetID, 16 bytes.
        producer_id: JobVertexID of the producer.
        type: `PIPELINED_BOUNDED` or `BLOCKING`.
        buffer_timeout_ms: Flush interval of the partitions.
    """

    id: bytes
    producer_id: bytes
    type: str = PIPELINED_BOUNDED
    buffer_timeout_ms: int = 100


@dataclass
class JobEdge:
    """Consumption of a data set by a vertex.

    Attributes:
        dataset_id: Data set that is read.
        target_id: JobVertexID of the consumer.
        distribution: How producers and consumers are wired.
        ship_strategy: Name of the partitioner as plans show it.
        input_number: Input of the consumer's head, from 0.
    """

    dataset_id: bytes
    target_id: bytes
    distribution: DistributionPattern
    ship_strategy: str
    input_number: int = 0


class OperatorIdentity(NamedTuple):
    """Identity of an operator in the control plane: its id, uid, alternative id and name."""

    id: bytes
    uid: str | None
    uid_hash: bytes | None
    name: str


@dataclass
class JobVertex:
    """A chain of operators that runs as `parallelism` subtasks.

    Attributes:
        id: JobVertexID, 16 bytes: the OperatorID of the chain's head.
        name: Names of the chained operators, "A -> B -> C".
        parallelism: Number of subtasks.
        has_own_parallelism: Whether the program fixes the parallelism of one of the operators, so
            that it does not follow that of the job.
        max_parallelism: Number of key groups.
        max_parallelism_configured: False if it was derived, so that a checkpoint may override it.
        operators: Identities of the chained operators in the order of the chain.
        code: `cloudpickle` of the ChainConfig.
        inputs: Incoming edges, in the order of the gates.
        produced: Data sets, in the order of the chain's network outputs.
        slot_sharing_group: Name of the group whose slots its subtasks share.
        co_location_group: Vertices of one group run subtask i in one slot; None for none.
        resources: Resources of the chain, by name.
        is_source: Whether the chain begins with a source.
        bounded: Whether its input is bounded.
        descriptions: Longer texts of the chained operators, for plans.
        coordinators: Coordinators of its operators beside the JobMaster: OperatorID and
            `cloudpickle` of an `OperatorDescriptor`.
    """

    id: bytes
    name: str
    parallelism: int
    max_parallelism: int
    max_parallelism_configured: bool = False
    operators: tuple[OperatorIdentity, ...] = ()
    code: bytes = b""
    inputs: list[JobEdge] = field(default_factory=list)
    produced: list[IntermediateDataSet] = field(default_factory=list)
    slot_sharing_group: str = "default"
    co_location_group: str | None = None
    resources: dict[str, float] = field(default_factory=dict)
    is_source: bool = False
    bounded: bool = True
    descriptions: tuple[str, ...] = ()
    coordinators: tuple[tuple[bytes, bytes], ...] = ()
    has_own_parallelism: bool = False

    def load_chain(self) -> ChainConfig:
        """Unpickle the code; only for the process that made it and for its workers.

        Raises:
            TypeError: The code is not that of a chain.
        """
        chain = pickle.loads(self.code)
        if not isinstance(chain, ChainConfig):
            raise TypeError(f"the code of vertex {self.name!r} is a {type(chain).__name__}")
        return chain


@dataclass
class JobGraph:
    """A job in the form in which it is submitted.

    Attributes:
        name: Name of the job.
        vertices: By id, sorted topologically from the sources.
        configuration: The job's configuration as it reaches the workers.
        checkpoint_interval_ms: Interval of checkpoints; None when they are off.
        job_id: 16 bytes; random unless given.
    """

    name: str
    vertices: dict[bytes, JobVertex]
    configuration: dict[str, str] = field(default_factory=dict)
    checkpoint_interval_ms: int | None = None
    job_id: bytes = field(default_factory=lambda: uuid.uuid4().bytes)

    @property
    def bounded(self) -> bool:
        """Return whether the job is bounded."""
        return all(vertex.bounded for vertex in self.vertices.values())

    @property
    def slots_required(self) -> int:
        """Number of slots that the job needs: per slot sharing group, its highest parallelism."""
        return sum(self.slots_by_group().values())

    def slots_by_group(self) -> dict[str, int]:
        """Return the number of slots per slot sharing group."""
        slots: dict[str, int] = {}
        for vertex in self.vertices.values():
            group = vertex.slot_sharing_group
            slots[group] = max(slots.get(group, 0), vertex.parallelism)
        return slots

    def sort_topologically(self) -> None:
        """Sort the vertices so that producers precede their consumers.

        Ready vertices keep their order, so the result depends on the graph alone.

        Raises:
            InvalidProgramError: The graph has a cycle or an edge without a producer.
        """
        producer_of = {d.id: v.id for v in self.vertices.values() for d in v.produced}
        missing = {id_: len(v.inputs) for id_, v in self.vertices.items()}
        consumers: dict[bytes, list[bytes]] = {id_: [] for id_ in self.vertices}
        for vertex in self.vertices.values():
            for edge in vertex.inputs:
                if edge.dataset_id not in producer_of:
                    raise InvalidProgramError(
                        f"vertex {vertex.name!r} reads data set {edge.dataset_id.hex()}, which no "
                        "vertex of the job produces"
                    )
                consumers[producer_of[edge.dataset_id]].append(vertex.id)
        ready = [id_ for id_, count in missing.items() if count == 0]
        ordered: dict[bytes, JobVertex] = {}
        position = 0
        while position < len(ready):
            vertex_id = ready[position]
            position += 1
            ordered[vertex_id] = self.vertices[vertex_id]
            for consumer in consumers[vertex_id]:
                missing[consumer] -= 1
                if missing[consumer] == 0:
                    ready.append(consumer)
        if len(ordered) != len(self.vertices):
            stuck = sorted(v.name for id_, v in self.vertices.items() if id_ not in ordered)
            raise InvalidProgramError(f"the job graph has a cycle through {', '.join(stuck)}")
        self.vertices = ordered
