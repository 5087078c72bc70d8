"""The split of a batch among the subtasks that own the key groups of its keys."""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from penstock import network
from penstock.columns.key_columns import KeyColumns, key_hashes
from penstock.graph.key_groups import key_group, operator_index

if TYPE_CHECKING:
    from penstock.columns.column_batch import ColumnBatch


class Records(Protocol):
    """Consecutive records as columns: a `ColumnBatch`, or a ``pyarrow.RecordBatch``."""

    def __len__(self) -> int: ...

    def take(self, indices: Any) -> Self:
        """Return the records at some positions."""

    def slice(self, offset: int, length: int) -> Self:
        """Return some consecutive records."""


RecordsT = TypeVar("RecordsT", bound=Records)


def key_groups(batch: ColumnBatch, key: KeyColumns, max_parallelism: int) -> array[int]:
    """Return the key group of each record."""
    hashes = key_hashes(batch, key)
    return array("i", [key_group(hash_, max_parallelism) for hash_ in hashes])


class HashPartition:
    """Splits batches by the hashes of keys: each record goes to the channel of its key."""

    def __init__(self, max_parallelism: int, num_channels: int) -> None:
        """Compute the owner of each key group.

        Args:
            max_parallelism: The number of key groups.
            num_channels: The parallelism of the receivers.
        """
        self._num_channels = num_channels
        self._owners = array(
            "i",
            [
                operator_index(max_parallelism, num_channels, group)
                for group in range(max_parallelism)
            ],
        )

    def split_hashed(self, hashes: array[int], batch: RecordsT) -> list[tuple[int, RecordsT]]:
        """Return the parts of the channels that receive records, in the order of the channels.

        The records of a channel keep their order.

        Args:
            hashes: The hash of the key of each record; at least one.
            batch: The records.
        """
        order, ends = self.order(hashes)
        bounds = list(pairwise([0, *ends]))
        is_of_one = any(end - start == len(batch) for start, end in bounds)
        gathered = batch if is_of_one else batch.take(order)
        return [
            (channel, gathered.slice(start, end - start))
            for channel, (start, end) in enumerate(bounds)
            if end > start
        ]

    def order(self, hashes: array[int]) -> tuple[Any, array[int]]:
        """Return the positions of the records by channel, and the end of each channel's."""
        import pyarrow as pa

        order = array("i", bytes(4 * len(hashes)))
        ends = array("i", bytes(4 * self._num_channels))
        if network.runtime() == "native":
            from penstock._native.keys.column_hash import order_by_channel

            order_by_channel(hashes, self._owners, order, ends)
        else:
            groups = len(self._owners)
            channels = [self._owners[key_group(hash_, groups)] for hash_ in hashes]
            order = array("i", sorted(range(len(channels)), key=channels.__getitem__))
            found = 0
            for channel in range(self._num_channels):
                found += channels.count(channel)
                ends[channel] = found
        buffer = pa.py_buffer(order)
        return pa.Array.from_buffers(pa.int32(), len(hashes), [None, buffer]), ends


class Partition(HashPartition):
    """Splits batches by key."""

    def __init__(self, key: KeyColumns, max_parallelism: int, num_channels: int) -> None:
        """Compute the owner of each key group.

        Args:
            key: The fields that are the key.
            max_parallelism: The number of key groups.
            num_channels: The parallelism of the receivers.
        """
        super().__init__(max_parallelism, num_channels)
        self._key = key

    def split(self, batch: ColumnBatch) -> list[tuple[int, ColumnBatch]]:
        """Return the parts of the channels that receive records; see `split_by`."""
        return self.split_by(batch, batch)

    def split_by(self, keys: ColumnBatch, batch: RecordsT) -> list[tuple[int, RecordsT]]:
        """Return the parts of the channels that receive records; see `split_hashed`.

        Args:
            keys: Records with the key columns, as many as in the batch.
            batch: The records.

        Raises:
            SerializationError: A key cannot be serialised.
        """
        if len(batch) == 0:
            return []
        if self._num_channels == 1:
            return [(0, batch)]
        return self.split_hashed(key_hashes(keys, self._key), batch)


def partition(
    batch: ColumnBatch, key: KeyColumns, max_parallelism: int, num_channels: int
) -> list[tuple[int, ColumnBatch]]:
    """Split one batch by key; to split many batches, reuse a `Partition`."""
    return Partition(key, max_parallelism, num_channels).split(batch)
