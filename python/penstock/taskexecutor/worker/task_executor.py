"""TaskExecutor: one worker with its slots, a network stack for each job, and the tasks it runs.

It connects to the driver, proves the token, registers, offers the requested slots, and then handles
the driver's messages.  `run` returns when the worker ends: shut down, refused, out of contact with
the driver (which may be gone), or after a fatal error.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import __version__
from penstock.common.options import cluster
from penstock.common.options.network import SEGMENT_SIZE
from penstock.errors import MessageTooLargeError, PenstockError, TaskExecutorLostError
from penstock.rpc.checkpoint_messages import AskCheckpoint, CheckpointStandings
from penstock.rpc.client import dial
from penstock.rpc.collect_client import CollectClient
from penstock.rpc.connection import Connection
from penstock.rpc.inspection_messages import (
    DumpThreads,
    Inspection,
    LookUpState,
    ReadState,
    ReportMetrics,
    SampleRecords,
    SampleStacks,
)
from penstock.rpc.messages import (
    ROLE_CONTROL,
    AcceptSlots,
    AcknowledgeCheckpoint,
    AddSplits,
    CancelTask,
    CodeChunk,
    FatalError,
    ForCheckpoints,
    FreeSlot,
    FromCoordinator,
    NoMoreSplits,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OfferSlots,
    PrintedTextWritten,
    RegisterTaskExecutor,
    RegistrationAccepted,
    RegistrationRefused,
    ReleaseCode,
    ReleasePartitions,
    ReportAccumulators,
    RequestSlot,
    Shutdown,
    SlotFreed,
    SlotOffer,
    SlotRefused,
    SourceEvent,
    SubmitTask,
    TaskFailure,
    TriggerCheckpoint,
    UpdateTaskState,
    WatermarkAlignment,
    task_executor_decoder,
)
from penstock.rpc.network_buffer_needs import NetworkBufferNeeds, sum_of
from penstock.serialization.imports import IMPORT_LOCK
from penstock.taskexecutor.logs.printed_text import PrintedTextSender, forward_printed_text
from penstock.taskexecutor.task.task import TERMINAL_STATES, Task
from penstock.taskexecutor.task.task_failure import describe_failure
from penstock.taskexecutor.worker.checkpoint_relay import relay
from penstock.taskexecutor.worker.checkpoint_reports import (
    CheckpointReports,
    declined,
    encode_held,
)
from penstock.taskexecutor.worker.checkpoint_standings import standings_of
from penstock.taskexecutor.worker.heartbeats import heartbeat_sender
from penstock.taskexecutor.worker.job_networks import JobNetworks
from penstock.taskexecutor.worker.liveness import LivenessWatch
from penstock.taskexecutor.worker.slot_resources import SlotResources
from penstock.taskexecutor.worker.task_slot_table import (
    SlotNotActiveError,
    SlotOccupiedError,
    TaskSlotTable,
)
from penstock.taskexecutor.worker.time_slice import shorten_time_slices, wants_short_slices

if TYPE_CHECKING:
    from penstock.network import ResultPartition
    from penstock.rpc.heartbeat import HeartbeatSender
    from penstock.rpc.message import Message
    from penstock.rpc.native_heartbeat import NativeHeartbeatSender
    from penstock.rpc.task_deployment import TaskDeploymentDescriptor
    from penstock.taskexecutor.logs.forwarder import LogForwarder
    from penstock.taskexecutor.worker.inspection import Inspector
    from penstock.taskexecutor.worker.launch import LaunchSpec
    from penstock.taskexecutor.worker.metric_sender import MetricSender
    from penstock.taskexecutor.worker.task_slot_table import TaskSlot

logger = logging.getLogger(__name__)

TASK_END_TIMEOUT_S = 5.0
"""Time that the worker waits at its end for all its tasks."""
MAX_CODE_BYTES = 1024 * 1024 * 1024


class TaskExecutor:
    """Runs the tasks of one worker; see the module's docstring."""

    def __init__(self, launch: LaunchSpec, log: LogForwarder | None = None) -> None:
        """Create a worker; `run` serves.

        Args:
            launch: The driver's address and the worker's settings.
            log: Forwards the process's log; None if this is the driver's process.
        """
        self._launch = launch
        self._log = log
        self._lock = threading.RLock()
        self._slots = TaskSlotTable(launch.slots, cluster.SLOT_TIMEOUT.read(launch.config) / 1000)
        self._tasks: dict[bytes, Task] = {}
        self._buffer_needs: dict[bytes, NetworkBufferNeeds] = {}
        self._code: dict[str, bytes] = {}
        self._code_parts: dict[str, list[bytes]] = {}
        self._resources = SlotResources(launch)
        self._networks = JobNetworks(launch)
        self._reports = CheckpointReports()
        self._liveness = LivenessWatch(self.fatal_error, owns_process=log is not None)
        self._connection: Connection | None = None
        self._heartbeat: HeartbeatSender | NativeHeartbeatSender | None = None
        self._metrics: MetricSender | None = None
        self._printed: PrintedTextSender | None = None
        self._inspector: Inspector | None = None
        self._changed = threading.Condition()
        self._end_reason: str | None = None
        self._clean_end = False
        self._handlers: dict[type[Message], Any] = {
            RegistrationAccepted: self._registered,
            RegistrationRefused: lambda message: self.stop(f"refused: {message.reason}"),
            RequestSlot: self._request_slot,
            AcceptSlots: self._accept_slots,
            FreeSlot: self._free_slot,
            CodeChunk: self._receive_code,
            ReleaseCode: self._release_code,
            SubmitTask: self._submit_task,
            CancelTask: self._cancel_task,
            ReleasePartitions: self._release_partitions,
            AddSplits: self._operator_event,
            NoMoreSplits: self._operator_event,
            WatermarkAlignment: self._operator_event,
            SourceEvent: self._operator_event,
            TriggerCheckpoint: self._checkpoint_message,
            NotifyCheckpointComplete: self._checkpoint_message,
            NotifyCheckpointAborted: self._checkpoint_message,
            AskCheckpoint: self._ask_checkpoint,
            DumpThreads: self._inspect,
            SampleStacks: self._inspect,
            SampleRecords: self._inspect,
            LookUpState: self._inspect,
            ReadState: self._inspect,
            ReportMetrics: self._report_metrics,
            PrintedTextWritten: self._printed_text_written,
            Shutdown: lambda message: self.stop(message.reason, clean=True),
        }

    def run(self) -> bool:
        """Serve until the end.

        Returns:
            Whether the driver ended the worker; False after a loss of contact or a fatal error.

        Raises:
            AuthenticationError, OSError: the driver could not be reached.
        """
        launch = self._launch
        sock = dial(launch.driver, launch.credentials, ROLE_CONTROL)
        if wants_short_slices(launch.config):
            shorten_time_slices()
        self._connection = Connection(
            sock,
            task_executor_decoder(),
            self._handle_all,
            self._disconnected,
            "driver connection",
            encode_held,
        )
        if launch.forwards_printed_text:
            self._printed = PrintedTextSender(launch.executor_id, self._connection)
            forward_printed_text(self._printed)
        if launch.metrics_interval_ms > 0:
            # Before any task can run: a short task would end unreported.
            self._metrics = self._start_metrics(self._connection)
        self._connection.start()
        self._send(
            RegisterTaskExecutor(
                launch.executor_id,
                launch.epoch,
                launch.bind_host,
                tuple(map(bytes.fromhex, launch.jobs)),
                launch.slots,
                os.getpid(),
                __version__,
            )
        )
        if self._log is not None:
            self._log.connect(self._connection)
        try:
            self._preload()
            self._wait_for_end()
        finally:
            self._tear_down()
        return self._clean_end

    def stop(self, reason: str, clean: bool = False) -> None:
        """Make `run` return; any thread, the first reason counts."""
        with self._changed:
            if self._end_reason is None:
                self._end_reason = reason
                self._clean_end = clean
                if not clean:
                    logger.error("TaskExecutor %s ends: %s", self._launch.executor_id, reason)
            self._changed.notify_all()

    # ---- life --------------------------------------------------------------------------------

    def _preload(self) -> None:
        """Import what tasks run on, while the driver may still be waiting for other workers."""
        try:
            with IMPORT_LOCK:
                importlib.import_module("penstock.taskexecutor.task.stream_task")
        except ImportError:
            # The task that needs the module reports the same error, with its own name.
            logger.exception("the operators of this worker cannot be imported")

    def _wait_for_end(self) -> None:
        """Wait for `stop`, and meanwhile free slots that no JobMaster accepted in time."""
        while True:
            with self._changed:
                if self._end_reason is not None:
                    return
                with self._lock:
                    deadline_s = self._slots.next_deadline_s()
                now_s = time.monotonic()
                self._changed.wait(None if deadline_s is None else max(0.0, deadline_s - now_s))
                if self._end_reason is not None:
                    return
            with self._lock:
                for slot in self._slots.expired(time.monotonic()):
                    self._free_slot(FreeSlot(slot.allocation_id, "the offer was not accepted"))

    def _printed_text_written(self, message: PrintedTextWritten) -> None:
        if self._printed is not None:
            self._printed.written(message)

    def _tear_down(self) -> None:
        self.stop("the worker ended")  # no effect after an earlier `stop`
        if self._printed is not None:
            self._printed.close()
        reason = self._end_reason
        assert reason is not None
        if not self._clean_end:
            self._send(FatalError(reason))  # before its tasks fail, of which this is the cause
        if self._heartbeat is not None:
            self._heartbeat.close()
        self._liveness.close()
        with self._lock:
            tasks = list(self._tasks.values())
        error = TaskExecutorLostError(reason)
        for task in tasks:
            task.fail_externally(error)
        deadline_s = time.monotonic() + TASK_END_TIMEOUT_S
        for task in tasks:
            if not task.wait_ended(max(0.0, deadline_s - time.monotonic())):
                logger.error("%s did not end with its worker", task.name)
        if self._inspector is not None:
            self._inspector.close()
        if self._metrics is not None:
            self._metrics.close()
        if self._log is not None:
            self._log.finish()
        if self._connection is not None:
            self._connection.close_after_flush(reason)
            self._connection.join(1.0)
        with self._lock:
            networks = self._networks.take_all()
        for environment in networks:
            environment.close()
        self._resources.close()

    def _start_metrics(self, connection: Connection) -> MetricSender:
        from penstock.taskexecutor.worker.metric_sender import MetricSender

        sender = MetricSender(
            self._launch.metrics_interval_ms,
            connection,
            self._running_tasks,
            self._networks,
            SEGMENT_SIZE.read(self._launch.config),
            self._promised_buffers,
            self._resources,
        )
        sender.start()
        return sender

    def _inspect(self, message: Inspection) -> None:
        if self._inspector is None:
            from penstock.taskexecutor.worker.inspection import Inspector

            self._inspector = Inspector(self._running_tasks, self._send)
        self._inspector.inspect(message)

    def _report_metrics(self, message: ReportMetrics) -> None:
        del message
        if self._metrics is None and self._connection is not None:
            # A client now watches a job that reported no metrics: from now on, report on request.
            with IMPORT_LOCK:
                self._metrics = self._start_metrics(self._connection)
        if self._metrics is not None:
            self._metrics.report_soon()

    def _promised_buffers(self, job_id: bytes | None = None) -> NetworkBufferNeeds:
        """Return the network buffers promised to the running tasks, of one job or of all."""
        with self._lock:
            return sum_of(
                needs
                for attempt_id, needs in self._buffer_needs.items()
                if job_id in (None, self._tasks[attempt_id].descriptor.job_id)
            )

    def _running_tasks(self) -> list[Task]:
        with self._lock:
            return list(self._tasks.values())

    def _send(self, message: Message, *, may_wait: bool = False) -> None:
        if self._connection is not None:
            self._connection.send(message, may_wait=may_wait)

    def _handle_all(self, received: list[Message]) -> None:
        for message in received:
            self._handle(message)

    def _handle(self, message: Message) -> None:
        self._handlers[type(message)](message)

    def _disconnected(self, reason: str) -> None:
        self.stop(f"lost contact with the driver: {reason}")

    def _registered(self, message: RegistrationAccepted) -> None:
        heartbeat = heartbeat_sender(self._launch, message, self.stop)
        with self._changed:
            if self._end_reason is None:
                self._heartbeat = heartbeat
                heartbeat.start()
                return
        heartbeat.close()  # this worker was shut down meanwhile

    # ---- slots -------------------------------------------------------------------------------

    def _request_slot(self, message: RequestSlot) -> None:
        try:
            with self._lock:
                slot = self._slots.allocate(
                    message.slot, message.job_id, message.allocation_id, time.monotonic()
                )
        except SlotOccupiedError as error:
            self._send(SlotRefused(message.job_id, message.allocation_id, str(error)))
            return
        try:
            with self._lock:
                network = self._networks.open(message.job_id, message.network_buffers)
                host, port = network.address
        except (PenstockError, OSError) as error:
            logger.exception("the network of job %s could not be created", message.job_id.hex())
            self.fatal_error(f"its network cannot be set up: {error}")
            return
        with self._changed:
            self._changed.notify_all()
        buffers = network.total_segments // self._launch.slots
        offer = SlotOffer(slot.index, slot.allocation_id, buffers)
        self._send(OfferSlots(message.job_id, host, port, (offer,)))

    def _accept_slots(self, message: AcceptSlots) -> None:
        for allocation_id in message.allocation_ids:
            try:
                with self._lock:
                    self._slots.mark_active(message.job_id, allocation_id)
            except SlotNotActiveError as error:
                self._send(SlotRefused(message.job_id, allocation_id, str(error)))

    def _free_slot(self, message: FreeSlot) -> None:
        with self._lock:
            freed, attempts = self._slots.release(message.allocation_id)
            tasks = [self._tasks[attempt] for attempt in attempts if attempt in self._tasks]
        if freed is not None:
            self._slot_is_free(freed)
        for task in tasks:
            task.fail_externally(PenstockError(f"the slot was released: {message.cause}"))

    # ---- tasks -------------------------------------------------------------------------------

    def _receive_code(self, message: CodeChunk) -> None:
        parts = self._code_parts.setdefault(message.code_id, [])
        parts.append(message.data)
        if sum(map(len, parts)) > MAX_CODE_BYTES:
            raise PenstockError(f"job code {message.code_id} is larger than {MAX_CODE_BYTES} bytes")
        if message.last:
            self._code[message.code_id] = b"".join(self._code_parts.pop(message.code_id))

    def _release_code(self, message: ReleaseCode) -> None:
        for code_id in message.code_ids:
            self._code.pop(code_id, None)
            self._code_parts.pop(code_id, None)

    def _submit_task(self, message: SubmitTask) -> None:
        descriptor = message.descriptor
        try:
            task = self._create_task(descriptor)
        except Exception as error:
            logger.exception("task %s could not be submitted", descriptor.task_name)
            self._send(
                UpdateTaskState(
                    descriptor.job_id,
                    descriptor.attempt_id,
                    "FAILED",
                    describe_failure(error, descriptor.task_name, descriptor.subtask),
                )
            )
            return
        configuration = task.descriptor.configuration
        self._liveness.add(task, cluster.LIVENESS_TIMEOUT.read(configuration))
        task.start()

    def _create_task(self, descriptor: TaskDeploymentDescriptor) -> Task:
        # The job's configuration does not contain the cluster's options.
        config = self._launch.config | descriptor.configuration
        descriptor = msgspec.structs.replace(descriptor, configuration=config)
        code = self._code.get(descriptor.code_id)
        if code is None:
            raise PenstockError(f"the job code {descriptor.code_id} of the task was not sent")
        with self._lock:
            self._slots.mark_active(descriptor.job_id, descriptor.allocation_id)
            network = self._networks.of(descriptor.job_id)
            computed = self._networks.computed_segments(descriptor.job_id)
        needs = NetworkBufferNeeds.of(descriptor, self._launch.executor_id, config)
        promised = self._promised_buffers(descriptor.job_id)
        needs.check(descriptor.task_name, promised, network.total_segments, computed)
        logger.info("task %s needs %s", descriptor.task_name, needs)
        temp_dirs = self._launch.temp_dirs
        task = Task(
            descriptor,
            code,
            network,
            self._launch.executor_id,
            self._open_collect_channel,
            self,
            temp_dir=temp_dirs[descriptor.subtask % len(temp_dirs)] if temp_dirs else None,
            cached_files=self._launch.cached_files,
            local_state=self._resources.local_state(descriptor),
            memory=self._resources.memory(descriptor.allocation_id),
            cancellation_interval_s=cluster.CANCELLATION_INTERVAL.read(config) / 1000,
            cancellation_timeout_s=cluster.CANCELLATION_TIMEOUT.read(config) / 1000,
        )
        with self._lock:
            if descriptor.attempt_id in self._tasks:
                raise PenstockError(f"{task.name} runs already")
            self._slots.add_task(descriptor.job_id, descriptor.allocation_id, descriptor.attempt_id)
            self._tasks[descriptor.attempt_id] = task
            self._buffer_needs[descriptor.attempt_id] = needs
            self._reports.task_begins(descriptor.job_id)
        return task

    def _release_partitions(self, message: ReleasePartitions) -> None:
        with self._lock:
            partitions = self._networks.take_partitions(message.job_id, message.partition_ids)
        for partition in partitions:
            partition.release()
        self._close_unused_network(message.job_id)

    def _close_unused_network(self, job_id: bytes) -> None:
        with self._lock:
            network = None if self._slots.serves(job_id) else self._networks.take(job_id)
        if network is not None:
            network.close()

    def _slot_is_free(self, freed: TaskSlot) -> None:
        self._close_unused_network(freed.job_id)
        self._resources.release(freed.allocation_id)
        self._send(SlotFreed(freed.index, freed.allocation_id))

    def _cancel_task(self, message: CancelTask) -> None:
        with self._lock:
            task = self._tasks.get(message.attempt_id)
        if task is not None:
            task.cancel()

    def _operator_event(self, message: FromCoordinator) -> None:
        with self._lock:
            task = self._tasks.get(message.attempt_id)
        if task is not None:
            task.handle_operator_event(message)

    def _checkpoint_message(self, message: ForCheckpoints) -> None:
        with self._lock:
            tasks = [self._tasks.get(attempt_id) for attempt_id in message.attempt_ids]
        relay(message, [task for task in tasks if task is not None])

    def _ask_checkpoint(self, message: AskCheckpoint) -> None:
        with self._lock:
            tasks = [self._tasks.get(attempt_id) for attempt_id in message.attempt_ids]
        standings = standings_of([t for t in tasks if t is not None], message.checkpoint_id)
        self._send(CheckpointStandings(message.job_id, message.checkpoint_id, standings))

    def _open_collect_channel(
        self, descriptor: TaskDeploymentDescriptor, collect_id: str
    ) -> CollectClient:
        return CollectClient(
            self._launch.driver,
            self._launch.credentials,
            job_id=descriptor.job_id,
            collect_id=collect_id,
            subtask=descriptor.subtask,
            attempt_number=descriptor.attempt_number,
        )

    # ---- TaskListener ------------------------------------------------------------------------

    def task_state_changed(
        self, task: Task, state: str, failure: TaskFailure | None, accumulators: dict[str, object]
    ) -> None:
        """Report a state to the driver."""
        if failure is not None:
            logger.info("%s failed: %s: %s", task.name, failure.qualname, failure.message)
        descriptor = task.descriptor
        if self._metrics is not None and state in TERMINAL_STATES:
            self._metrics.task_ends(task)
        self._send(
            UpdateTaskState(descriptor.job_id, descriptor.attempt_id, state, failure, accumulators)
        )

    def task_accumulators(self, task: Task, accumulators: dict[str, object]) -> None:
        """Report accumulator values to the driver."""
        descriptor = task.descriptor
        self._send(ReportAccumulators(descriptor.job_id, descriptor.attempt_id, accumulators))

    def task_message(self, task: Task, message: Message) -> None:
        """Forward a message of a task or one of its operators to the driver."""
        del task
        try:
            self._send(message, may_wait=self._reports.may_wait(message))
        except MessageTooLargeError as error:
            if not isinstance(message, AcknowledgeCheckpoint):
                raise
            self._send(declined(message, error))

    def partition_finished(self, task: Task, partition_id: bytes, data: ResultPartition) -> None:
        """Keep a finished partition until it has no readers any more."""
        with self._lock:
            self._networks.keep(task.descriptor.job_id, partition_id, data)

    def task_ended(self, task: Task) -> None:
        """Remove an ended task from its slot."""
        attempt_id = task.descriptor.attempt_id
        self._liveness.remove(task)
        with self._lock:
            self._buffer_needs.pop(attempt_id, None)
            if self._tasks.pop(attempt_id, None) is not None:
                self._reports.task_ended(task.descriptor.job_id)
            freed = self._slots.remove_task(attempt_id)
        if freed is not None:
            self._slot_is_free(freed)

    def fatal_error(self, reason: str) -> None:
        """End this worker after a fatal error."""
        self.stop(reason)
