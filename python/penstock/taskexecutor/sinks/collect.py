"""The sink of ``execute_and_collect``: sends elements to the driver in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.collected_batch import append_element
from penstock.serialization.codec import codec_for
from penstock.taskexecutor.compiled import StreamOperator

if TYPE_CHECKING:
    from penstock.rpc.collect_client import CollectClient
    from penstock.taskexecutor.task.operator_context import OperatorContext

_BATCH_BYTES = 64 * 1024


def create_collect_sink(context: OperatorContext) -> StreamOperator:
    """The sink named by ``collect_id``."""
    return CollectSink(context)


class CollectSink(StreamOperator):
    """Encodes elements and sends a batch when it is large or has waited long enough.

    Once the driver has closed the connection, it wants no more results and cancels the job: what
    is still produced until then is dropped.
    """

    def __init__(self, context: OperatorContext) -> None:
        """Creates the sink; the connection is made by ``open``."""
        super().__init__()
        arguments = context.descriptor.arguments
        input_types = context.config.input_types
        declared = arguments.get("type", input_types[0] if input_types else None)
        self.encode = codec_for(declared).encode
        self.collect_id: str = arguments["collect_id"]
        self.flush_after_ms = context.config.buffer_timeout_ms
        self.batch = bytearray()
        self.client: CollectClient | None = None
        self.flush_pending = False

    def open(self) -> None:
        """Prepares for elements."""
        self.client = self.context.environment.open_collect_channel(self.collect_id)

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        del timestamp
        try:
            append_element(self.batch, self.encode(value))
        except BaseException as error:
            self.failed_with = error
            raise
        if len(self.batch) >= _BATCH_BYTES or self.flush_after_ms == 0:
            self._send(0)
        elif not self.flush_pending and self.flush_after_ms > 0:
            self.flush_pending = True
            timers = self.context.processing_time
            timers.register(timers.now() + self.flush_after_ms, self._send)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """What came before the barrier is sent: who starts from the snapshot sends it no more."""
        self._send(0)

    def finish(self) -> None:
        """Emits what is still kept."""
        self._send(0)
        if self.client is not None:
            try:
                self.client.finish()
            except OSError:
                self.client = None

    def close(self) -> None:
        """Releases what was opened."""
        if self.client is not None:
            self.client.close()

    def _send(self, timestamp: int) -> None:
        del timestamp
        self.flush_pending = False
        if self.batch and self.client is not None:
            try:
                self.client.send(bytes(self.batch))
            except OSError:
                self.client = None
        self.batch.clear()
