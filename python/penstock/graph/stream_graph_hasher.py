"""StreamGraphHasher: stable ids, by which a restore finds an operator's state.

With a uid the id is the hash of the uid.  Without one it follows from the operator's place in the
topology: the visit index, the number of chained successors and the ids of its inputs, so that
downstream changes do not affect it.  Hash: MurmurHash3 x64 128-bit (Appleby, public domain), seed
0.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.common.options.pipeline import AUTO_GENERATE_UIDS
from penstock.errors import InvalidProgramError
from penstock.graph.chaining import is_chainable

if TYPE_CHECKING:
    from penstock.graph.stream_graph import StreamGraph, StreamNode

#: The uid of the sink of execute-and-collect; a job has at most one.  Its state belongs to the
#: program that reads the results, so another job can do without it.
COLLECT_SINK_UID: Final = "penstock: results of execute-and-collect"

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


def murmur3_128(data: bytes) -> bytes:
    """Return the 16-byte MurmurHash3 x64 128 of the data, seed 0, little-endian halves."""
    h1 = h2 = 0
    length = len(data)
    blocks = length // 16
    for i in range(blocks):
        k1 = int.from_bytes(data[i * 16 : i * 16 + 8], "little")
        k2 = int.from_bytes(data[i * 16 + 8 : i * 16 + 16], "little")
        h1 ^= _mix_k1(k1)
        h1 = _rotl(h1, 27)
        h1 = ((h1 + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mix_k2(k2)
        h2 = _rotl(h2, 31)
        h2 = ((h2 + h1) * 5 + 0x38495AB5) & _MASK
    tail = data[blocks * 16 :]
    h2 ^= _mix_k2(int.from_bytes(tail[8:], "little"))
    h1 ^= _mix_k1(int.from_bytes(tail[:8], "little"))
    h1 ^= length
    h2 ^= length
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1 = _fmix(h1)
    h2 = _fmix(h2)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return h1.to_bytes(8, "little") + h2.to_bytes(8, "little")


def _rotl(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mix_k1(k: int) -> int:
    return _rotl(k * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_k2(k: int) -> int:
    return _rotl(k * _C2 & _MASK, 33) * _C1 & _MASK


def _fmix(k: int) -> int:
    k ^= k >> 33
    k = k * 0xFF51AFD7ED558CCD & _MASK
    k ^= k >> 33
    k = k * 0xC4CEB9FE1A85EC53 & _MASK
    return k ^ k >> 33


def uid_to_operator_id(uid: str) -> bytes:
    """Return the operator id of a uid."""
    return murmur3_128(uid.encode("utf-8"))


class StreamGraphHasher:
    """Gives every operator of a StreamGraph its id."""

    def __init__(self, graph: StreamGraph, *, auto_generate: bool = True) -> None:
        """Visit nothing yet.

        Args:
            graph: The graph with its final settings, as chaining affects ids.
            auto_generate: Whether nodes without a uid may get an id from the topology.
        """
        self._graph = graph
        self._auto_generate = auto_generate

    def operator_ids(self) -> dict[int, bytes]:
        """Return the id of every node.

        Raises:
            InvalidProgramError: A uid or uid hash is used twice, empty, or missing where it is
                required.
        """
        ids: dict[int, bytes] = {}
        owners: dict[bytes, StreamNode] = {}
        pending: deque[int] = deque(sorted(self._graph.source_ids))
        queued = set(pending)
        while pending:
            node = self._graph.nodes[pending.popleft()]
            queued.discard(node.id)
            if any(edge.source_id not in ids for edge in node.in_edges):
                # Another input has not been visited yet; its visit puts the node back in the queue.
                continue
            operator_id = self._operator_id(node, ids)
            owner = owners.setdefault(operator_id, node)
            if owner is not node:
                raise InvalidProgramError(
                    f"Hash collision on user-specified ID: operators {owner.name!r} and "
                    f"{node.name!r} have the same id (uid {node.uid!r}); every uid must be unique "
                    "in a job"
                )
            ids[node.id] = operator_id
            for edge in node.out_edges:
                if edge.target_id not in ids and edge.target_id not in queued:
                    pending.append(edge.target_id)
                    queued.add(edge.target_id)
        _check_uid_hashes(self._graph)
        return ids

    def _operator_id(self, node: StreamNode, ids: dict[int, bytes]) -> bytes:
        if node.uid == "":
            raise InvalidProgramError(
                f"operator {node.name!r} has an empty uid: pass a name of its own to uid(...), or "
                "leave the call out"
            )
        if node.uid is not None:
            return uid_to_operator_id(node.uid)
        if not self._auto_generate and node.uid_hash is None:
            raise InvalidProgramError(
                f"{AUTO_GENERATE_UIDS.key} is off and operator {node.name!r} has no uid: give it "
                "one with uid(...)"
            )
        chained = sum(1 for edge in node.out_edges if is_chainable(edge, self._graph))
        index = len(ids).to_bytes(4, "little")
        digest = bytearray(murmur3_128(index * (1 + chained)))
        for edge in node.in_edges:
            other = ids[edge.source_id]
            for j in range(16):
                digest[j] = (digest[j] * 37 & 0xFF) ^ other[j]
        return bytes(digest)


def _check_uid_hashes(graph: StreamGraph) -> None:
    users: dict[str, StreamNode] = {}
    for node in graph.nodes.values():
        if node.uid_hash is None:
            continue
        other = users.setdefault(node.uid_hash, node)
        if other is not node:
            raise InvalidProgramError(
                f"Hash collision on user-specified ID: operators {other.name!r} and "
                f"{node.name!r} have the same uid hash {node.uid_hash}"
            )
