"""Raw state: bytes that a function itself writes to a snapshot and reads from it."""

from __future__ import annotations

import io
from typing import BinaryIO

from penstock.datastream.functions.checkpointed import (
    KeyedStateCheckpointOutputStream,
    KeyGroupStatePartitionStreamProvider,
    OperatorStateCheckpointOutputStream,
    StatePartitionStreamProvider,
)


class RawOperatorStateOutput(OperatorStateCheckpointOutputStream):
    """Collects the partitions of one subtask's raw state."""

    def __init__(self) -> None:
        """Start without partitions."""
        self._partitions: list[bytearray] = []

    def start_new_partition(self) -> None:
        """Start another partition for the bytes written from here on."""
        self._partitions.append(bytearray())

    def write(self, data: bytes) -> None:
        """Append bytes to the partition."""
        if not self._partitions:
            self.start_new_partition()
        self._partitions[-1] += data

    def partitions(self) -> tuple[bytes, ...]:
        """Return the written partitions."""
        return tuple(map(bytes, self._partitions))


class RawKeyedStateOutput(KeyedStateCheckpointOutputStream):
    """Collects the raw state of one subtask's key groups."""

    def __init__(self, key_groups: range) -> None:
        """Start without content."""
        self._key_groups = key_groups
        self._content: dict[int, bytearray] = {}
        self._current: bytearray | None = None

    def get_key_group_list(self) -> range:
        """Return the key groups of this subtask."""
        return self._key_groups

    def start_new_key_group(self, key_group_id: int) -> None:
        """Start the part of a key group for the bytes written from here on."""
        if key_group_id not in self._key_groups:
            raise ValueError(
                f"key group {key_group_id} is not one of this subtask's, which are "
                f"{self._key_groups.start} to {self._key_groups.stop - 1}"
            )
        if key_group_id in self._content:
            raise ValueError(f"the raw state of key group {key_group_id} was written before")
        self._current = self._content[key_group_id] = bytearray()

    def write(self, data: bytes) -> None:
        """Append bytes to the key group."""
        if self._current is None:
            raise ValueError("start_new_key_group must be called before raw keyed state is written")
        self._current += data

    def key_groups(self) -> dict[int, bytes]:
        """Return the written key groups."""
        return {group: bytes(content) for group, content in self._content.items()}


class RawStatePartition(StatePartitionStreamProvider):
    """One partition to read."""

    def __init__(self, content: bytes) -> None:
        """Create a provider of ``content``."""
        self._content = content

    def get_stream(self) -> BinaryIO:
        """Return a new stream over the bytes."""
        return io.BytesIO(self._content)


class RawKeyGroup(RawStatePartition, KeyGroupStatePartitionStreamProvider):
    """The raw state of one key group to read."""

    def __init__(self, key_group_id: int, content: bytes) -> None:
        """Create a provider of ``content``."""
        super().__init__(content)
        self._key_group_id = key_group_id

    def get_key_group_id(self) -> int:
        """Return the key group."""
        return self._key_group_id
