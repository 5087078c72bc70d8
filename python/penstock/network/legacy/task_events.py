"""Listeners of task events, on the reading and on the writing side (internals M14).

With the stream, a task event arrives at a reader, which passes it to its own listeners.  Against
the stream, ``InputGate.send_task_event`` sends it to the result partition that the gate reads;
there it waits until the producing task calls ``TaskEventDispatcher.dispatch``, so that listeners
run in the task's own thread and never in a network thread.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.errors import CorruptStreamError, IllegalStateError
from penstock.network.events import TaskEvent, parse_event

if TYPE_CHECKING:
    from penstock.network.pure.partition.result_partition import ResultPartition

TaskEventListener = Callable[[TaskEvent], None]


class TaskEventHandler:
    """Listeners by the name of the event."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[TaskEventListener]] = defaultdict(list)

    def subscribe(self, listener: TaskEventListener, name: str) -> None:
        """Call ``listener`` for every event of that name from now on."""
        self._listeners[name].append(listener)

    def publish(self, event: TaskEvent) -> None:
        """Call all listeners of an event, in the order in which they subscribed."""
        for listener in tuple(self._listeners.get(event.name, ())):
            listener(event)


class TaskEventDispatcher:
    """Dispatches events to the listeners of a task's partitions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[bytes, tuple[ResultPartition, TaskEventHandler]] = {}

    def register_partition(self, partition_id: bytes, partition: ResultPartition) -> None:
        """Start to dispatch events of a partition.

        Raises:
            IllegalStateError: the id is registered.
        """
        with self._lock:
            if partition_id in self._partitions:
                raise IllegalStateError(f"partition {partition_id.hex()} is registered already")
            self._partitions[partition_id] = (partition, TaskEventHandler())

    def unregister_partition(self, partition_id: bytes) -> None:
        """Remove a partition and its listeners; do nothing if it is not registered."""
        with self._lock:
            self._partitions.pop(partition_id, None)

    def subscribe(self, partition_id: bytes, listener: TaskEventListener, name: str) -> None:
        """Call ``listener`` for every event of that name that consumers of a partition send.

        Raises:
            IllegalStateError: the partition is not registered.
        """
        with self._lock:
            if partition_id not in self._partitions:
                raise IllegalStateError(f"partition {partition_id.hex()} is not registered")
            self._partitions[partition_id][1].subscribe(listener, name)

    def publish(self, partition_id: bytes, event: TaskEvent) -> bool:
        """Pass an event to the listeners of a partition; return False if it is not registered."""
        with self._lock:
            entry = self._partitions.get(partition_id)
        if entry is None:
            return False
        entry[1].publish(event)
        return True

    def dispatch(self) -> int:
        """Dispatch everything that has arrived at the registered partitions, without waiting.

        A task that has nothing else to do waits in ``ResultPartition.next_task_event``.

        Returns:
            Number of events.

        Raises:
            CancelTaskError: a partition was released.
            CorruptStreamError: received bytes are not a task event.
        """
        with self._lock:
            entries = list(self._partitions.values())
        count = 0
        for partition, handler in entries:
            while (event := partition.next_task_event(0)) is not None:
                handler.publish(_parse(event))
                count += 1
        return count

    def clear(self) -> None:
        """Remove all partitions and listeners."""
        with self._lock:
            self._partitions.clear()


def _parse(data: bytes) -> TaskEvent:
    event = parse_event(data)
    if not isinstance(event, TaskEvent):
        raise CorruptStreamError(f"{type(event).__name__} was sent against the stream")
    return event
