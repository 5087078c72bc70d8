"""A channel whose producer is in the same process (internals M22)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import (
    CancelTaskError,
    IllegalStateError,
    PartitionNotFoundError,
    ProducerFailedError,
)
from penstock.network.data_type import DataType
from penstock.network.pure.gate.input_channel import ChannelBuffer, InputChannel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.network.pure.gate.input_channel import ChannelGate
    from penstock.network.pure.memory.buffer import AnyBuffer
    from penstock.network.pure.partition.manager import ResultPartitionManager
    from penstock.network.pure.partition.result_partition import (
        AnySubpartitionView,
        ResultPartition,
    )


class LocalInputChannel(InputChannel):
    """Polls the producer's subpartition in this process: no copies, no credit."""

    def __init__(
        self,
        gate: ChannelGate,
        index: int,
        partition_id: bytes,
        subpartition: int,
        partitions: ResultPartitionManager,
        call_later: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(gate, index, partition_id, subpartition)
        self._partitions = partitions
        self._call_later = call_later
        self._view: AnySubpartitionView | None = None

    def _request_subpartition(self) -> None:
        """Open the view, or wait until the partition is registered."""
        partition = self._partitions.find_or_listen(self.partition_id, self._open)
        if partition is not None:
            self._open(partition)
        else:
            self._call_later(self._expire)

    def _open(self, partition: ResultPartition) -> None:
        try:
            view = partition._create_subpartition_view(self.subpartition, self)
        except (PartitionNotFoundError, ProducerFailedError, IllegalStateError) as error:
            self.fail(error)
            return
        with self._lock:
            self._view = view
            released = self._released
        if released:
            view.release_all_resources()
        else:
            # Data that the view announced before it was stored could not be polled yet.
            self.notify_data_available()

    def _expire(self) -> None:
        if self._partitions.remove_listener(self.partition_id, self._open):
            self.fail(
                PartitionNotFoundError(
                    f"partition {self.partition_id.hex()} was not registered in time"
                )
            )

    def notify_data_available(self) -> None:
        """Notify the gate that the view has data."""
        self._gate.notify_channel_non_empty(self.index)

    def notify_priority_event(self, sequence_number: int) -> None:
        """Notify the gate that the view has a priority event."""
        del sequence_number
        self._gate.notify_channel_non_empty(self.index, priority=True)

    def next_buffer(self) -> ChannelBuffer | None:
        """Poll the view."""
        self._check_error()
        with self._lock:
            if self._released:
                raise CancelTaskError("the input channel has been released")
            view = self._view
        if view is None:
            return None
        result = view.get_next_buffer()
        if result is None:
            if view.is_released:
                self._raise_released(view)
            return None
        with self._lock:
            self._persister.on_arrival(result.buffer, ())
            belongs = self._persister.on_taken(result.buffer)
        if belongs:
            self._kept.append(bytes(result.buffer._readable()))
        return ChannelBuffer(result.buffer, result.next_data_type is not DataType.NONE)

    def _raise_released(self, view: AnySubpartitionView) -> None:
        if view.failure_cause is not None:
            raise ProducerFailedError(view.failure_cause)
        raise CancelTaskError(f"partition {self.partition_id.hex()} has been released")

    def resume_consumption(self) -> None:
        """Unblock the view; it may have data already."""
        with self._lock:
            view = self._view
        if view is None:
            raise IllegalStateError("the channel has no partition yet")
        view.resume_consumption()
        self.notify_data_available()

    def send_task_event(self, event: bytes) -> None:
        """Pass the event to the partition."""
        try:
            self._partitions.publish_task_event(self.partition_id, event)
        except IllegalStateError as error:
            self.fail(error)

    def _waiting(self) -> Iterable[AnyBuffer]:
        """Return nothing: the producer stores the data that its barrier overtakes."""
        return ()

    @property
    def has_priority(self) -> bool:
        """Return whether the next element is an event that overtakes data."""
        with self._lock:
            view = None if self._released else self._view
        return view is not None and view.has_priority

    @property
    def buffers_in_use(self) -> int:
        """Elements queued in the subpartition."""
        with self._lock:
            view = None if self._released else self._view
        return view.num_queued if view is not None else 0

    def announce_buffer_size(self, size: int) -> None:
        """Announce the size to the subpartition."""
        with self._lock:
            view = None if self._released else self._view
        if view is not None:
            view.notify_new_buffer_size(size)

    def release(self) -> None:
        """Release the view."""
        with self._lock:
            if self._released:
                return
            self._released = True
            view = self._view
        self._partitions.remove_listener(self.partition_id, self._open)
        if view is not None:
            view.release_all_resources()
