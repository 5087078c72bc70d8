"""Binary identities that cross processes; all big-endian, shown as hex.

| identity | bytes | parts |
|---|---|---|
| JobVertexID, OperatorID, IntermediateDataSetID, JobID | 16 | opaque |
| ExecutionAttemptID | 40 | graph 16, vertex 16, subtask i32, attempt i32 |
| ResultPartitionID | 60 | data set 16, partition number i32, producer's attempt 40 |
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_ATTEMPT: Final = struct.Struct(">16s16sii")
_PARTITION: Final = struct.Struct(">16si40s")


class ExecutionAttemptID(NamedTuple):
    """One attempt of one subtask; a restart creates another id."""

    graph_id: bytes
    vertex_id: bytes
    subtask: int
    attempt: int

    def to_bytes(self) -> bytes:
        """Return the 40 bytes of the id."""
        return _ATTEMPT.pack(*self)

    @classmethod
    def from_bytes(cls, data: bytes) -> ExecutionAttemptID:
        """Parse the 40 bytes of an id.

        Raises:
            ValueError: There are more or fewer bytes.
        """
        if len(data) != _ATTEMPT.size:
            raise ValueError(f"an attempt id has {_ATTEMPT.size} bytes, got {len(data)}")
        return cls(*_ATTEMPT.unpack(data))

    def __str__(self) -> str:
        return f"{self.vertex_id.hex()}_{self.subtask}_{self.attempt}"


class ResultPartitionID(NamedTuple):
    """Id of the data that one attempt of a producer writes for one data set."""

    dataset_id: bytes
    partition: int
    producer: ExecutionAttemptID

    def to_bytes(self) -> bytes:
        """Return the 60 bytes of the id."""
        return _PARTITION.pack(self.dataset_id, self.partition, self.producer.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> ResultPartitionID:
        """Parse the 60 bytes of an id.

        Raises:
            ValueError: There are more or fewer bytes.
        """
        if len(data) != _PARTITION.size:
            raise ValueError(f"a partition id has {_PARTITION.size} bytes, got {len(data)}")
        dataset_id, partition, producer = _PARTITION.unpack(data)
        return cls(dataset_id, partition, ExecutionAttemptID.from_bytes(producer))
