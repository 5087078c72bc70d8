"""The binary form of a JobGraph: versioned, and the same bytes for the same program.

| offset | bytes | what |
|---|---|---|
| 0 | 4 | `PSJG` |
| 4 | 2 | version, u16 big-endian |
| 6 | 16 | job id |
| 22 | … | MessagePack of `_Job`: arrays in the order of the fields, maps sorted by key |

Rules: the version must be known exactly; vertices are in topological order; nothing follows the
MessagePack.  Code is opaque bytes: reading a JobGraph never runs or unpickles anything.

The code itself is as deterministic as cloudpickle: functions have the same bytes in every process,
but a class defined in the program's main module gets an identity of its process, by which an
instance that returns from a worker is recognised as one of that very class.
"""

from __future__ import annotations

from typing import Final

import msgspec

from penstock.common.values.decoders import msgpack_decoder
from penstock.errors import SerializationError
from penstock.graph.job_graph import (
    IntermediateDataSet,
    JobEdge,
    JobGraph,
    JobVertex,
    OperatorIdentity,
)
from penstock.graph.wiring import DistributionPattern

MAGIC: Final = b"PSJG"
VERSION: Final = 1
_HEADER_BYTES: Final = 22
_ID_BYTES: Final = 16


class _Operator(msgspec.Struct, array_like=True):
    id: bytes
    uid: str | None
    uid_hash: bytes | None
    name: str
    description: str


class _DataSet(msgspec.Struct, array_like=True):
    id: bytes
    type: str
    buffer_timeout_ms: int


class _Edge(msgspec.Struct, array_like=True):
    dataset_id: bytes
    distribution: str
    ship_strategy: str
    input_number: int


class _Vertex(msgspec.Struct, array_like=True):
    id: bytes
    name: str
    parallelism: int
    max_parallelism: int
    max_parallelism_configured: bool
    operators: list[_Operator]
    code: bytes
    inputs: list[_Edge]
    produced: list[_DataSet]
    slot_sharing_group: str
    co_location_group: str | None
    resources: dict[str, float]
    is_source: bool
    bounded: bool
    coordinators: list[tuple[bytes, bytes]] = []
    has_own_parallelism: bool = False


class _Job(msgspec.Struct, array_like=True):
    name: str
    configuration: dict[str, str]
    checkpoint_interval_ms: int | None
    vertices: list[_Vertex]


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgpack_decoder(_Job)


def serialize_job_graph(job: JobGraph) -> bytes:
    """Return the binary form of a job."""
    body = _Job(
        name=job.name,
        configuration=dict(job.configuration),
        checkpoint_interval_ms=job.checkpoint_interval_ms,
        vertices=[_vertex_out(vertex) for vertex in job.vertices.values()],
    )
    return MAGIC + VERSION.to_bytes(2, "big") + job.job_id + _ENCODER.encode(body)


def deserialize_job_graph(data: bytes) -> JobGraph:
    """Read the binary form of a job.

    Raises:
        SerializationError: The bytes are not a JobGraph, or one of another version.
    """
    if len(data) < _HEADER_BYTES or data[:4] != MAGIC:
        raise SerializationError("these bytes are not a JobGraph")
    version = int.from_bytes(data[4:6], "big")
    if version != VERSION:
        raise SerializationError(f"JobGraph version {version} is not known; this is {VERSION}")
    try:
        body = _DECODER.decode(data[_HEADER_BYTES:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SerializationError(f"the JobGraph is damaged: {error}") from error
    vertices = {}
    for vertex in body.vertices:
        if vertex.id in vertices:
            raise SerializationError(f"the JobGraph has two vertices {vertex.id.hex()}")
        vertices[vertex.id] = _vertex_in(vertex)
    return JobGraph(
        name=body.name,
        vertices=vertices,
        configuration=body.configuration,
        checkpoint_interval_ms=body.checkpoint_interval_ms,
        job_id=data[6:_HEADER_BYTES],
    )


def _vertex_out(vertex: JobVertex) -> _Vertex:
    descriptions = vertex.descriptions or ("",) * len(vertex.operators)
    return _Vertex(
        id=vertex.id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        max_parallelism_configured=vertex.max_parallelism_configured,
        operators=[
            _Operator(o.id, o.uid, o.uid_hash, o.name, description)
            for o, description in zip(vertex.operators, descriptions, strict=True)
        ],
        code=vertex.code,
        inputs=[
            _Edge(e.dataset_id, e.distribution.value, e.ship_strategy, e.input_number)
            for e in vertex.inputs
        ],
        produced=[_DataSet(d.id, d.type, d.buffer_timeout_ms) for d in vertex.produced],
        slot_sharing_group=vertex.slot_sharing_group,
        co_location_group=vertex.co_location_group,
        resources=dict(vertex.resources),
        is_source=vertex.is_source,
        bounded=vertex.bounded,
        coordinators=list(vertex.coordinators),
        has_own_parallelism=vertex.has_own_parallelism,
    )


def _vertex_in(vertex: _Vertex) -> JobVertex:
    for id_ in (vertex.id, *(d.id for d in vertex.produced), *(o.id for o in vertex.operators)):
        if len(id_) != _ID_BYTES:
            raise SerializationError(f"an id of vertex {vertex.name!r} has {len(id_)} bytes")
    if not 1 <= vertex.parallelism <= vertex.max_parallelism:
        raise SerializationError(
            f"vertex {vertex.name!r} has parallelism {vertex.parallelism} of at most "
            f"{vertex.max_parallelism}"
        )
    try:
        inputs = [
            JobEdge(
                e.dataset_id,
                vertex.id,
                DistributionPattern(e.distribution),
                e.ship_strategy,
                e.input_number,
            )
            for e in vertex.inputs
        ]
    except ValueError as error:
        raise SerializationError(f"vertex {vertex.name!r}: {error}") from error
    return JobVertex(
        id=vertex.id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        max_parallelism_configured=vertex.max_parallelism_configured,
        operators=tuple(
            OperatorIdentity(o.id, o.uid, o.uid_hash, o.name) for o in vertex.operators
        ),
        code=vertex.code,
        inputs=inputs,
        produced=[
            IntermediateDataSet(d.id, vertex.id, d.type, d.buffer_timeout_ms)
            for d in vertex.produced
        ],
        slot_sharing_group=vertex.slot_sharing_group,
        co_location_group=vertex.co_location_group,
        resources=vertex.resources,
        is_source=vertex.is_source,
        bounded=vertex.bounded,
        descriptions=tuple(o.description for o in vertex.operators),
        coordinators=tuple(vertex.coordinators),
        has_own_parallelism=vertex.has_own_parallelism,
    )
