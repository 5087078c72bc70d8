"""`penstock taskexecutor`: hosts the workers of a session's jobs on this machine.

It connects to the jobmanager, proves the session's token, reports its number of slots, and starts a
worker process for each slot that a job gets: no interpreter loads the code of two jobs.  If the
jobmanager is lost, the workers end and the host looks for the next one at the same address.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.dependencies.worker_environment import SharedEnvironment, WorkerEnvironment
from penstock.errors import (
    AuthenticationError,
    CheckpointStorageError,
    ConfigurationError,
    CorruptStreamError,
    DependencyError,
)
from penstock.rpc.client import dial, local_address_towards
from penstock.rpc.connection import Connection
from penstock.rpc.frames import write_frame
from penstock.rpc.heartbeat import HeartbeatSender
from penstock.rpc.host_messages import (
    ROLE_HOST,
    ROLE_HOST_HEARTBEAT,
    EndHost,
    ForgetJob,
    HostAccepted,
    HostRefused,
    KillWorkers,
    RegisterHost,
    StartWorker,
    WorkerEnded,
    own_versions,
    to_host_decoder,
)
from penstock.rpc.message import encode_message
from penstock.rpc.messages import HeartbeatHello
from penstock.runtime import runtime
from penstock.taskexecutor.worker.forked_process import ForkServers
from penstock.taskexecutor.worker.launch import EXIT_FAILED, EXIT_LOST_DRIVER
from penstock.taskexecutor.worker.worker_process import WorkerProcess, surroundings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.rpc.control_credentials import ControlCredentials
    from penstock.rpc.host_messages import ToHost

logger = logging.getLogger(__name__)

DIAL_TIMEOUT_S: Final = 3.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 30.0
LOOK_S: Final = 0.5
"""Interval between two checks whether another jobmanager leads."""
LOST_LOOK_S: Final = 0.1
"""The same while there is no jobmanager: no job runs in the meantime."""
END_TIMEOUT_S: Final = 12.0
"""Time that workers have to end before they are killed; longer than their own limit."""


class TaskExecutorHost:
    """Hosts workers until it is stopped or refused; see the module's docstring."""

    def __init__(
        self,
        find: Callable[[], tuple[str, int] | None],
        credentials: ControlCredentials,
        slots: int,
        *,
        bind_host: str | None = None,
        temp_dirs: Sequence[str] = (),
        registration_timeout_s: float = 300.0,
    ) -> None:
        """Create a host; `run` starts it.

        Args:
            find: Returns host and port of the jobmanager, or None while there is none.  It is
                called periodically; another result means another jobmanager.
            credentials: The session's credentials.
            slots: Most workers that run here at a time.
            bind_host: Address on which workers listen for each other; None for the address that the
                jobmanager sees.
            temp_dirs: Folders for the workers' temporary files; empty for the session's setting.
            registration_timeout_s: Time to look for a jobmanager before giving up.
        """
        self.find = find
        self.credentials = credentials
        self.slots = slots
        self.bind_host = bind_host
        self.temp_dirs = list(temp_dirs)
        self.servers = ForkServers() if sys.platform == "linux" else None
        self._timeout_s = registration_timeout_s
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._link: _Link | None = None

    def run(self) -> int:
        """Serve until the end; return the exit code.

        The code is 0 after an orderly end, `EXIT_FAILED` if the host was refused, and
        `EXIT_LOST_DRIVER` if there was no jobmanager for too long.
        """
        if self.servers is not None:
            # It imports the workers' modules now, before anything waits for it.
            launch = {"runtime": runtime()}
            self.servers.prepare(surroundings_of(launch, WorkerEnvironment(), _python_path()))
        try:
            return self._serve()
        finally:
            if self.servers is not None:
                self.servers.close()

    def retire(self) -> None:
        """Make `run` return once the jobmanager has gone; any thread."""
        self._stopping.set()

    def stop(self) -> None:
        """Make `run` end its workers and return; any thread, also from a signal handler."""
        self._stopping.set()
        link = self._link
        if link is not None:
            link.close("this taskexecutor was told to end")

    def _serve(self) -> int:
        pause_s, last_seen_s = FIRST_PAUSE_S, time.monotonic()
        where = "no address"
        address: tuple[str, int] | None = None
        while not self._stopping.is_set():
            try:
                address = self.find()
                if address is None:
                    raise ConnectionError("no jobmanager leads")
                where = "{}:{}".format(*address)
                link = _Link(self, address)
                with self._lock:
                    self._link = link
                if self._stopping.is_set():
                    link.close("this taskexecutor was told to end")
                link.serve()
            except (AuthenticationError, ConfigurationError) as error:
                logger.error("the jobmanager %s cannot be trusted: %s", where, error)
                return EXIT_FAILED
            except (OSError, CheckpointStorageError) as error:
                reason = str(error)
            else:
                if link.code is not None:
                    return link.code
                reason = link.reason
                if link.was_accepted:
                    pause_s, last_seen_s = FIRST_PAUSE_S, time.monotonic()
            if self._stopping.is_set():
                break
            if time.monotonic() - last_seen_s >= self._timeout_s:
                logger.error(
                    "no jobmanager has answered at %s for %g s: %s", where, self._timeout_s, reason
                )
                return EXIT_LOST_DRIVER
            logger.warning("no jobmanager at %s (%s); retrying in %g s", where, reason, pause_s)
            self._pause(pause_s, address)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return 0

    def _pause(self, pause_s: float, former: tuple[str, int] | None) -> None:
        """Wait before the next attempt, but stop waiting once another jobmanager leads."""
        until_s = time.monotonic() + pause_s
        while (left_s := until_s - time.monotonic()) > 0:
            if self._stopping.wait(min(LOST_LOOK_S, left_s)) or self.other_than(former) is not None:
                return

    def other_than(self, address: tuple[str, int] | None) -> tuple[str, int] | None:
        """Return the address of another leading jobmanager; None if none is known."""
        try:
            found = self.find()
        except (OSError, CheckpointStorageError) as error:
            logger.debug("the leading jobmanager is unknown: %s", error)
            return None
        return None if found == address else found


class _Link:
    """One registration, from the connection to its loss, with the workers it started."""

    def __init__(self, host: TaskExecutorHost, address: tuple[str, int]) -> None:
        self.code: int | None = None
        self.reason = ""
        self.was_accepted = False
        self._host = host
        self._address = address
        self._id = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._lock = threading.Condition()
        self._workers: dict[str, _Worker] = {}
        self._environments: dict[bytes, SharedEnvironment] = {}
        self._forgotten: set[bytes] = set()
        self._closed = threading.Event()
        self._heartbeat: HeartbeatSender | None = None
        self._handlers: dict[type[ToHost], Callable[[Any], None]] = {
            HostAccepted: self._accepted,
            HostRefused: self._refused,
            EndHost: self._told_to_end,
            StartWorker: self._start_worker,
            KillWorkers: self._kill_workers,
            ForgetJob: self._forget_job,
        }
        sock = dial(address, host.credentials, ROLE_HOST, DIAL_TIMEOUT_S)
        self._connection = Connection(
            sock, to_host_decoder(), self._handle_all, self._lost, "jobmanager connection"
        )

    def serve(self) -> None:
        """Serve until the connection is lost and no worker is left."""
        self._connection.start()
        self._connection.send(RegisterHost(self._id, os.getpid(), self._host.slots, own_versions()))
        while not self._closed.wait(LOOK_S):
            self._look_for_another()
        if self._heartbeat is not None:
            self._heartbeat.close()
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.end()
        deadline_s = time.monotonic() + END_TIMEOUT_S
        for worker in workers:
            if not worker.join(max(0.0, deadline_s - time.monotonic())):
                worker.kill()
                worker.join(END_TIMEOUT_S)
        with self._lock:
            environments, self._environments = list(self._environments.values()), {}
        for environment in environments:
            environment.leave()
        self._connection.join(1.0)

    def close(self, reason: str) -> None:
        self._connection.close(reason)

    def _look_for_another(self) -> None:
        """Close the link if another jobmanager leads: one that hangs times out late."""
        other = self._host.other_than(self._address)
        if other is not None:
            self.close("another jobmanager leads, at {}:{}".format(*other))

    # ---- the connection's thread -------------------------------------------------------------

    def _lost(self, reason: str) -> None:
        self.reason = self.reason or reason
        self._closed.set()

    def _handle_all(self, received: list[ToHost]) -> None:
        for message in received:
            self._handlers[type(message)](message)

    def _refused(self, message: HostRefused) -> None:
        logger.error("the jobmanager refuses this taskexecutor: %s", message.reason)
        self._end(EXIT_FAILED, message.reason)

    def _told_to_end(self, message: EndHost) -> None:
        logger.info("this taskexecutor ends: %s", message.reason)
        self._end(0, message.reason)

    def _start_worker(self, message: StartWorker) -> None:
        worker = _Worker(self, message)
        with self._lock:
            self._workers[message.executor_id] = worker
        worker.start()

    def _kill_workers(self, message: KillWorkers) -> None:
        with self._lock:
            workers = [w for w in self._workers.values() if w.job_id == message.job_id]
        for worker in workers:
            worker.kill()

    def _forget_job(self, message: ForgetJob) -> None:
        with self._lock:
            self._forgotten.add(message.job_id)
        self._clean()

    def _end(self, code: int, reason: str) -> None:
        self.code, self.reason = code, reason
        self._connection.close(reason)

    def _accepted(self, message: HostAccepted) -> None:
        sock = dial(self._address, self._host.credentials, ROLE_HOST_HEARTBEAT)
        write_frame(sock, encode_message(HeartbeatHello(self._id, 0)))
        self._heartbeat = HeartbeatSender(
            sock, message.heartbeat_interval_ms, message.heartbeat_timeout_ms, self.close
        )
        self._heartbeat.start()
        self.was_accepted = True
        logger.info(
            "%s is registered at the jobmanager %s:%d with %d slots",
            self._id,
            *self._address,
            self._host.slots,
        )

    # ---- workers -----------------------------------------------------------------------------

    def launch(self, message: StartWorker) -> dict[str, object]:
        """Return the launch specification of a worker, adapted to this machine."""
        host = self._host
        launch: dict[str, object] = msgspec.json.decode(message.launch)
        launch["driver"] = list(self._address)
        launch["bind_host"] = host.bind_host or local_address_towards(*self._address)
        if host.temp_dirs:
            launch["temp_dirs"] = host.temp_dirs
        return launch

    def environment(self, job_id: bytes) -> SharedEnvironment:
        """Return the files of a job on this machine, which its workers share."""
        with self._lock:
            return self._environments.setdefault(job_id, SharedEnvironment())

    def servers_for(self, environment: WorkerEnvironment) -> ForkServers | None:
        """Return the fork server; None if the job has its own interpreter, path or folder."""
        is_plain = environment.interpreter is None and not (
            environment.python_path or environment.working_directory or environment.scripts
        )
        return self._host.servers if is_plain else None

    def ended(self, end: WorkerEnded) -> None:
        """Report a worker that has ended."""
        with self._lock:
            self._workers.pop(end.executor_id, None)
        self._clean()
        self._connection.send(end)

    def _clean(self) -> None:
        """Remove the files of forgotten jobs that no worker uses any more."""
        with self._lock:
            in_use = {worker.job_id for worker in self._workers.values()}
            done = self._forgotten - in_use
            self._forgotten &= in_use
            environments = [self._environments.pop(job_id, None) for job_id in done]
        for environment in environments:
            if environment is not None:
                environment.leave()


class _Worker:
    """One worker process, and the thread that started it and waits for it."""

    def __init__(self, link: _Link, message: StartWorker) -> None:
        self.job_id = message.job_id
        self._link = link
        self._message = message
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._is_over = False
        self._thread = threading.Thread(
            target=self._run, name=f"host of {message.executor_id}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            if self._process is not None:
                self._process.end()

    def kill(self) -> None:
        with self._lock:
            self._is_over = True
            if self._process is not None:
                self._process.kill()

    def _run(self) -> None:
        name = self._message.executor_id
        end = WorkerEnded(name, None, None, "", False)
        try:
            end = self._host()
        except (OSError, CorruptStreamError) as error:
            end = WorkerEnded(name, None, None, str(error), False)
        except DependencyError as error:
            end = WorkerEnded(name, None, None, str(error), True)
        finally:
            self._link.ended(end)

    def _host(self) -> WorkerEnded:
        name = self._message.executor_id
        launch = self._link.launch(self._message)
        environment = self._link.environment(self.job_id).of(launch)
        with self._lock:
            if self._is_over:
                return WorkerEnded(name, None, None, "stopped before its start", False)
        with WorkerProcess(
            launch,
            python_path=_python_path(),
            environment=environment,
            servers=self._link.servers_for(environment),
        ) as process:
            # Not locked before: the process may take a while to start, and nobody waits for that.
            with self._lock:
                self._process = process
                if self._is_over:
                    process.kill()
            code = process.wait()
        return WorkerEnded(name, process.pid, code, process.log_tail, False)


def _python_path() -> list[str]:
    return [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
