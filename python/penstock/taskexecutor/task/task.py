"""Task: one attempt of one subtask, in a thread of its own.

States (all moves are compare-and-set under one lock)::

    CREATED → DEPLOYING → INITIALIZING → RUNNING → FINISHED
       any of these, cancelled  → CANCELING → CANCELED
       any of these, on failure → FAILED

The first failure cause is kept, exactly one terminal state is reported, and resources are released
however the task ends.  `cancel` and `fail_externally` never block their caller: a canceler thread
wakes the task from any wait, later interrupts user code, and finally declares the whole worker
broken if the task still does not end.
"""

from __future__ import annotations

import functools
import logging
import math
import tempfile
import threading
from typing import TYPE_CHECKING, Any, Protocol

from penstock.common.exception_deadline import described_in_time
from penstock.errors import CancelTaskError, JobCodeError, QueueFullError
from penstock.rpc.messages import DeclineCheckpoint, TriggerCheckpoint
from penstock.serialization.imports import IMPORT_LOCK, unpickled
from penstock.taskexecutor.logs.speaker import Speaker, speaks_for
from penstock.taskexecutor.task.stored_output import create_partition
from penstock.taskexecutor.task.task_environment import TaskEnvironment
from penstock.taskexecutor.task.task_failure import describe_failure
from penstock.taskexecutor.task.task_interrupt import InterruptibleSection
from penstock.taskexecutor.worker.local_directories import LocalDirectory
from penstock.taskexecutor.worker.memory_manager import SlotMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from penstock.network import InputGate, NetworkEnvironment, ResultPartition
    from penstock.rpc.checkpoint_messages import Stage
    from penstock.rpc.collect_client import CollectClient
    from penstock.rpc.message import Message
    from penstock.rpc.messages import ForCheckpoints, FromCoordinator, TaskFailure
    from penstock.rpc.task_deployment import TaskDeploymentDescriptor
    from penstock.taskexecutor.checkpointing.local_state import TaskLocalStateStore
    from penstock.taskexecutor.task.record_sample import RecordSample
    from penstock.taskexecutor.task.state_lookup import StateLookup
    from penstock.taskexecutor.task.state_reading import StateReading

logger = logging.getLogger(__name__)

INTERRUPT_AFTER_S = 1.0
"""Time that woken user code has to end by itself before it is interrupted."""
INTERRUPT_AGAIN_S = 0.02
"""Time until the next attempt if the task could not be interrupted, as in an import."""
CONSUMED_POLL_MS = 1000

TERMINAL_STATES = frozenset({"FINISHED", "CANCELED", "FAILED"})


class Invokable(Protocol):
    """Body of a task; `StreamTask` in production."""

    def restore(self) -> None:
        """Open the operators."""

    def invoke(self) -> None:
        """Run to the end of the input."""

    def cancel(self) -> None:
        """Wake `restore` or `invoke`; any thread, idempotent."""

    def handle_operator_event(self, message: FromCoordinator) -> None:
        """Pass a message to one of the operators; any thread, returns at once."""

    def handle_checkpoint_message(
        self, message: ForCheckpoints, handled: Callable[[], None]
    ) -> bool:
        """Handle the trigger, completion or abort of a checkpoint; any thread, returns at once.

        Return whether the task's thread was woken; it then calls ``handled``, unless the task ends
        first.
        """

    def checkpoint_stage(self, checkpoint_id: int) -> Stage:
        """Return the task's progress with a checkpoint; any thread, returns at once."""

    def ping(self, answer: Callable[[], None]) -> bool:
        """Call ``answer`` in the task's thread, later; return False if it runs no mails."""

    def unhindered_s(self) -> float:
        """Return the seconds in which every output had a buffer; any thread."""

    def sample_records(self, edge: int, sample: RecordSample | None) -> str:
        """Start or end sampling the records of an edge; any thread, returns at once."""

    def look_up(self, lookup: StateLookup | StateReading) -> None:
        """Request a lookup of keyed state; any thread, returns at once."""


class TaskListener(Protocol):
    """Callbacks of a task to its TaskExecutor; called from the task's threads."""

    def task_state_changed(
        self, task: Task, state: str, failure: TaskFailure | None, accumulators: dict[str, object]
    ) -> None:
        """Handle the task's transition to ``state``."""

    def task_accumulators(self, task: Task, accumulators: dict[str, object]) -> None:
        """Handle accumulator values that the task published."""

    def task_message(self, task: Task, message: Message) -> None:
        """Handle a message from the task to the JobMaster or to an operator's coordinator."""

    def partition_finished(self, task: Task, partition_id: bytes, data: ResultPartition) -> None:
        """Take over a finished blocking partition, which outlives the task."""

    def task_ended(self, task: Task) -> None:
        """Handle the end of the task's thread; its resources are released."""

    def fatal_error(self, reason: str) -> None:
        """Handle an error from which the worker cannot recover."""


class Task:
    """Runs one `TaskDeploymentDescriptor`."""

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        code: bytes,
        network: NetworkEnvironment,
        executor_id: str,
        open_collect_channel: Callable[[TaskDeploymentDescriptor, str], CollectClient],
        listener: TaskListener,
        *,
        temp_dir: str | None = None,
        cached_files: Mapping[str, str] | None = None,
        local_state: TaskLocalStateStore | None = None,
        memory: SlotMemory | None = None,
        cancellation_interval_s: float = 30.0,
        cancellation_timeout_s: float = 180.0,
    ) -> None:
        self.descriptor = descriptor
        self.name = f"{descriptor.task_name} ({descriptor.subtask + 1}/{descriptor.parallelism})"
        self._code = code
        self._network = network
        self._executor_id = executor_id
        self._open_collect_channel = open_collect_channel
        self._listener = listener
        self._temp_dir = temp_dir
        self._cached_files = cached_files or {}
        self._local_state = local_state
        self._memory = memory or SlotMemory.of(0)
        self._cancellation_interval_s = cancellation_interval_s
        self._cancellation_timeout_s = cancellation_timeout_s

        self._lock = threading.Lock()
        self._state = "CREATED"
        self._failure: TaskFailure | None = None
        self._invokable: Invokable | None = None
        self.environment: TaskEnvironment | None = None
        """Environment of the invokable, once it exists."""
        self._partitions: list[ResultPartition] = []
        self._gates: list[InputGate] = []
        self._collect_clients: list[CollectClient] = []
        self._temp_directory: LocalDirectory | None = None
        self._accumulators: dict[str, Any] = {}
        self._is_sampled = False
        self._ended = threading.Event()
        self._section = InterruptibleSection()
        self._speaker = Speaker(descriptor.task_name, descriptor.subtask, descriptor.parallelism)
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    @property
    def state(self) -> str:
        """The current state."""
        return self._state

    def start(self) -> None:
        """Start the task's thread."""
        self._thread.start()

    def handle_operator_event(self, message: FromCoordinator) -> None:
        """Pass a message to one of the task's operators; dropped if the task has ended."""
        with self._lock:
            invokable = self._invokable
        if invokable is not None:
            try:
                invokable.handle_operator_event(message)
            except QueueFullError as error:
                self.fail_externally(error)

    def handle_checkpoint_message(
        self, message: ForCheckpoints, handled: Callable[[], None] = lambda: None
    ) -> bool:
        """Pass a checkpoint message to the task; decline a trigger before the task runs.

        A message for an ended task is dropped: the driver is notified of the end.

        Args:
            message: The checkpoint message.
            handled: Called by the task's thread once it has handled the message.

        Returns:
            Whether the task's thread was woken for it.
        """
        with self._lock:
            if self._state in TERMINAL_STATES:
                return False
            invokable = self._invokable if self._state == "RUNNING" else None
        if invokable is not None:
            try:
                return invokable.handle_checkpoint_message(message, handled)
            except Exception as error:
                # Also for a source that cannot be woken: the sender is not to blame.
                self.fail_externally(error)
        elif isinstance(message, TriggerCheckpoint):
            descriptor = self.descriptor
            self._listener.task_message(
                self,
                DeclineCheckpoint(
                    descriptor.job_id,
                    descriptor.attempt_id,
                    message.checkpoint_id,
                    "DECLINED_TASK_NOT_READY",
                    f"{self.name} is {self._state}",
                ),
            )
        return False

    @property
    def thread_ident(self) -> int | None:
        """The task's thread; None before it has started."""
        return self._thread.ident

    def checkpoint_stage(self, checkpoint_id: int) -> Stage:
        """Return the task's progress with a checkpoint; any thread."""
        with self._lock:
            invokable = self._invokable
        return "WAITING" if invokable is None else invokable.checkpoint_stage(checkpoint_id)

    def operator_at(self, frame: FrameType | None) -> str:
        """Return the operator whose user code a stack of the task's thread runs, or that waits.

        Returns:
            Its name; empty if there is none.
        """
        from penstock.taskexecutor.task.blame import waiting_operator

        return self._speaker.operator_at_work(frame) or waiting_operator(frame)

    def ping(self, answer: Callable[[], None]) -> bool:
        """Call ``answer`` soon in the task's thread; return False if it runs no mails now."""
        with self._lock:
            invokable = self._invokable if self._state == "RUNNING" else None
        return invokable is not None and invokable.ping(answer)

    def unhindered_s(self) -> float:
        """Return the seconds in which every output had a buffer."""
        with self._lock:
            invokable = self._invokable
        return 0.0 if invokable is None else invokable.unhindered_s()

    def sample_records(self, edge: int, sample: RecordSample) -> str:
        """Start sampling the records of an edge; one sample at a time.

        Args:
            edge: The number of the edge into the vertex.
            sample: Receives the records.

        Returns:
            Why the records cannot be sampled; empty if sampling has started.
        """
        with self._lock:
            invokable = self._invokable if self._state == "RUNNING" else None
            if invokable is None:
                return f"{self.name} is {self._state}"
            if self._is_sampled:
                return f"the records of {self.name} are already being sampled"
            self._is_sampled = True
        problem = invokable.sample_records(edge, sample)
        if problem:
            self._is_sampled = False
        return problem

    def look_up(self, lookup: StateLookup | StateReading) -> None:
        """Request a lookup of the task's keyed state; returns at once."""
        with self._lock:
            invokable = self._invokable if self._state == "RUNNING" else None
        if invokable is None:
            lookup.problem = f"{self.name} is {self._state}"
            lookup.done.set()
        else:
            invokable.look_up(lookup)

    def end_sample(self, edge: int) -> None:
        """End the sampling that `sample_records` started."""
        with self._lock:
            invokable, self._is_sampled = self._invokable, False
        if invokable is not None:
            invokable.sample_records(edge, None)

    def wait_ended(self, timeout_s: float) -> bool:
        """Wait until the task has released everything; return whether it has."""
        return self._ended.wait(timeout_s)

    def cancel(self) -> None:
        """Cancel the task and return at once.  Idempotent; no effect on a task that has ended."""
        with self._lock:
            if self._state in TERMINAL_STATES or self._state == "CANCELING":
                return
            self._state = "CANCELING"
        self._start_canceler("cancelled")

    def fail_externally(self, error: BaseException) -> None:
        """Fail the task for a reason outside of its thread; returns at once."""
        failure = self._described(error)
        with self._lock:
            if self._state in TERMINAL_STATES or self._state == "CANCELING":
                return
            self._state = "FAILED"
            self._failure = failure
        self._start_canceler(f"failed from outside: {failure.message}")

    # ---- the task thread ---------------------------------------------------------------------

    def _run(self) -> None:
        speaks_for(self._speaker)
        try:
            with self._section:
                terminal = self._run_to_terminal_state()
        except BaseException as error:  # a late interrupt, mostly
            terminal = self._end_with(None if isinstance(error, CancelTaskError) else error)
        try:
            if terminal == "FINISHED":
                self._leave_partitions()
            # Before the partitions fail: consumers would otherwise report the consequence first.
            self._listener.task_state_changed(
                self, terminal, self._failure, dict(self._accumulators)
            )
        except BaseException as error:
            terminal = self._report_failure(error)
        self._release(terminal)
        self._ended.set()
        self._listener.task_ended(self)

    def _report_failure(self, error: BaseException) -> str:
        """Report that the end of the task could not be reported: the JobMaster waits for it."""
        logger.exception("%s: its end could not be reported", self.name)
        with self._lock:
            self._state = "FAILED"
            self._failure = self._described(error)
        try:
            self._listener.task_state_changed(self, "FAILED", self._failure, {})
        except BaseException as unreported:
            self._listener.fatal_error(
                f"the end of {self.name} cannot be reported: {described_in_time(unreported)}"
            )
        return "FAILED"

    def _described(self, error: BaseException) -> TaskFailure:
        return describe_failure(error, self.descriptor.task_name, self.descriptor.subtask)

    def _leave_partitions(self) -> None:
        """Hand over finished partitions before any consumer learns that it may read them."""
        written, self._partitions = self._partitions, []
        for partition, data in zip(self.descriptor.partitions, written, strict=True):
            if partition.outlives_its_task:
                self._listener.partition_finished(self, partition.partition_id, data)
            else:
                self._partitions.append(data)

    def _run_to_terminal_state(self) -> str:
        try:
            self._move("CREATED", "DEPLOYING", report=False)
            invokable = self._deploy()
            self._move("DEPLOYING", "INITIALIZING")
            invokable.restore()
            self._move("INITIALIZING", "RUNNING")
            invokable.invoke()
            for partition in self._partitions:
                partition.finish()
            # Before the end is reported: the next task of the slot may begin then.
            self._memory.outputs.release_all(self)
            for partition in self._partitions:
                while not partition.wait_consumed(CONSUMED_POLL_MS):
                    self._check_not_cancelled()
            self._move("RUNNING", "FINISHED", report=False)
            return "FINISHED"
        except CancelTaskError as error:
            logger.info("%s unwinds: %s", self.name, error)
            return self._end_with(None)
        except BaseException as error:
            return self._end_with(error)

    def _deploy(self) -> Invokable:
        """Create gates, partitions, environment and invokable, in this order."""
        descriptor = self.descriptor
        partitions, gates = self._partitions, []
        for partition in descriptor.partitions:
            partitions.append(
                create_partition(self._network, partition, self._memory.outputs, self)
            )
        for gate in descriptor.gates:
            channels = [
                (
                    channel.partition_id,
                    channel.subpartition,
                    None
                    if channel.executor_id == self._executor_id
                    else (channel.host, channel.port),
                )
                for channel in gate.channels
            ]
            created = self._network.create_input_gate(channels)
            self._gates.append(created)
            gates.append((gate.input_number, created))
        self._check_not_cancelled()
        self.environment = environment = TaskEnvironment(
            job_id=descriptor.job_id,
            task_name=descriptor.task_name,
            vertex_id=descriptor.vertex_id,
            attempt_id=descriptor.attempt_id,
            subtask=descriptor.subtask,
            parallelism=descriptor.parallelism,
            max_parallelism=descriptor.max_parallelism,
            attempt_number=descriptor.attempt_number,
            executor_id=self._executor_id,
            configuration=descriptor.configuration,
            partitions=partitions,
            gates=gates,
            network=self._network,
            open_collect_channel=self._collect,
            report_accumulators=self._report_accumulators,
            report_failure=self.fail_externally,
            temp_directory=self._make_temp_directory,
            cached_files=self._cached_files,
            send_to_coordinator=lambda message: self._listener.task_message(self, message),
            report_checkpoint=lambda message: self._listener.task_message(self, message),
            restored=descriptor.restored,
            local_state=self._local_state,
            memory=self._memory.sorts,
        )
        invokable = make_invokable(self._code, environment)
        self._code = b""
        with self._lock:
            self._invokable = invokable
        self._check_not_cancelled()
        return invokable

    def _move(self, source: str, target: str, report: bool = True) -> None:
        """Change the state, or unwind if the task was cancelled meanwhile."""
        with self._lock:
            if self._state != source:
                raise CancelTaskError(f"{self.name} is {self._state}")
            self._state = target
        if report:
            self._listener.task_state_changed(self, target, None, {})

    def _check_not_cancelled(self) -> None:
        if self._state in ("CANCELING", "FAILED"):
            raise CancelTaskError(f"{self.name} is {self._state}")

    def _end_with(self, error: BaseException | None) -> str:
        """Decide the terminal state after the run broke off."""
        # Not under the lock: the exception's class may run user code, and others need the lock.
        failure = None if error is None else self._described(error)
        with self._lock:
            if self._state in TERMINAL_STATES:
                return self._state
            if failure is None or self._state == "CANCELING":
                self._state = "CANCELED"
            else:
                self._failure = failure
                self._state = "FAILED"
            return self._state

    def _release(self, terminal: str) -> None:
        """Release all resources of the attempt; one failure does not stop the rest."""
        steps: list[Callable[[], object]] = []
        if terminal != "FINISHED":
            cause = self._cause()
            steps += [functools.partial(p.fail, cause) for p in self._partitions]
        steps += [client.close for client in self._collect_clients]
        steps += [gate.close for gate in self._gates]
        steps += [partition.release for partition in self._partitions]
        steps.append(functools.partial(self._memory.outputs.release_all, self))
        if self._temp_directory is not None:
            steps.append(self._temp_directory.close)
        for step in steps:
            try:
                step()
            except BaseException:
                logger.exception("%s: a resource could not be released", self.name)

    def _cause(self) -> str:
        if self._failure is None:
            return f"{self.name} was cancelled"
        return f"{self.name}: {self._failure.qualname}: {self._failure.message}"

    # ---- callbacks of the invokable ----------------------------------------------------------

    def _collect(self, collect_id: str) -> CollectClient:
        client = self._open_collect_channel(self.descriptor, collect_id)
        with self._lock:
            self._collect_clients.append(client)
        if self._state in ("CANCELING", "FAILED"):
            client.close()
        return client

    def _report_accumulators(self, accumulators: Mapping[str, object]) -> None:
        self._accumulators = dict(accumulators)
        if self._state == "RUNNING":
            self._listener.task_accumulators(self, self._accumulators)

    def _make_temp_directory(self) -> str:
        with self._lock:
            if self._temp_directory is None:
                parent = self._temp_dir or tempfile.gettempdir()
                self._temp_directory = LocalDirectory(parent, "penstock-task-")
            return self._temp_directory.path

    # ---- cancellation ------------------------------------------------------------------------

    def _start_canceler(self, cause: str) -> None:
        threading.Thread(
            target=self._cancel, args=(cause,), name=f"{self.name} canceler", daemon=True
        ).start()

    def _cancel(self, cause: str) -> None:
        """Wake the task's thread, then interrupt it until it ends or the watchdog times out."""
        with self._lock:
            invokable = self._invokable
            clients = list(self._collect_clients)
        steps: list[Callable[[], object]] = [] if invokable is None else [invokable.cancel]
        steps += [client.close for client in clients]
        cause = f"{self.name} was {cause}"
        steps += [functools.partial(p.fail, cause) for p in self._partitions]
        steps += [gate.close for gate in self._gates]
        for step in steps:
            try:
                step()
            except Exception:
                logger.exception("%s: waking the task failed", self.name)
        waited_s = 0.0
        pause_s = INTERRUPT_AFTER_S
        limit_s = self._cancellation_timeout_s or math.inf
        while not self._ended.wait(pause_s := min(pause_s, limit_s - waited_s)):
            waited_s += pause_s
            if waited_s >= limit_s:
                self._listener.fatal_error(
                    f"{self.name} did not end within {waited_s:.0f} s of being cancelled"
                )
                return
            if self._section.interrupt():
                logger.warning("%s: interrupted, %.0f s after cancellation", self.name, waited_s)
                pause_s = self._cancellation_interval_s
            else:
                pause_s = min(INTERRUPT_AGAIN_S, self._cancellation_interval_s)


def make_invokable(code: bytes, environment: TaskEnvironment) -> Invokable:
    """Unpickle job code and create the invokable that it describes.

    Job code is a ``ChainConfig``, run by `StreamTask`, or any other callable that takes the
    environment and returns an `Invokable`.

    Raises:
        JobCodeError: The code cannot be loaded here.
    """
    try:
        with IMPORT_LOCK:
            chain = unpickled(code)
    except CancelTaskError:
        raise
    except ModuleNotFoundError as error:
        raise JobCodeError(
            f"the job code needs the module {error.name!r}, which this worker does not have: "
            "install it there, or define what is used in the program's main module"
        ) from error
    except BaseException as error:
        raise JobCodeError(
            f"the job code cannot be loaded by this worker: {described_in_time(error)}"
        ) from error
    if callable(chain):
        invokable: Invokable = chain(environment)
        return invokable
    with IMPORT_LOCK:
        from penstock.taskexecutor.task.stream_task import StreamTask

    return StreamTask(chain, environment)
