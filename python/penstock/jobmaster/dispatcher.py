"""Dispatcher: accepts jobs, runs a JobMaster for each, and owns the cluster they share.

It owns the driver's one port, the main thread, the ResourceManager, heartbeats and the results
of collect sinks.  `stop` releases all of them.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.checkpoint_storage.recovery import RecoverySource
from penstock.checkpoint_storage.storage import make_directories
from penstock.common.options.checkpointing import TOLERABLE_FAILURES
from penstock.common.options.cluster import LOG_LEVEL
from penstock.common.options.rest import without_secrets
from penstock.common.options.scope import check_job
from penstock.errors import (
    ConfigurationError,
    CorruptStreamError,
    JobExecutionError,
    NoResourceAvailableError,
    TaskExecutorLostError,
)
from penstock.jobmaster.adaptive.rescaling import override_parallelism, rescale_as_before
from penstock.jobmaster.blob_server import BlobServer
from penstock.jobmaster.cluster_gateway import ClusterGateway
from penstock.jobmaster.cluster_settings import ClusterSettings
from penstock.jobmaster.collect import CollectService
from penstock.jobmaster.job_master import JobMaster
from penstock.jobmaster.job_master_services import JobMasterServices
from penstock.jobmaster.local_job_gateway import LocalJobGateway
from penstock.jobmaster.main_thread import MainThread
from penstock.jobmaster.progress import ProgressReader
from penstock.jobmaster.queue_limits import (
    MAX_CALLERS,
    MAX_CALLS_OF_A_JOB,
    MAX_EVENTS,
    MAX_MESSAGE_BATCHES,
)
from penstock.jobmaster.state_reading import StateReader
from penstock.jobmaster.user_failure import exception_of
from penstock.jobmaster.worker_message_routes import WorkerMessageRoutes
from penstock.jobmaster.workers.heartbeat_manager import HeartbeatManager
from penstock.jobmaster.workers.inspections import Inspections
from penstock.jobmaster.workers.log_tails import LogTails
from penstock.jobmaster.workers.message_router import MessageRouter, WorkerConnection
from penstock.jobmaster.workers.printed_text import PrintedTextWriter
from penstock.jobmaster.workers.resource_manager import (
    DriverFactory,
    ResourceManager,
    TaskExecutorGateway,
    WorkerExit,
)
from penstock.jobmaster.workers.worker_logs import WorkerLogs, levels
from penstock.jobmaster.workers.worker_losses import WorkerLosses
from penstock.metrics.store import MetricStore
from penstock.rpc import messages
from penstock.rpc.authentication import new_token
from penstock.rpc.frames import read_frame
from penstock.rpc.job_certificate import control_certificate
from penstock.rpc.job_credentials import DataPlaneSecret
from penstock.rpc.server import RpcServer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock.errors import LeadershipLostError
    from penstock.graph.job_graph import JobGraph
    from penstock.high_availability.job_records import JobRecords
    from penstock.jobmaster.main_thread import QueueUser
    from penstock.jobmaster.scheduling.failure import Failure
    from penstock.rpc.connection import Connection

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S = 10.0


class DuplicateJobSubmissionError(JobExecutionError):
    """A job with this id is running or has run."""


class ClusterMonitoring(Protocol):
    """The interfaces of a cluster for watchers.

    Attributes:
        metrics_interval_ms: Interval at which workers send their metrics; 0 for never.
    """

    metrics_interval_ms: int

    def start(self) -> None:
        """Open the ports and start to report."""

    def stop(self) -> None:
        """Report a last time, and stop."""


class Dispatcher:
    """One cluster and the jobs on it.

    Args:
        configuration: options of the cluster and of its workers.
        driver_factory: creates the driver that starts workers; gets the callback for their exits.
        monitoring: creates the interfaces for watchers, which start and end with the cluster.
        launch_extras: further entries of the workers' launch specification.
        token: the token that clients of the port must know; a new one if None.
        port: the port; the kernel chooses if 0.
        serves_many: whether it serves many jobs: a worker has one slot and ends with its job.
    """

    def __init__(
        self,
        configuration: Mapping[str, str],
        driver_factory: DriverFactory,
        monitoring: Callable[[ClusterGateway], ClusterMonitoring],
        launch_extras: Mapping[str, object] | None = None,
        *,
        token: bytes | None = None,
        port: int = 0,
        serves_many: bool = False,
    ) -> None:
        self.settings = settings = ClusterSettings.from_configuration(configuration)
        self.blobs = BlobServer(settings.temp_dirs)
        self.collect = CollectService()
        tails = LogTails()
        self._logs = WorkerLogs(tails)
        self._printed = PrintedTextWriter()
        self._metrics = MetricStore()
        self._configuration = dict(configuration)
        self._launch_extras = dict(launch_extras or {})
        self._token = token or new_token()
        self._serves_many = serves_many
        self._extras_of: dict[bytes, Mapping[str, object]] = {}
        self._data_plane = DataPlaneSecret(tls_enabled=settings.tls_enabled)
        self._stop_lock = threading.Lock()
        self._stopped = threading.Event()
        self._stopping = False
        self._jobs: dict[bytes, JobMaster | None] = {}
        self._connections: set[Connection] = set()
        self._connections_lock = threading.Lock()
        self._losses = WorkerLosses()
        self._services = JobMasterServices()
        self._main_thread = main_thread = MainThread("jobmaster", self._main_thread_failed)
        self._calls = main_thread.user("calls of the program", MAX_CALLERS)
        self._messages = main_thread.user(
            "messages of TaskExecutors", MAX_MESSAGE_BATCHES, waits=True
        )
        self._ends = main_thread.user("ends of TaskExecutors", MAX_EVENTS)
        self._control_certificate = (
            control_certificate(self._token) if settings.tls_enabled else None
        )
        self._server = RpcServer(
            self._token, settings.bind_host, port, tls_identity=self._control_certificate
        )
        self._server.register(messages.ROLE_CONTROL, self._serve_control)
        self._server.register(messages.ROLE_HEARTBEAT, self._serve_heartbeat)
        self._server.register(messages.ROLE_COLLECT, self.collect.serve)
        self._server.register(messages.ROLE_BLOB, self.blobs.serve)
        self._heartbeats = HeartbeatManager(
            settings.heartbeat_interval_ms / 1000,
            settings.heartbeat_timeout_ms / 1000,
            self._heartbeat_timed_out,
        )
        self._driver = driver_factory(lambda end: self._ends.post(lambda: self._worker_exited(end)))
        self._resources = ResourceManager(
            self._driver,
            1 if serves_many else settings.slots_per_executor,
            self._launch_specification,
            (settings.heartbeat_interval_ms, settings.heartbeat_timeout_ms),
            main_thread.user("starts of TaskExecutors", MAX_EVENTS).schedule,
        )
        self._inspections = Inspections(
            main_thread.user("looks into TaskExecutors", MAX_EVENTS), self._resources
        )
        self._router = self._routed(self._messages)
        self.gateway = ClusterGateway(
            self._configuration,
            settings,
            self._metrics,
            tails,
            self._inspections,
            main_thread.user("questions of watchers", MAX_CALLERS),
            self._resources,
            self._heartbeats,
        )
        self._monitoring = monitoring(self.gateway)

    def add_launch_extras(self, extras: Mapping[str, object]) -> None:
        """Add entries to the launch specification of workers that are started from now on."""
        self._launch_extras.update(extras)

    def register(self, role: str, handler: Callable[[socket.socket, str], None]) -> None:
        """Register an external handler for a role; before `start`."""
        self._server.register(role, handler)

    @property
    def address(self) -> tuple[str, int]:
        """Return the host and port that workers dial."""
        return self.settings.dialled_host, self._server.address[1]

    def start(self) -> None:
        """Open the ports and start the main thread."""
        self._main_thread.start()
        self._heartbeats.start()
        self._server.start()
        self._monitoring.start()

    def submit(
        self,
        job_graph: JobGraph,
        collect_ids: Iterable[str] = (),
        on_ended: Callable[[LocalJobGateway], None] | None = None,
        on_interrupt: Callable[[LocalJobGateway], None] | None = None,
        records: JobRecords | None = None,
        *,
        launch_extras: Mapping[str, object] | None = None,
        rebuilt: Callable[[Failure], BaseException] = exception_of,
    ) -> LocalJobGateway:
        """Start a job and return its gateway.

        If the storage for its checkpoints is unusable, the job fails before any task starts.

        Args:
            job_graph: the job, sorted topologically.
            collect_ids: names of its collect sinks, whose results the gateway provides.
            on_ended: completes the gateway, from the main thread; at once if not given.
            on_interrupt: see `LocalJobGateway`.
            records: the records of former drivers, and for the next one.
            launch_extras: further entries of the launch specification of its workers.
            rebuilt: creates the exception of a failure that ends it.

        Raises:
            DuplicateJobSubmissionError: this job id is running here or has ended here.
            InvalidProgramError: the job does not fit the checkpoint that it starts from.
            CheckpointStorageError: that checkpoint cannot be read.
            ConfigurationError: the job's value of a cluster option differs from this cluster's; or
                its vertices cannot have the configured parallelism; or encryption is enabled and
                the library that creates certificates is missing.
        """
        check_job(job_graph.configuration, self._configuration)
        self._data_plane.credentials(job_graph.job_id)
        files = FileSystems(job_graph.configuration)
        recovery: list[RecoverySource] = []
        override_parallelism(job_graph)
        if records is not None:
            recovery = records.checkpoints(files)
            rescale_as_before(job_graph, records.parallelisms())
        # A driver that resumes from a checkpoint has found the directory.
        hopeless = None if recovery else _cannot_take_checkpoints(job_graph, files)
        if not recovery and (first := RecoverySource.of(job_graph.configuration)) is not None:
            recovery = [first]

        def run() -> LocalJobGateway:
            job_id = job_graph.job_id
            if job_id in self._jobs:
                raise DuplicateJobSubmissionError(f"job {job_id.hex()} was submitted before")
            gateway = LocalJobGateway(
                job_id,
                job_graph.name,
                self._calls,
                self.collect,
                self._metrics,
                ProgressReader(self.gateway, job_id).read,
                on_interrupt,
                self.gateway.outdate,
                StateReader(self.gateway, job_id).read,
            )
            self._extras_of[job_id] = launch_extras or {}
            for collect_id in collect_ids:
                self.collect.register(job_id, collect_id)
            master = JobMaster(
                job_graph,
                self.settings,
                self._main_thread.user(
                    f"calls of job {job_graph.name}",
                    MAX_CALLS_OF_A_JOB,
                    on_error=lambda error: self._job_broken(job_id, error),
                ),
                self._resources,
                gateway,
                on_ended=lambda master: self._job_ended(
                    master, on_ended or LocalJobGateway.complete
                ),
                on_stuck=lambda: self._kill_workers(job_id),
                on_checkpoint_request=partial(self.collect.take_all_until, job_id),
                recovery=recovery,
                records=records,
                rebuilt=rebuilt,
                services=self._services,
            )
            gateway.attach(master)
            self._jobs[job_id] = master
            self.gateway.job_started(master)
            self._calls.post(lambda: master.start(hopeless))
            return gateway

        return self._calls.call(run, CALL_TIMEOUT_S)

    def leadership_lost(self, error: LeadershipLostError) -> None:
        """End the jobs here, in any state: another driver may run them."""
        self._calls.post(lambda: self._abandon_jobs(error))

    def stop(self) -> None:
        """End workers, connections, threads and the port; return when they are gone.

        Jobs that have not ended fail.  Any thread but the main thread; idempotent: a second call
        waits for the first.
        """
        with self._stop_lock:
            first = not self._stopping
            self._stopping = True
        if not first:
            self._stopped.wait()
            return
        with contextlib.ExitStack() as steps:
            # Run from the last to the first, each of them whatever the others raise.
            steps.callback(self._stopped.set)
            steps.callback(self._main_thread.close)
            steps.callback(self._logs.close)
            steps.callback(self._printed.close)
            steps.callback(self._close_connections)
            steps.callback(self._heartbeats.close)
            steps.callback(self._server.close)
            steps.callback(self.blobs.close)
            steps.callback(self._driver.stop, self.settings.shutdown_grace_ms / 1000)
            steps.callback(self._calls.call, self._end_jobs, CALL_TIMEOUT_S)
            steps.callback(self._monitoring.stop)

    # ---- workers, from the threads of their connections --------------------------------------

    def _serve_control(self, sock: socket.socket, peer: str) -> None:
        worker = WorkerConnection(sock, peer, self._router.received, self.disconnected)
        with self._connections_lock:
            self._connections.add(worker.connection)
        worker.connection.start()

    def _serve_heartbeat(self, sock: socket.socket, peer: str) -> None:
        try:
            body = read_frame(sock)
            if body is None:
                sock.close()
                return
            hello = messages.heartbeat_decoder().decode(body)
        except (OSError, CorruptStreamError) as error:
            logger.warning("dropped %s: %s", peer, error)
            sock.close()
            return
        # If the main thread ends before it has seen the socket, this closes it with the others.
        self._heartbeats.admit(sock)
        self._messages.post(lambda: self._watch(hello, sock))

    def _heartbeat_timed_out(self, executor_id: str, reason: str) -> None:
        def disconnect() -> None:
            executor = self._resources.executors.get(executor_id)
            if executor is not None:
                executor.connection.close(reason)

        self._ends.post(disconnect)

    def disconnected(self, worker: WorkerConnection, reason: str) -> None:
        """Handle a closed control connection, all of whose messages have been received."""
        with self._connections_lock:
            self._connections.discard(worker.connection)
        self._ends.post(lambda: self._peer_lost(worker, reason))

    # ---- the main thread ---------------------------------------------------------------------

    def _routed(self, messages_of_workers: QueueUser) -> MessageRouter:
        routes = WorkerMessageRoutes(
            self._logs,
            self._printed,
            self._metrics,
            self._inspections,
            self._resources,
            self._declare_lost,
            self._with_job,
        )
        return MessageRouter(routes.table(), messages_of_workers, self._resources.executors)

    def _with_job(self, job_id: bytes, action: Callable[[JobMaster], object]) -> bool:
        """Run an action on the JobMaster of a job; return whether the job runs."""
        master = self._jobs.get(job_id)
        if master is None:
            return False
        with self._breaking(master):
            action(master)
        return True

    def _watch(self, hello: messages.HeartbeatHello, sock: socket.socket) -> None:
        executor = self._resources.executors.get(hello.executor_id)
        if executor is None or executor.epoch != hello.epoch:
            logger.warning("a heartbeat connection of unknown worker %s", hello.executor_id)
            self._heartbeats.refuse(sock)
            return
        self._heartbeats.watch(hello.executor_id, sock)

    def _peer_lost(self, worker: WorkerConnection, reason: str) -> None:
        executor = worker.executor
        if executor is None:
            return
        known = self._resources.executors.get(executor.executor_id)
        if known is not executor:
            if known is None:  # it was dismissed, and kept its heartbeats until now
                self._heartbeats.forget(executor.executor_id)
            return
        if (
            self._losses.disconnected(executor.executor_id, reason, self._services.clock.now_ms())
            or self._stopping
        ):
            self._declare_lost(executor, reason)
        else:
            self._await_other_report()

    def _worker_exited(self, end: WorkerExit) -> None:
        if end.platform_lost:
            error = NoResourceAvailableError(end.log_tail)
            # The next driver has a platform of its own, so these jobs have not failed.
            self._abandon_jobs(error, lambda master: master.next_driver_resumes)
        executor = self._resources.registered(end.executor_id)
        if executor is None:
            self._resources.worker_exited(end)
            return
        if end.executor_id != executor.executor_id:
            # The report of a lost host names the worker as it was requested.
            end = replace(end, executor_id=executor.executor_id, host_lost=True)
        if self._losses.exited(end, self._services.clock.now_ms()):
            self._declare_lost(executor)
        else:
            self._await_other_report()

    def _await_other_report(self) -> None:
        deadline_ms = self._losses.next_deadline_ms()
        if deadline_ms is not None:
            delay_s = max(0, deadline_ms - self._services.clock.now_ms()) / 1000
            self._ends.schedule(delay_s, self._declare_overdue)

    def _declare_overdue(self) -> None:
        for executor_id in self._losses.tick(self._services.clock.now_ms()):
            executor = self._resources.executors.get(executor_id)
            if executor is None:
                self._losses.explained(executor_id)
            else:
                self._declare_lost(executor)
        self._await_other_report()

    def _declare_lost(self, executor: TaskExecutorGateway, reason: str | None = None) -> None:
        executor_id = executor.executor_id
        if self._resources.executors.get(executor_id) is not executor:
            return
        reason = self._losses.explained(executor_id, reason)
        error = TaskExecutorLostError(f"{executor} is lost: {reason}")
        if not self._stopping:
            logger.warning("%s", error)
            self._logs.worker_lost(executor_id, str(error))
        self._heartbeats.forget(executor_id)
        self._metrics.worker_lost(executor_id)
        self._inspections.worker_lost(executor_id)
        self._resources.executor_lost(executor_id)
        executor.connection.close(reason)
        for master in list(self._jobs.values()):
            if master is not None:
                with self._breaking(master):
                    master.executor_lost(executor_id, error)

    def _job_ended(self, master: JobMaster, complete: Callable[[LocalJobGateway], None]) -> None:
        self._jobs[master.job_id] = None
        self.gateway.job_ended(master)
        self._data_plane.forget(master.job_id)
        self.collect.job_ended(master.job_id)
        if self._serves_many:
            self._release_workers(master.job_id)
        complete(master.gateway)

    def _release_workers(self, job_id: bytes) -> None:
        """Release the workers of one ended job for others."""
        for executor_id in self._resources.dismiss(job_id, "its job has ended"):
            self._losses.explained(executor_id)
            self._metrics.worker_lost(executor_id)
            self._inspections.worker_lost(executor_id)
        self._extras_of.pop(job_id, None)
        self._driver.forget_job(job_id)
        # Workers that do not exit by themselves; the others have already exited.
        grace_s = self.settings.shutdown_grace_ms / 1000
        self._ends.schedule(grace_s, lambda: self._kill_workers(job_id))

    def _close_connections(self) -> None:
        with self._connections_lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close("the cluster is shutting down")
            connection.join(1.0)

    def _end_jobs(self) -> None:
        self._abandon_jobs(JobExecutionError("the cluster was shut down before the job ended"))
        self._resources.stop()

    def _abandon_jobs(
        self, error: BaseException, which: Callable[[JobMaster], bool] = lambda _: True
    ) -> None:
        for master in list(self._jobs.values()):
            if master is not None and which(master):
                master.abandon(error)

    def _kill_workers(self, job_id: bytes) -> None:
        """Kill the workers of a cancelled job whose user code does not end."""
        self._driver.kill(job_id)

    def _main_thread_failed(self, error: BaseException) -> None:
        """End all jobs instead of leaving them hanging: a defect affects all of them."""
        self._abandon_jobs(error)

    def _job_broken(self, job_id: bytes, error: BaseException) -> None:
        """End one job: a defect affects it alone."""
        master = self._jobs.get(job_id)
        if master is not None:
            master.broken(error)

    @contextlib.contextmanager
    def _breaking(self, master: JobMaster) -> Iterator[None]:
        """End one job if the body raises; work for others continues."""
        try:
            yield
        except Exception as error:
            logger.exception("an action for job %s failed", master.job_id.hex())
            master.broken(error)

    def _launch_specification(
        self, executor_id: str, epoch: int, slots: int, job_id: bytes
    ) -> Mapping[str, object]:
        certificate = self._control_certificate
        return (
            {
                "driver": list(self.address),
                "token": self._token.hex(),
                "control_certificate": certificate and tuple(part.hex() for part in certificate),
                "jobs": {job_id.hex(): msgspec.to_builtins(self._data_plane.credentials(job_id))},
                "executor_id": executor_id,
                "slots": slots,
                "bind_host": self.settings.near_host,
                "runtime": self.settings.runtime,
                "epoch": epoch,
                "config": without_secrets(self._configuration),
                "temp_dirs": self.settings.temp_dirs,
                "log_levels": levels(is_chosen=LOG_LEVEL.read(self._configuration) is not None),
                "metrics_interval_ms": self._monitoring.metrics_interval_ms,
            }
            | self._launch_extras
            | dict(self._extras_of.get(job_id, {}))
        )


def _cannot_take_checkpoints(job: JobGraph, files: FileSystems) -> ConfigurationError | None:
    """Return why a job can never take a checkpoint; None if it can now or perhaps later."""
    if job.checkpoint_interval_ms is None:
        return None
    try:
        out_of_reach = make_directories(job.configuration, job.job_id, files)
    except ConfigurationError as error:
        return error
    for option, reason in out_of_reach:
        logger.warning(
            "job %s starts though %s cannot be reached now: %s; checkpoints that fail because of "
            "it count as %s and the restart strategy say",
            job.name,
            option,
            reason,
            TOLERABLE_FAILURES.key,
        )
    return None
