"""Identifiers of partitions and channels, for programs without a job that would provide them.

Both runtimes accept an identifier as its 60 bytes, and a channel as a tuple; these classes add
constructors that name the parts.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, NamedTuple

from penstock.graph.ids import ExecutionAttemptID, ResultPartitionID

if TYPE_CHECKING:
    from typing import Self

_ID_BYTES = 16


class PartitionId(bytes):
    """The 60 bytes that identify the output of one attempt of a producer.

    Its parts are the data set (16 bytes), the number of the producer, and the producer's attempt
    (40 bytes), as in `penstock.graph.ids.ResultPartitionID`.
    """

    __slots__ = ()

    @classmethod
    def named(cls, name: str, producer: int = 0, attempt: int = 0) -> Self:
        """Return the identifier of a producer's output of the data set ``name``.

        Equal arguments produce equal identifiers, so two processes need to agree on the name only.

        Args:
            name: The name of the data set; any text.
            producer: The number of the producer among those of the data set, from 0.
            attempt: The number of the attempt of this producer, from 0.

        Raises:
            ValueError: a number is negative or has more than 31 bits.
        """
        digest = hashlib.sha256(name.encode()).digest()
        return cls._of(digest[:_ID_BYTES], producer, attempt)

    @classmethod
    def random(cls) -> Self:
        """Return a unique identifier."""
        return cls._of(secrets.token_bytes(_ID_BYTES), 0, 0)

    @classmethod
    def _of(cls, dataset_id: bytes, producer: int, attempt: int) -> Self:
        for what, number in (("producer", producer), ("attempt", attempt)):
            if not 0 <= number < 2**31:
                raise ValueError(f"the {what} is {number}; it must be between 0 and {2**31 - 1}")
        execution = ExecutionAttemptID(dataset_id, dataset_id, producer, attempt)
        return cls(ResultPartitionID(dataset_id, producer, execution).to_bytes())

    def __repr__(self) -> str:
        return f"PartitionId({self.hex()})"


class InputChannelId(NamedTuple):
    """One channel of an input gate: a subpartition of a partition, and its address.

    Attributes:
        partition_id: The identifier of the partition.
        subpartition: The index of the subpartition that the channel reads.
        address: Host and port of the producer's environment; None for the gate's own environment.
    """

    partition_id: bytes
    subpartition: int = 0
    address: tuple[str, int] | None = None
