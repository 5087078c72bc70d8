"""ResourceManager: the TaskExecutors of a cluster, and the assignment of their slots to jobs.

It does not know where workers run; a `ResourceManagerDriver` starts them (as local processes, as
Spark jobs).  A worker connects and registers, and its free slots go to the jobs that declared a
need.  Everything here runs in the main thread.
"""

from __future__ import annotations

import logging
import math
import signal
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock import __version__
from penstock.jobmaster.workers.start_failures import StartFailures
from penstock.rpc.messages import (
    FreeSlot,
    RegisterTaskExecutor,
    RegistrationAccepted,
    RegistrationRefused,
    RequestSlot,
    Shutdown,
)
from penstock.taskexecutor.worker.launch import EXIT_FAILED, EXIT_LOST_DRIVER

if TYPE_CHECKING:
    from penstock.rpc.connection import Connection
    from penstock.rpc.network_buffer_needs import NetworkBufferNeeds

logger = logging.getLogger(__name__)

MAX_TOLD_FAILURES = 3
"""Number of worker failures in the message of a request that cannot be served."""


@dataclass(frozen=True)
class WorkerSpec:
    """One TaskExecutor to start.

    Attributes:
        executor_id: its name; if its host may run it more than once (Spark retries a lost
            task), each run appends ``-`` and a suffix of its own.
        launch: the launch specification, as JSON-compatible values.
        job_id: the job that it serves.
    """

    executor_id: str
    slots: int
    launch: Mapping[str, object]
    job_id: bytes = b""


@dataclass(frozen=True)
class WorkerExit:
    """The end of a worker, as its host saw it.

    ``hopeless`` says that another one would end in the same way, ``host_lost`` that its host is
    lost, and the worker with it, ``platform_lost`` that this driver can start no worker any more.
    """

    executor_id: str
    pid: int | None
    exit_code: int | None
    log_tail: str = ""
    hopeless: bool = False
    host_lost: bool = False
    platform_lost: bool = False

    def __str__(self) -> str:
        if self.host_lost:
            return f"its host is lost: {self.log_tail}"
        how = "could not be started" if self.pid is None else f"process {self.pid} ended"
        if self.exit_code is not None:
            how += _how_ended(self.exit_code)
        tail = self.log_tail.strip()
        if self.hopeless:
            return f"{how}: {tail}"
        return how + (f"; the end of its log:\n{tail}" if tail else "; its log is empty")


_SIGNALS: Final = {
    signal.SIGKILL: "killed from outside, by the kernel if memory ran out",
    signal.SIGSEGV: "a crash in C code that user code called",
    signal.SIGBUS: "a crash in C code that user code called",
    signal.SIGFPE: "a crash in C code that user code called",
    signal.SIGILL: "a crash in C code that user code called",
    signal.SIGABRT: "os.abort(), or C code that user code called gave up",
}
"""The usual cause of a worker's end by a signal."""


def _how_ended(exit_code: int) -> str:
    if exit_code >= 0:
        its_own = exit_code in (EXIT_FAILED, EXIT_LOST_DRIVER)
        why = "" if its_own else " (user code that calls os._exit() ends its worker)"
        return f" with exit code {exit_code}{why}"
    try:
        number = signal.Signals(-exit_code)
    except ValueError:  # a real-time signal has no name
        return f" by signal {-exit_code}"
    why = _SIGNALS.get(number, "")
    return f" by signal {-exit_code} ({number.name}" + (f": {why})" if why else ")")


class ResourceManagerDriver(Protocol):
    """Starts and stops workers on some platform.  Methods are called from one thread at a time."""

    def start(self, requests: Sequence[WorkerSpec]) -> None:
        """Request workers; return at once.  The end of a worker is reported as `WorkerExit`."""

    def places(self) -> int | None:
        """Return how many workers can run at the same time; None if no limit is known."""

    def granted(self) -> int:
        """Return the number of requested workers that got a place to run."""

    def failures(self) -> Sequence[str]:
        """Return why workers could not start or ended, the latest last, with the end of the log."""

    def describe(self, registered: str) -> str:
        """Return the available slots, for the error of a request that cannot be served.

        By default these, and the number of workers that got a place.

        Args:
            registered: The number of TaskExecutors and slots that have registered or start.
        """
        return f"{registered}, {self.granted()} were given a place to run"

    def kill(self, job_id: bytes) -> None:
        """Kill the workers of a job; each loss is reported."""

    def forget_job(self, job_id: bytes) -> None:
        """Start no more workers for a job that has ended, and delete its files.

        By default a job has no files to delete: the cluster ends with it.
        """
        del job_id

    def stop(self, grace_s: float) -> None:
        """Stop all workers: wait up to ``grace_s`` for them, then kill; return when gone."""


DriverFactory = Callable[[Callable[[WorkerExit], None]], ResourceManagerDriver]
"""Creates a driver that reports the end of each worker, from any thread."""


@dataclass
class TaskExecutorGateway:
    """A registered TaskExecutor as the driver sees it.

    Attributes:
        address: The data address for the job that it last offered a slot to; the port is 0
            before.
        jobs: The jobs that it may serve: they existed when it was started.
        has_served: Whether it has offered a slot.
        freeing: Allocations that it was told to free and still holds.
    """

    executor_id: str
    epoch: int
    address: tuple[str, int]
    pid: int
    connection: Connection
    free_slots: set[int]
    jobs: frozenset[bytes]
    has_served: bool = False
    allocations: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    freeing: set[bytes] = field(default_factory=set)
    code_sent: set[str] = field(default_factory=set)

    def free(self, allocation_id: bytes, reason: str) -> None:
        """Tell it to free a slot; until it has, no slot of it is requested."""
        if allocation_id in self.allocations:
            self.freeing.add(allocation_id)
        self.connection.send(FreeSlot(allocation_id, reason))

    def __str__(self) -> str:
        return f"TaskExecutor {self.executor_id} (pid {self.pid})"


class _Start(NamedTuple):
    """A requested worker that has not registered."""

    number: int
    slots: int
    job_id: bytes


class SlotListener(Protocol):
    """Callbacks of a job's slot requests."""

    def slots_not_available(self, *, recoverable: bool) -> None:
        """Handle that workers cannot be started; if recoverable, a later request may succeed."""


def worker_sizes(slots: int, slots_per_executor: int | None, places: int | None) -> list[int]:
    """Return the slots of each worker to start.

    Each has one slot, so that every subtask of a slot sharing group has an interpreter of its own,
    unless the option says otherwise or the host has fewer places: then they are spread evenly.
    If the host has no place left, workers are requested all the same: places become free.

    Args:
        slots: the number of slots needed.
        slots_per_executor: ``taskmanager.numberOfTaskSlots``, or None if not set.
        places: workers that can be started now, or None if no limit is known.
    """
    if slots_per_executor is not None:
        return [slots_per_executor] * math.ceil(slots / slots_per_executor)
    if places is None or places <= 0:
        return [1] * slots
    workers = min(slots, places)
    return [slots // workers + (index < slots % workers) for index in range(workers)]


class ResourceManager:
    """Holds the registered TaskExecutors and serves the slots that jobs declare.

    A worker serves the job that it was started for, and ends with it: one interpreter never sees
    the modules of two programs, and its launch specification has only entries of its job.
    """

    def __init__(
        self,
        driver: ResourceManagerDriver,
        slots_per_executor: int | None,
        launch: Callable[[str, int, int, bytes], Mapping[str, object]],
        heartbeat: tuple[int, int],
        schedule: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float] = time.monotonic,
        new_allocation: Callable[[], bytes] = lambda: uuid.uuid4().bytes,
    ) -> None:
        """Create a ResourceManager without workers.

        Args:
            driver: starts the workers.
            slots_per_executor: slots of each; None leaves it to `worker_sizes`.
            launch: (executor id, epoch, slots, id of its job) → launch specification.
            heartbeat: interval and timeout in ms, as sent to the workers.
            schedule: (delay in s, action) → runs it later, in the main thread.
            clock: the time in s.
            new_allocation: creates the id of an allocation.
        """
        self.executors: dict[str, TaskExecutorGateway] = {}
        self._driver = driver
        self._slots_per_executor = slots_per_executor
        self._launch = launch
        self._heartbeat = heartbeat
        self._last_started = 0
        self._missing: dict[bytes, int] = {}
        self._listeners: dict[bytes, SlotListener] = {}
        self._buffers: dict[bytes, NetworkBufferNeeds] = {}
        self._content: set[bytes] = set()  # the jobs that run with fewer slots
        self._requested: dict[bytes, bytes] = {}
        self._starting: dict[str, _Start] = {}
        self._schedule = schedule
        self._clock = clock
        self._new_allocation = new_allocation
        self._failures = StartFailures()
        self._retry_scheduled = False
        self._last_refused = 0
        self._stopped = False

    # ---- jobs --------------------------------------------------------------------------------

    def declare(
        self,
        job_id: bytes,
        missing: int,
        listener: SlotListener,
        network_buffers: NetworkBufferNeeds,
        *,
        fewer_will_do: bool = False,
    ) -> None:
        """Declare how many slots a job still lacks; this replaces its previous declaration.

        Args:
            job_id: The job.
            missing: The number of slots.
            listener: Called if they are not available.
            network_buffers: The most that the tasks of a slot can use.
            fewer_will_do: Whether the job runs without some of them: then it waits for places
                rather than share the interpreters of a few workers.
        """
        self._missing[job_id] = missing
        self._listeners[job_id] = listener
        self._buffers[job_id] = network_buffers
        if fewer_will_do:
            self._content.add(job_id)
        self._serve()

    def forget_job(self, job_id: bytes, reason: str) -> None:
        """Free the slots of a job that has ended."""
        self._missing.pop(job_id, None)
        self._listeners.pop(job_id, None)
        self._buffers.pop(job_id, None)
        self._content.discard(job_id)
        for executor in self.executors.values():
            for allocation_id, (owner, _) in list(executor.allocations.items()):
                if owner == job_id:
                    executor.free(allocation_id, reason)

    def dismiss(self, job_id: bytes, reason: str) -> list[str]:
        """Stop the workers of a forgotten job; their end counts as no loss.

        Returns:
            Those that were registered.
        """
        for spec_id, start in list(self._starting.items()):
            if start.job_id == job_id:
                del self._starting[spec_id]
        dismissed = [e for e in self.executors.values() if e.jobs == {job_id}]
        for executor in dismissed:
            del self.executors[executor.executor_id]
            for allocation_id in executor.allocations:
                self._requested.pop(allocation_id, None)
            executor.connection.send(Shutdown(reason))
        return [executor.executor_id for executor in dismissed]

    def slot_offered(
        self, executor_id: str, allocation_id: bytes, address: tuple[str, int]
    ) -> None:
        """Note that a requested slot was offered to its job, with the tasks' data address."""
        executor = self.executors.get(executor_id)
        if executor is not None:
            executor.address = address
            executor.has_served = True
            self._failures.succeeded()
        job_id = self._requested.pop(allocation_id, None)
        if job_id is not None and self._missing.get(job_id, 0) > 0:
            self._missing[job_id] -= 1

    def slot_freed(self, executor_id: str, allocation_id: bytes) -> None:
        """Mark a slot as free: it was freed, or the request for it was refused."""
        self._requested.pop(allocation_id, None)
        executor = self.executors.get(executor_id)
        if executor is None:
            return
        executor.freeing.discard(allocation_id)
        held = executor.allocations.pop(allocation_id, None)
        if held is not None:
            executor.free_slots.add(held[1])
            self._serve()

    def given(self, job_id: bytes) -> int:
        """Return the number of slots that the job holds."""
        return sum(
            owner == job_id and allocation_id not in self._requested
            for executor in self.executors.values()
            for allocation_id, (owner, _) in executor.allocations.items()
        )

    def room(self, job_id: bytes) -> int | None:
        """Return the slots that the job can have, its own included; None without a known limit."""
        places = self._driver.places()
        if places is None:
            return None
        free_places = places - len(self.executors) - len(self._starting)
        if free_places > 0 and self._slots_per_executor is None:
            return None  # a worker that is started there gets as many slots as needed
        held = sum(
            sum(owner == job_id for owner, _ in executor.allocations.values())
            + (len(executor.free_slots) if job_id in executor.jobs else 0)
            for executor in self.executors.values()
        )
        held += sum(start.slots for start in self._starting.values() if job_id == start.job_id)
        return held + max(0, free_places) * (self._slots_per_executor or 0)

    def describe(self) -> str:
        """Return the available slots, for the message of a request that cannot be served."""
        slots = sum(len(e.allocations) + len(e.free_slots) for e in self.executors.values())
        text = self._driver.describe(
            f"{len(self.executors)} TaskExecutors with {slots} slots are registered, "
            f"{len(self._starting)} are being started"
        )
        if failures := list(self._driver.failures())[-MAX_TOLD_FAILURES:]:
            # Their logs are mostly equal: the last one stands for all.
            others = [failure.partition("\n")[0] for failure in failures[:-1]]
            text += "; failures of workers:\n" + "\n".join([*others, failures[-1]])
        return text

    # ---- workers -----------------------------------------------------------------------------

    def register(
        self, message: RegisterTaskExecutor, connection: Connection
    ) -> TaskExecutorGateway | None:
        """Register a worker, or reject an old incarnation or another release with a message."""
        known = self.executors.get(message.executor_id)
        has_ended = bool(message.jobs) and not self._listeners.keys() & set(message.jobs)
        if self._stopped or has_ended or (known is not None and known.epoch >= message.epoch):
            self._refuse(message, known, connection)
            return None
        if message.release != __version__:
            reason = (
                f"{message.executor_id} has penstock {message.release or 'of another release'}, "
                f"and the driver {__version__}: install penstock-engine=={__version__} where "
                "workers run"
            )
            logger.warning("refused a worker: %s", reason)
            connection.send(RegistrationRefused(reason))
            connection.close_after_flush(reason)
            return None
        executor = TaskExecutorGateway(
            executor_id=message.executor_id,
            epoch=message.epoch,
            address=(message.host, 0),
            pid=message.pid,
            connection=connection,
            free_slots=set(range(message.slots)),
            jobs=frozenset(message.jobs),
        )
        self.executors[message.executor_id] = executor
        self._starting.pop(self._spec_of(message.executor_id) or "", None)
        interval_ms, timeout_ms = self._heartbeat
        connection.send(RegistrationAccepted(interval_ms, timeout_ms))
        self._serve()
        return executor

    def _refuse(
        self,
        message: RegisterTaskExecutor,
        known: TaskExecutorGateway | None,
        connection: Connection,
    ) -> None:
        reason = "the cluster is shutting down"
        if self._stopped or known is None:
            connection.send(Shutdown(reason if self._stopped else "its job has ended"))
        else:
            reason = (
                f"{message.executor_id} is registered with epoch {known.epoch}, "
                f"this incarnation has {message.epoch}"
            )
            connection.send(RegistrationRefused(reason))
        connection.close_after_flush(reason)

    def registered(self, executor_id: str) -> TaskExecutorGateway | None:
        """Return a registered worker, by its name or by the requested name."""
        exact = self.executors.get(executor_id)
        if exact is not None:
            return exact
        runs = (e for e in self.executors.values() if e.executor_id.startswith(f"{executor_id}-"))
        return next(runs, None)

    def executor_lost(self, executor_id: str) -> None:
        """Remove a lost worker and its slots.

        A job that waited for one of them does not declare its need again.
        """
        executor = self.executors.pop(executor_id, None)
        if executor is not None:
            for allocation_id in executor.allocations:
                self._requested.pop(allocation_id, None)
            if executor.allocations and not (executor.has_served or self._stopped):
                # The worker started, but failed before it served its request.
                self._start_failed(executor.epoch)
            self._serve()

    def worker_exited(self, exit: WorkerExit) -> None:
        """Handle the end of a worker's process; one that never registered is replaced."""
        spec_id = self._spec_of(exit.executor_id)
        if spec_id is None or exit.executor_id in self.executors:
            return
        start = self._starting.pop(spec_id)
        logger.warning("TaskExecutor %s did not register: %s", exit.executor_id, exit)
        self._start_failed(start.number, hopeless=exit.hopeless)
        # A restarting job still needs its slots, and does not declare them again.
        self._serve()

    def _start_failed(self, number: int, *, hopeless: bool = False) -> None:
        """Count a worker, by its number, that ended before it served a job."""
        was_told = number <= self._last_refused
        if self._failures.failed(self._clock(), was_told=was_told, hopeless=hopeless):
            self._last_refused = self._last_started
            for listener in list(self._listeners.values()):
                listener.slots_not_available(recoverable=not hopeless)

    def stop(self) -> None:
        """Tell all workers to shut down and accept no more."""
        self._stopped = True
        for executor in self.executors.values():
            executor.connection.send(Shutdown("the cluster is shutting down"))

    def _spec_of(self, executor_id: str) -> str | None:
        """Return the requested name of a worker that has not registered."""
        return next(
            (
                spec_id
                for spec_id in self._starting
                if executor_id == spec_id or executor_id.startswith(f"{spec_id}-")
            ),
            None,
        )

    # ---- matching ----------------------------------------------------------------------------

    def _serve(self) -> None:
        """Assign free slots to the jobs that lack some, and start workers for the rest."""
        if self._stopped:
            return
        for job_id, missing in self._missing.items():
            lacking = missing - sum(owner == job_id for owner in self._requested.values())
            for executor in self.executors.values():
                if job_id not in executor.jobs:
                    continue
                if executor.freeing:
                    # Its network, which may be too small, is replaced when no slot uses it.
                    lacking -= len(executor.freeing) + len(executor.free_slots)
                    continue
                while lacking > 0 and executor.free_slots:
                    self._request(job_id, executor, min(executor.free_slots))
                    lacking -= 1
            lacking -= sum(
                start.slots for start in self._starting.values() if start.job_id == job_id
            )
            if lacking > 0 and not self._has_to_wait():
                places = None if job_id in self._content else self._driver.places()
                if places is not None:
                    places -= len(self.executors) + len(self._starting)
                self._start(job_id, worker_sizes(lacking, self._slots_per_executor, places))

    def _has_to_wait(self) -> bool:
        """Return whether no worker may start yet; the check runs again when one may."""
        wait_s = self._failures.wait_s(self._clock())
        if wait_s > 0 and not self._retry_scheduled:

            def retry() -> None:
                self._retry_scheduled = False
                self._serve()

            self._retry_scheduled = True
            self._schedule(wait_s, retry)
        return wait_s > 0

    def _request(self, job_id: bytes, executor: TaskExecutorGateway, slot: int) -> None:
        allocation_id = self._new_allocation()
        executor.free_slots.discard(slot)
        executor.allocations[allocation_id] = (job_id, slot)
        self._requested[allocation_id] = job_id
        executor.connection.send(RequestSlot(job_id, slot, allocation_id, self._buffers[job_id]))

    def _start(self, job_id: bytes, sizes: Sequence[int]) -> None:
        specs = []
        for slots in sizes:
            self._last_started = number = self._last_started + 1
            executor_id = f"taskexecutor-{number}"
            self._starting[executor_id] = _Start(number, slots, job_id)
            launch = self._launch(executor_id, number, slots, job_id)
            specs.append(WorkerSpec(executor_id, slots, launch, job_id))
        self._driver.start(specs)
