"""SourceCoordinator: the part of a source that runs once per job, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.calls.coroutines import refuse_coroutines
from penstock.connectors.split_source import ReaderInfo, SplitEnumeratorContext
from penstock.errors import QueueFullError
from penstock.jobmaster.main_thread import MainThread
from penstock.jobmaster.queue_limits import MAX_ENUMERATOR_CALLS, MAX_READER_MESSAGES
from penstock.jobmaster.sources.event_gateway import EventGateway
from penstock.jobmaster.sources.split_assignments import SplitAssignments
from penstock.rpc import messages
from penstock.serialization.former_layouts import former_fields_taken
from penstock.serialization.type_serializer import TypeSerializer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.connectors.split_source import SplitEnumerator

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reader:
    """A running reader: its attempt, its host, and how to reach it."""

    attempt_id: bytes
    host: str
    send: Callable[[messages.FromCoordinator], object]


class SourceCoordinator:
    """Runs the enumerator of a source and tracks the splits that it assigned.

    A reader that fails starts from a checkpoint: the splits assigned to it since then go back to
    the enumerator.  Without checkpoints these are all splits it ever got.
    """

    def __init__(
        self,
        job_id: bytes,
        operator_id: bytes,
        source: Any,
        parallelism: int,
        fail: Callable[[BaseException], None],
    ) -> None:
        """Create a coordinator; `start` creates its enumerator.

        Args:
            job_id: The job.
            operator_id: The operator of the source.
            source: The PythonSource.
            parallelism: The number of its subtasks.
            fail: Fails the job, which may restart; called from the coordinator's thread.
        """
        self.operator_id = operator_id
        self.parallelism = parallelism
        self.readers: dict[int, Reader] = {}
        self.serializer: TypeSerializer[Any] = TypeSerializer()
        self._job_id = job_id
        self._source = source
        self._fail = fail
        self._assignments = SplitAssignments()
        self._gateways: dict[int, EventGateway[messages.FromCoordinator]] = {}
        self._enumerator: SplitEnumerator[Any] | None = None
        self._context: _EnumeratorContext | None = None
        self._has_failed = False
        self._closed = threading.Event()
        name = type(source).__name__
        # The job fails with the error, which the program raises.
        self._thread = MainThread(f"coordinator of {name}", self._failed, log_level=logging.DEBUG)
        self.thread = self._thread.user(f"calls of the enumerator of {name}", MAX_ENUMERATOR_CALLS)
        self._messages = self._thread.user(f"messages of readers of {name}", MAX_READER_MESSAGES)
        self._handlers: dict[type[messages.ToEnumerator], Callable[[int, Reader, Any], None]] = {
            messages.ReaderRegistration: self._register,
            messages.RequestSplit: self._request_split,
            messages.AcknowledgeCheckpointEvent: self._barrier_has_left,
            messages.SourceEvent: self._source_event,
        }

    def start(self, state: bytes | None = None) -> None:
        """Create and start the enumerator, in its thread.

        Args:
            state: A result of `checkpoint`; None to start without state.
        """
        self._thread.start()
        self.thread.post(lambda: self._start(state))

    def received(self, subtask: int, reader: Reader, message: messages.ToEnumerator) -> None:
        """Handle a message of a reader; any thread."""
        try:
            self._messages.post(lambda: self._handle(subtask, reader, message))
        except QueueFullError as error:
            self._fail(error)

    def checkpoint(self, checkpoint_id: int) -> Future[bytes]:
        """Snapshot the enumerator's state; any thread.

        When the future is done the readers may be asked for theirs, on the connections that carry
        the coordinator's messages: so earlier messages are in their states.  From then on nothing
        is sent to a reader until its barrier has left.
        """
        future: Future[bytes] = Future()

        def take() -> None:
            try:
                future.set_result(self._snapshot(checkpoint_id))
            except BaseException as error:
                future.set_exception(error)

        self.thread.post(take)
        return future

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the enumerator that a checkpoint and all earlier ones are complete; any thread."""

        def notify() -> None:
            self._assignments.completed(checkpoint_id)
            if self._is_running:
                self._running().notify_checkpoint_complete(checkpoint_id)

        self.thread.post(notify)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the enumerator that a checkpoint is aborted; any thread."""

        def notify() -> None:
            for gateway in self._gateways.values():
                gateway.open(checkpoint_id)
            if self._is_running:
                self._running().notify_checkpoint_aborted(checkpoint_id)

        self.thread.post(notify)

    def subtask_reset(self, subtask: int, checkpoint_id: int | None = None) -> None:
        """Reset a subtask whose attempt has ended, before the next one starts; any thread.

        Args:
            subtask: The subtask.
            checkpoint_id: The checkpoint that the next attempt starts from; None for none.
        """
        self.thread.post(lambda: self._reset(subtask, checkpoint_id))

    def reset(self, state: bytes | None = None, parallelism: int | None = None) -> None:
        """Replace the enumerator because the whole job restarts; any thread.

        Args:
            state: A result of `checkpoint`; None to start without state.
            parallelism: The new one; None if unchanged.
        """
        self.thread.post(lambda: self._recreate(state, parallelism or self.parallelism))

    def close(self) -> None:
        """Close the enumerator and end the thread; return at once.  Any thread, idempotent."""
        if not self._closed.is_set():
            self._closed.set()
            self.thread.post(self._close)
            threading.Thread(target=self._thread.close, daemon=True).start()

    def assign(self, assignment: Mapping[int, Sequence[object]]) -> None:
        """Send splits to readers."""
        for subtask in assignment:
            self._reader(subtask)
        for subtask, splits in assignment.items():
            attempt_id = self._reader(subtask).attempt_id
            self._assignments.assigned(subtask, splits)
            for batch in _batches([self.serializer.serialize(split) for split in splits]):
                self._send(subtask, messages.AddSplits(attempt_id, self.operator_id, batch))

    def no_more_splits(self, subtask: int) -> None:
        """Tell a reader that it has all its splits."""
        attempt_id = self._reader(subtask).attempt_id
        self._send(subtask, messages.NoMoreSplits(attempt_id, self.operator_id))

    def send_event(self, subtask: int, event: object) -> None:
        """Send an event to a reader."""
        attempt_id, data = self._reader(subtask).attempt_id, self.serializer.serialize(event)
        self._send(subtask, messages.SourceEvent(self._job_id, attempt_id, self.operator_id, data))

    @property
    def is_closed(self) -> bool:
        """Return whether the job has ended."""
        return self._closed.is_set()

    # ---- the coordinator's thread ------------------------------------------------------------

    def _start(self, state: bytes | None = None) -> None:
        self._context = _EnumeratorContext(self)
        if state is None:
            self._enumerator = self._source.create_enumerator(self._context)
        else:
            with former_fields_taken():
                content = self.serializer.deserialize(state)
            self._enumerator = self._source.restore_enumerator(self._context, content)
        refuse_coroutines(self._enumerator, "create_enumerator")
        self._running().start()

    def _snapshot(self, checkpoint_id: int) -> bytes:
        if not self._is_running:
            name = type(self._source).__name__
            raise RuntimeError(f"the enumerator of {name} has ended: no checkpoint {checkpoint_id}")
        state: bytes = self.serializer.serialize(self._running().snapshot_state(checkpoint_id))
        self._assignments.checkpoint(checkpoint_id)
        for gateway in self._gateways.values():
            gateway.close(checkpoint_id)
        return state

    def _recreate(self, state: bytes | None, parallelism: int) -> None:
        """Replace the enumerator with a new one, and forget everything about the old one."""
        try:
            self._close()
        except Exception:
            # It is gone; a failed close must not stop the new one.
            logger.exception("a source's enumerator could not be closed")
        self.parallelism = parallelism
        self.readers.clear()
        self._gateways.clear()
        self._assignments = SplitAssignments()
        self._has_failed = False
        if not self.is_closed:
            self._start(state)

    def _handle(self, subtask: int, reader: Reader, message: messages.ToEnumerator) -> None:
        if not self._is_running:
            return
        known = self.readers.get(subtask)
        is_known = known is not None and known.attempt_id == reader.attempt_id
        if is_known or type(message) is messages.ReaderRegistration:
            self._handlers[type(message)](subtask, reader, message)
        # Else an earlier attempt sent it.

    def _register(self, subtask: int, reader: Reader, _: messages.ReaderRegistration) -> None:
        self.readers[subtask] = reader
        self._gateways[subtask] = EventGateway(reader.send)
        self._running().add_reader(subtask)

    def _request_split(self, subtask: int, reader: Reader, _: messages.RequestSplit) -> None:
        self._running().handle_split_request(subtask, reader.host)

    def _barrier_has_left(
        self, subtask: int, _: Reader, message: messages.AcknowledgeCheckpointEvent
    ) -> None:
        self._gateways[subtask].open(message.checkpoint_id)

    def _source_event(self, subtask: int, _: Reader, message: messages.SourceEvent) -> None:
        event = self.serializer.deserialize(message.event)
        self._running().handle_source_event(subtask, event)

    def _reset(self, subtask: int, checkpoint_id: int | None) -> None:
        self.readers.pop(subtask, None)
        self._gateways.pop(subtask, None)
        splits = self._assignments.take_back(subtask, checkpoint_id)
        if splits and self._is_running:
            self._running().add_splits_back(splits, subtask)

    @property
    def _is_running(self) -> bool:
        return self._enumerator is not None and not self._has_failed and not self.is_closed

    def _running(self) -> SplitEnumerator[Any]:
        assert self._enumerator is not None, "started"
        return self._enumerator

    def _send(self, subtask: int, message: messages.FromCoordinator) -> None:
        self._gateways[subtask].send(message)

    def _close(self) -> None:
        if self._context is not None:
            self._context.has_ended = True
        enumerator, self._enumerator = self._enumerator, None
        if enumerator is not None:
            enumerator.close()

    def _failed(self, error: BaseException) -> None:
        if self.is_closed:
            logger.error("a source's enumerator failed after its job had ended: %s", error)
        elif not self._has_failed:
            # It gets no more calls: its state may be inconsistent.
            self._has_failed = True
            if self._context is not None:
                self._context.has_ended = True
            self._fail(error)

    def _reader(self, subtask: int) -> Reader:
        reader = self.readers.get(subtask)
        if reader is None:
            raise ValueError(
                f"subtask {subtask} has no registered reader; registered are {sorted(self.readers)}"
            )
        return reader


def _batches(splits: list[bytes]) -> Iterator[tuple[bytes, ...]]:
    """Group many splits into messages that fit frames."""
    batch: list[bytes] = []
    size = 0
    for split in splits:
        if batch and size + len(split) > messages.CODE_CHUNK_BYTES:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(split)
        size += len(split)
    if batch:
        yield tuple(batch)


class _EnumeratorContext(SplitEnumeratorContext[Any]):
    def __init__(self, coordinator: SourceCoordinator) -> None:
        self._coordinator = coordinator
        #: Whether the enumerator is closed, so that its requests are obsolete.
        self.has_ended = False

    def current_parallelism(self) -> int:
        """Return the number of subtasks of the source."""
        return self._coordinator.parallelism

    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        """Return the running readers, by subtask."""
        return {
            subtask: ReaderInfo(subtask, reader.host)
            for subtask, reader in self._coordinator.readers.items()
        }

    def assign_splits(self, assignment: Mapping[int, Sequence[object]]) -> None:
        """Assign splits to registered readers."""
        self._coordinator.assign(assignment)

    def signal_no_more_splits(self, subtask_id: int) -> None:
        """Tell a registered reader that it will get no further split."""
        self._coordinator.no_more_splits(subtask_id)

    def send_event_to_source_reader(self, subtask_id: int, event: object) -> None:
        """Send plain data to a registered reader."""
        self._coordinator.send_event(subtask_id, event)

    def call_async(
        self,
        call: Callable[[], Any],
        handler: Callable[[Any, BaseException | None], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        """Run a call that may block in another thread, then the handler in this one."""
        coordinator = self._coordinator

        def run() -> None:
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:  # sys.exit() would end this thread silently
                error = raised
            coordinator.thread.post(lambda: deliver(result, error))

        def deliver(result: object, error: BaseException | None) -> None:
            if self.has_ended:
                return
            handler(result, error)
            if period_ms is not None:
                coordinator.thread.schedule(period_ms / 1000, begin)

        def begin() -> None:
            if not self.has_ended:
                threading.Thread(target=run, name="call_async of a source", daemon=True).start()

        coordinator.thread.schedule(initial_delay_ms / 1000, begin)

    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        """Run an action in the enumerator's thread."""
        self._coordinator.thread.post(lambda: None if self.has_ended else action())
