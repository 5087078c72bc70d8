"""The sink of ``execute_and_collect``: sends records to the driver in batches.

In a job with checkpoints the driver shows a batch once a checkpoint that contains it is complete;
the sink's state is the number of batches sent.  Thus batches sent again after a failure were not
shown before.  A job in BATCH mode has no checkpoints; if it may restart, all results are shown when
the sink has finished.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from penstock.common.jobs.collected_batch import append_element
from penstock.common.options import restart_strategy
from penstock.common.options.checkpointing import INTERVAL, MODE
from penstock.common.typeinfo import Types
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import SinkError
from penstock.serialization.type_serializer import JobTypeSerializer
from penstock.taskexecutor.checkpointing.final_checkpoint import awaits_final_checkpoint
from penstock.taskexecutor.compiled import StreamOperator

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.graph import operators
    from penstock.rpc.collect_client import CollectClient
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

logger = logging.getLogger(__name__)

_BATCH_BYTES = 64 * 1024
"""Size at which results are sent without waiting for more."""
_STATE: Final = "sent_batches"


def create_collect_sink(
    context: OperatorContext, descriptor: operators.CollectSink
) -> StreamOperator:
    """Create the sink named by ``collect_id``."""
    return CollectSink(context, descriptor)


class CollectSink(StreamOperator):
    """Encodes records and sends a batch once it is large or has waited long enough.

    If the driver closes the connection, it wants no more results and cancels the job: records
    produced until then are dropped.
    """

    def __init__(self, context: OperatorContext, descriptor: operators.CollectSink) -> None:
        """Create the sink; ``open`` connects it."""
        super().__init__()
        self.encode = JobTypeSerializer[Any](descriptor.element_type).serialize
        self.collect_id = descriptor.collect_id
        self.flush_after_ms = context.config.buffer_timeout_ms
        self.batch = bytearray()
        self.client: CollectClient | None = None
        self.flush_pending = False
        configuration = context.environment.configuration
        self.has_checkpoints = not context.is_batch and INTERVAL.read(configuration) is not None
        self.commits = self.has_checkpoints and MODE.read(configuration) == "EXACTLY_ONCE"
        self.shows_all_at_its_end = (
            context.is_batch and restart_strategy.TYPE.read(configuration) != "none"
        )
        self.awaits_last_checkpoint = self.commits and awaits_final_checkpoint(configuration)
        self.has_ended = False
        self.sent = 0
        self.state: Any = None
        # (checkpoint, batches sent before it, whether it holds the end)
        self.snapshots: list[tuple[int, int, bool]] = []

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the number of batches that were sent before the checkpoint."""
        if self.commits:
            descriptor = ListStateDescriptor(_STATE, Types.TUPLE([Types.STRING(), Types.LONG()]))
            self.state = context.get_operator_state_store().get_list_state(descriptor)
            # A savepoint's results of another job were sent to that job's program.
            self.sent = sum(sent for owner, sent in self.state.get() if owner == self.collect_id)

    def open(self) -> None:
        """Connect to the driver."""
        self.client = self.context.environment.open_collect_channel(self.collect_id)
        if self.has_checkpoints:
            self.client.on_unread = self._say_unread
        if self.commits or self.shows_all_at_its_end:
            self._tell(lambda client: client.resume(self.sent))

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        del timestamp
        append_element(self.batch, self.encode(value))
        if len(self.batch) >= _BATCH_BYTES or self.flush_after_ms == 0:
            self._send(0)
        elif not self.flush_pending and self.flush_after_ms > 0:
            self.flush_pending = True
            timers = self.context.processing_time
            timers.register(timers.now() + self.flush_after_ms, self._send)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Send the results before the barrier: a restart does not send them again."""
        self._send(0)

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Store the number of batches sent, all of them before the barrier."""
        if self.commits:
            self._send(0)
            self._tell(lambda client: client.sync(self.sent))
            self.state.update([(self.collect_id, self.sent)])
            self.snapshots.append((context.get_checkpoint_id(), self.sent, self.has_ended))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Let the driver show the results that the checkpoint contains."""
        complete = [held for held in self.snapshots if held[0] <= checkpoint_id]
        if complete:
            self.snapshots = self.snapshots[len(complete) :]
            _, sent, has_ended = complete[-1]
            if has_ended:
                self._finish()
            else:
                self._tell(lambda client: client.commit(sent))

    def finish(self) -> None:
        """Send the remaining records."""
        self.has_ended = True
        self._send(0)
        if not self.awaits_last_checkpoint:
            self._finish()

    def close(self) -> None:
        """Close the connection."""
        if self.client is not None:
            self.client.close()

    def _say_unread(self, waited_s: float) -> None:
        """Log why checkpoints expire: their barriers wait behind a waiting record."""
        logger.warning(
            "%s has waited %g s for the program to read the results of execute_and_collect, and no "
            "checkpoint can complete meanwhile: keep reading, or close the results, which cancels "
            "the job",
            self.context.name,
            waited_s,
        )

    def _send(self, timestamp: int) -> None:
        del timestamp
        self.flush_pending = False
        if self.batch:
            self.sent += 1
            self._tell(lambda client: client.send(bytes(self.batch)))
        self.batch.clear()

    def _finish(self) -> None:
        """Report the end of the results; later checkpoints no longer contact the driver."""
        self._tell(lambda client: client.finish())
        self.client = None

    def _tell(self, action: Callable[[CollectClient], None]) -> None:
        """Run an action on the connection, as long as the driver wants results.

        Raises:
            SinkError: The connection broke in a job with checkpoints.  The sink cannot tell whether
                the driver wants no more or has lost the connection: in the first case the job is
                being cancelled, in the other a new attempt sends again what the driver lacks.
        """
        if self.client is None:
            return
        try:
            action(self.client)
        except OSError as error:
            self.client.close()
            self.client = None
            if self.commits:
                msg = f"the driver accepts no more results of {self.context.name}: {error}"
                raise SinkError(msg) from error
