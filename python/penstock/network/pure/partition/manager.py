"""The result partitions of one environment, by id (internals M21)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.errors import IllegalStateError
from penstock.network.pure.partition.result_partition import ResultPartition
from penstock.network.pure.partition.task_events import nobody_listens

PartitionListener = Callable[[ResultPartition], None]


class ResultPartitionManager:
    """Finds partitions; a consumer that requests one early registers a listener."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[bytes, ResultPartition] = {}
        self._listeners: dict[bytes, list[PartitionListener]] = {}

    def register(self, partition: ResultPartition) -> None:
        """Register a partition.

        Raises:
            IllegalStateError: its id is taken.
        """
        with self._lock:
            if partition._partition_id in self._partitions:
                raise IllegalStateError("the partition is registered already")
            self._partitions[partition._partition_id] = partition
            listeners = self._listeners.pop(partition._partition_id, [])
        for listener in listeners:
            listener(partition)

    def unregister(self, partition: ResultPartition) -> None:
        """Unregister a released partition, but not another one with the same id."""
        with self._lock:
            if self._partitions.get(partition._partition_id) is partition:
                del self._partitions[partition._partition_id]

    def find_or_listen(
        self, partition_id: bytes, listener: PartitionListener
    ) -> ResultPartition | None:
        """Return the partition; if None, ``listener`` is called when it is registered."""
        with self._lock:
            partition = self._partitions.get(partition_id)
            if partition is None:
                self._listeners.setdefault(partition_id, []).append(listener)
            return partition

    def publish_task_event(self, partition_id: bytes, event: bytes) -> None:
        """Queue an event for the task that writes a partition.

        Raises:
            IllegalStateError: the partition is not in this process, or its task has too many unread
                events.
        """
        with self._lock:
            partition = self._partitions.get(partition_id)
        if partition is None:
            raise nobody_listens()
        partition._task_events.push(event)

    def remove_listener(self, partition_id: bytes, listener: PartitionListener) -> bool:
        """Remove a listener; return False if it was called already."""
        with self._lock:
            listeners = self._listeners.get(partition_id, [])
            if listener not in listeners:
                return False
            listeners.remove(listener)
            if not listeners:
                del self._listeners[partition_id]
            return True

    def partitions(self) -> list[ResultPartition]:
        """Return all partitions."""
        with self._lock:
            return list(self._partitions.values())
